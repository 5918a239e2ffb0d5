"""Scripts of other people's readers, run by the interpreter that has them (`make oracles`)."""

from __future__ import annotations

import atexit
import json
import subprocess
import tempfile
from functools import cache
from pathlib import Path

from places import REPOSITORY

NCORE_PYTHON = REPOSITORY / ".venv-ncore" / "bin" / "python"
SERVER = Path(__file__).parent / "oracles" / "fork_server.py"


@cache
def _server(python: Path) -> subprocess.Popen[str]:
    """An interpreter with NVIDIA's reader, for the rest of this process."""
    command = [str(python), "-W", "ignore::DeprecationWarning", str(SERVER), "ncore.data.v4"]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    atexit.register(server.kill)
    return server


def run_ncore(
    script: Path, *arguments: str | Path, python: Path = NCORE_PYTHON
) -> subprocess.CompletedProcess[str]:
    """What a script in an interpreter with nvidia-ncore and zarr 2 says, in a process of its own."""
    server = _server(python)
    assert server.stdin is not None
    assert server.stdout is not None
    words = list(map(str, arguments))
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / name for name in ("out", "err")]
        server.stdin.write(json.dumps([str(script), words, *map(str, files)]) + "\n")
        server.stdin.flush()
        code = server.stdout.readline()
        assert code, f"{python} ended"
        out, err = (path.read_text() if path.exists() else "" for path in files)
    return subprocess.CompletedProcess([str(script), *words], int(code), out, err)
