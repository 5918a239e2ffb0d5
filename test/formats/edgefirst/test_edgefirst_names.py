"""Names of samples and of their files."""

from __future__ import annotations

from edgefirst_ros.formats.edgefirst.archive import file_path, sample_name


def test_frames_have_three_digits_and_grow_naturally() -> None:
    assert sample_name("seq", 7) == "seq_007"
    assert sample_name("seq", 1234) == "seq_1234"
    assert file_path("seq", 42, "radar.png") == "seq/seq_042.radar.png"
