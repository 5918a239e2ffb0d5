"""Small datasets that unpack to gigabytes or wait for ever: each reader ends with an error."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from edgefirst_bombs import BOMBS, SOUND, sound

import edgefirst_ros
from edgefirst_ros import export_coco
from edgefirst_ros.formats.datasets import check
from edgefirst_ros.model.errors import EdgeFirstError
from edgefirst_ros.report.drawing import contact_sheet
from edgefirst_ros.report.page.make import make_page

MOST_MB = 512
"""None of these stores more than a few megabytes."""


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


def memory_mb(what: str) -> int:
    found = re.search(rf"{what}:\s+(\d+) kB", Path("/proc/self/status").read_text())
    assert found is not None
    return int(found[1]) >> 10


def looked(dataset: Path, capfd: pytest.CaptureFixture[str]) -> tuple[str, int]:
    """What is said when all is done with a dataset that can be, and the megabytes that it took at most."""
    Path("/proc/self/clear_refs").write_text("5")  # the most from now on
    before_mb = memory_mb("VmRSS")
    for each in LOOKS:
        try:
            each(dataset)
        except EdgeFirstError as error:
            sys.stdout.write(f"refused: {error}\n")
    took_mb = memory_mb("VmHWM") - before_mb
    out, err = capfd.readouterr()
    assert "panicked" not in err
    return out, took_mb


def test_a_sound_dataset_is_read_by_all(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    said, _ = looked(sound(tmp_path / "ds"), capfd)
    assert "OK: edgefirst/ds, 0 errors" in said
    assert "refused" not in said


@pytest.mark.long(cases=5)
@pytest.mark.parametrize("bomb", BOMBS, ids=lambda bomb: bomb.__name__)
def test_a_bomb_is_an_error_and_takes_no_memory(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], bomb: Callable[[Path], None]
) -> None:
    dataset = sound(tmp_path / "ds")
    bomb(dataset)
    said, took_mb = looked(dataset, capfd)
    assert ("FAIL: edgefirst/ds" in said) == (bomb.__name__ not in SOUND), said
    assert took_mb < MOST_MB, said
