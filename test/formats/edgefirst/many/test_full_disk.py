"""A selection whose disk refuses: the file or folder is named, and nothing is left."""

from __future__ import annotations

import resource
import subprocess
import sys
from pathlib import Path

from drives_chosen import long_drive

import edgefirst_ros

MOST_BYTES = 20_000
"""More than any picture and catalogue has, less than a container or a table."""


def _limit() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (MOST_BYTES, MOST_BYTES))


def test_it_is_named_and_nothing_is_left(tmp_path: Path) -> None:
    sets, catalog, out = long_drive()[0], tmp_path / "c.parquet", tmp_path / "out" / "made"
    edgefirst_ros.catalog(sets, catalog)
    out.parent.mkdir()
    done = subprocess.run(
        [sys.executable, "-m", "edgefirst_ros", "select", catalog, "-o", str(out)],
        capture_output=True, text=True, check=False, preexec_fn=_limit, timeout=120,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.startswith(f"error: {out}")
    assert "cannot be written: File too large" in done.stderr
    assert not list(out.parent.iterdir())
