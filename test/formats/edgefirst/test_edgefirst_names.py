"""Names from recordings never escape the dataset's folder."""

from __future__ import annotations

from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgefirst_ros.formats.edgefirst.names import file_path, safe_name, sample_name


@given(st.text(max_size=400))
def test_any_text_becomes_one_harmless_path_component(text: str) -> None:
    name = safe_name(text)
    assert PurePosixPath(name).parts == (name,)
    assert not set(name) & set('/\\:*?"<>|\0\n ')
    assert name[0] not in "._-"
    assert len(name.encode()) <= 180
    assert safe_name(name) == name


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("maivin-test_2026_03_14_10_20_30", "maivin-test_2026_03_14_10_20_30"),
        ("../../etc/passwd", "etc-passwd"),
        ("..", "unnamed"),
        ("", "unnamed"),
        ("C:\\boot", "C-boot"),
        ("Fahrt_März", "Fahrt_März"),
    ],
)
def test_known_names(text: str, name: str) -> None:
    assert safe_name(text) == name


def test_frames_have_three_digits_and_grow_naturally() -> None:
    assert sample_name("seq", 7) == "seq_007"
    assert sample_name("seq", 1234) == "seq_1234"
    assert file_path("seq", 42, "radar.png") == "seq/seq_042.radar.png"
