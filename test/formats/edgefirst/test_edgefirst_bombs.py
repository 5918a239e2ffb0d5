"""Small datasets that unpack to gigabytes or wait for ever: each reader ends with an error."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from edgefirst_bombs import BOMBS, SOUND, sound
from places import REPOSITORY

import edgefirst_ros
from edgefirst_ros.api.coco import export_coco
from edgefirst_ros.errors import EdgeFirstError
from edgefirst_ros.formats.datasets import check
from edgefirst_ros.view.page.make import make_page
from edgefirst_ros.view.sheet import contact_sheet

MOST_MB = 512
"""Above what a sound dataset takes; none of these stores more than a few megabytes."""


def load(dataset: Path) -> None:
    opened = edgefirst_ros.open(dataset)
    for number in range(min(len(opened), 5)):
        opened[number]


LOOKS: tuple[Callable[[Path], object], ...] = (
    lambda dataset: sys.stdout.write("\n".join(found.text for found in check(dataset)) + "\n"),
    load,
    contact_sheet,
    lambda dataset: make_page(dataset, dataset.parent / "page.html"),
    lambda dataset: export_coco(dataset, dataset.parent / "coco"),
)


def look(dataset: Path) -> None:
    """All that is done with a dataset; prints what is said of it, and the memory that it took at most."""
    for each in LOOKS:
        try:
            each(dataset)
        except EdgeFirstError as error:
            sys.stdout.write(f"refused: {error}\n")
    # What getrusage says begins with the parent's.
    found = re.search(r"VmHWM:\s+(\d+) kB", Path("/proc/self/status").read_text())
    sys.stdout.write(f"peak {int(found[1]) >> 10 if found else 0}\n")


def looked(dataset: Path) -> tuple[str, int]:
    """What a process of its own says, and its megabytes."""
    code = f"from pathlib import Path; from test_edgefirst_bombs import look; look(Path({str(dataset)!r}))"
    places = [REPOSITORY, REPOSITORY / "test", *(REPOSITORY / "test" / "formats").iterdir()]
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True, text=True, check=False, timeout=250,
        env={"PYTHONPATH": ":".join(map(str, places)), "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    assert done.returncode == 0, f"{dataset.name}: {done.stderr[-3000:]}"
    assert "Traceback" not in done.stderr
    assert "panicked" not in done.stderr
    return done.stdout, int(done.stdout.rpartition("peak ")[2])


@pytest.fixture(scope="module")
def usual_mb(tmp_path_factory: pytest.TempPathFactory) -> int:
    said, peak_mb = looked(sound(tmp_path_factory.mktemp("sound") / "ds"))
    assert "OK: edgefirst/ds, 0 errors" in said
    assert "refused" not in said
    return peak_mb


@pytest.mark.parametrize("bomb", BOMBS, ids=lambda bomb: bomb.__name__)
def test_a_bomb_is_an_error_and_takes_no_memory(
    tmp_path: Path, usual_mb: int, bomb: Callable[[Path], None]
) -> None:
    dataset = sound(tmp_path / "ds")
    bomb(dataset)
    said, peak_mb = looked(dataset)
    assert ("FAIL: edgefirst/ds" in said) == (bomb.__name__ not in SOUND), said
    assert peak_mb - usual_mb < MOST_MB, said
