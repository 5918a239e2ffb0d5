"""No name from a recording leaves the output folder."""

from __future__ import annotations

import unicodedata
from pathlib import PurePosixPath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgefirst_ros.model.untrusted import safe_name, sequence_name, visible


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


def test_sequences_are_named_as_the_device_names_recordings() -> None:
    assert sequence_name("../x", 1_773_483_630_000_000_000) == "x_2026_03_14_10_20_30"


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain é 日本.mcap", "plain é 日本.mcap"),
        ("\x1b[2J\x07\r\n", r"\x1b[2J\x07\r\n"),
        ("\x9b31m\x7f", r"\x9b31m\x7f"),
        ("a\u202egnp.exe", r"a\u202egnp.exe"),
        ("a\u061c\u200b\u2060\ufeff\u00adb", r"a\u061c\u200b\u2060\ufeff\xadb"),
        ("\ud800\ue000\U000e0041\u3164", r"\ud800\ue000\U000e0041\u3164"),
        ("e\u0301 नमस्ते かな\u3099 عربى 🫠\u3000", "e\u0301 नमस्ते かな\u3099 عربى 🫠\u3000"),
    ],
)
def test_what_steers_a_terminal_is_made_visible(text: str, shown: str) -> None:
    assert visible(text) == shown
    assert visible(shown) == shown


@pytest.mark.long
def test_no_character_of_a_hidden_category_passes() -> None:
    hidden = {"Cc", "Cf", "Zl", "Zp", "Cs", "Co"}
    text = "".join(map(chr, range(0x110000)))
    kept = visible(text)
    assert not [c for c in set(kept) if unicodedata.category(c) in hidden]
    shown = [c for c in text if unicodedata.category(c)[0] in "LMNPSZ" and c in kept]
    assert len(shown) > 130_000
