"""Scripts in forks of a process that has imported what they need: ours, and other people's readers."""

from __future__ import annotations

import atexit
import json
import os
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path

import pytest
from places import REPOSITORY

NCORE_PYTHON = REPOSITORY / ".venv-ncore" / "bin" / "python"
CLIENT_PYTHON = REPOSITORY / ".venv-edgefirst" / "bin" / "python"
ORACLES = Path(__file__).parent / "oracles"
L5KIT_PYTHON = Path(os.environ.get("EDGEFIRST_L5KIT_PYTHON", NCORE_PYTHON))
"""An interpreter whose zarr opens L5Kit datasets (2.x or 3.0)."""
SERVER = ORACLES / "fork_server.py"


@cache
def _server(python: Path, module: str) -> subprocess.Popen[str]:
    """An interpreter that has imported a module, for the rest of this process."""
    command = [str(python), "-W", "ignore::DeprecationWarning", str(SERVER), module]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    atexit.register(server.kill)
    return server


def run_ncore(
    script: Path, *arguments: str | Path, python: Path = NCORE_PYTHON
) -> subprocess.CompletedProcess[str]:
    """What a script says in an interpreter with nvidia-ncore and zarr 2, which `make oracles` installs."""
    return _run(_server(python, "ncore.data.v4"), script, *arguments)


def assert_sound(kind: str, *paths: Path, complete: bool = False) -> None:
    """Fail unless the readers of others find datasets of a format sound: edgefirst, ncore or l5kit.

    ``complete``: of EdgeFirst, whose samples each have every kind of file.
    """
    python = CLIENT_PYTHON if kind == "edgefirst" else L5KIT_PYTHON if kind == "l5kit" else NCORE_PYTHON
    if not python.is_file():
        pytest.skip(f"no {python}: make oracles")
    module = "ncore.data.v4" if kind == "ncore" else "zarr" if kind == "l5kit" else "numpy"
    words = [*(["--complete"] if complete else []), *paths]
    done = _run(_server(python, module), ORACLES / f"judge_{kind}.py", *words)
    assert done.returncode == 0, done.stdout + done.stderr


def run_forked(script: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    """What a script says in an interpreter like this one, in a process that may be killed."""
    return _run(_server(Path(sys.executable), "edgefirst_ros.formats.ncore.write.writer"), script, *arguments)


def _run(
    server: subprocess.Popen[str], script: Path, *arguments: str | Path
) -> subprocess.CompletedProcess[str]:
    assert server.stdin is not None
    assert server.stdout is not None
    words = list(map(str, arguments))
    with tempfile.TemporaryDirectory() as folder:
        files = [Path(folder) / name for name in ("out", "err")]
        server.stdin.write(json.dumps([str(script), words, *map(str, files)]) + "\n")
        server.stdin.flush()
        code = server.stdout.readline()
        assert code, "the interpreter has ended"
        out, err = (path.read_text() if path.exists() else "" for path in files)
    return subprocess.CompletedProcess([str(script), *words], int(code), out, err)
