"""Standard streams that are closed, or cannot show every character."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from edgefirst_ros.cli.lastresort import open_streams

CHILD = """
import os, sys
from edgefirst_ros.cli.lastresort import open_streams
open_streams()
opened = os.open(sys.argv[1], os.O_WRONLY | os.O_CREAT)
print("printed")
sys.stderr.write("said")
sys.stdin.read()
os.write(opened, b"%d" % opened)
"""


@pytest.mark.parametrize("closed", [">&-", "2>&-", "<&-", ">&- 2>&- <&-"])
def test_what_is_printed_to_a_closed_stream_goes_nowhere(tmp_path: Path, closed: str) -> None:
    """Above all not into the next file that is opened."""
    command = f'"$0" -c "$1" "$2" {closed}'
    done = subprocess.run(
        ["sh", "-c", command, sys.executable, CHILD, str(tmp_path / "file")],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert int((tmp_path / "file").read_text()) > 2
    assert ("printed" in done.stdout) == (closed in {"2>&-", "<&-"})
    assert ("said" in done.stderr) == (closed in {">&-", "<&-"})


@pytest.mark.parametrize(
    ("encoding", "printed"),
    [
        ("utf-8", "a/\udcff × … 日".encode("utf-8", "surrogateescape")),
        ("latin-1", b"a/? \xd7 ? ?"),
        ("ascii", b"a/? ? ? ?"),
    ],
)
def test_any_text_is_printed_in_any_encoding(
    monkeypatch: pytest.MonkeyPatch, encoding: str, printed: bytes
) -> None:
    out = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    monkeypatch.setattr(sys, "stdout", out)
    open_streams()
    out.write(os.fsdecode(b"a/\xff") + " × … 日")
    out.flush()
    assert out.buffer.getvalue() == printed  # type: ignore[attr-defined]


def test_a_command_whose_output_is_closed_or_latin_1_has_no_traceback(tmp_path: Path) -> None:
    """The whole of it: rich, typer and ours."""
    command = '"$0" -m edgefirst_ros info "$1" >&-; "$0" -m edgefirst_ros --help; "$0" -m edgefirst_ros chek'
    done = subprocess.run(
        ["sh", "-c", command, sys.executable, str(tmp_path / "…none×.mcap")],
        env=os.environ | {"PYTHONIOENCODING": "latin-1"},
        capture_output=True,
        check=False,
        timeout=120,
    )
    said = done.stderr.decode("latin-1")
    assert "?none×.mcap: no such recording" in said
    assert "Did you mean 'check'?" in said
    assert "Traceback" not in said
    assert b"Usage: " in done.stdout
