"""No name from a recording leaves the output folder."""

from __future__ import annotations

from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from edgefirst_ros.naming import safe_name, sequence_name


@given(st.text())
def test_a_safe_name_is_one_visible_component(text: str) -> None:
    name = safe_name(text)
    assert name
    assert len(Path(name).parts) == 1
    assert not name.startswith(".")
    assert (Path("/out") / name).resolve().parent == Path("/out").resolve()


def test_names_that_are_safe_stay() -> None:
    assert safe_name("maivin-test_2026_03_14_10_20_30") == "maivin-test_2026_03_14_10_20_30"
    assert safe_name("../../etc/passwd") == "etc_passwd"
    assert sequence_name("../x", 1_773_483_630_000_000_000) == "x_2026_03_14_10_20_30"
