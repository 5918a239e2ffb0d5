from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from edgefirst_ros.formats.format import Recovery

ROOT = Path("/data")
KEPT = Counter(samples=1200, files=3, rows=4)
PATHS = (ROOT / "d" / "d.arrow",)


@pytest.mark.parametrize(
    ("done", "text"),
    [
        (Recovery(ROOT / "d", True), "d: was finished already; nothing to do"),
        (
            Recovery(ROOT / "d", True, Counter(samples=3), paths=PATHS),
            "d: was finished already, 3 samples; nothing to do",
        ),
        (Recovery(ROOT / "d"), "d: nothing had been committed; the leftovers are removed"),
        (
            Recovery(ROOT / "d", kept=KEPT, lost=Counter(samples=0), paths=PATHS),
            "d: 1,200 samples, 3 files and 4 rows are kept",
        ),
        (
            Recovery(
                ROOT / "d_recovered",
                kept=KEPT,
                lost=Counter(samples=2),
                dropped=7_000,
                paths=PATHS,
                beside=ROOT / "d",
                warnings=("look",),
            ),
            (
                "d_recovered: 1,200 samples, 3 files and 4 rows are kept; 2 samples were damaged and are "
                "lost; 7,000 bytes of incomplete data dropped; the complete d, which it was to replace, "
                "stays\nwarning: look"
            ),
        ),
        (
            Recovery(ROOT / "d.zarr", dropped=9, dropped_unit="rows", beside=ROOT / "d.zarr"),
            (
                "d.zarr: nothing had been committed; the leftovers are removed; 9 rows of incomplete data "
                "dropped; the complete d.zarr, which it was to replace, stays"
            ),
        ),
    ],
)
def test_it_says_what_was_found_and_done(done: Recovery, text: str) -> None:
    assert done.text == text
