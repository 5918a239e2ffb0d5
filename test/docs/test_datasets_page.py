"""The pages about formats name what these write, with its types."""

from __future__ import annotations

import re

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from places import REPOSITORY

from edgefirst_ros.formats.edgefirst.finish import columns
from edgefirst_ros.formats.edgefirst.options import SchemaVersion
from edgefirst_ros.formats.l5kit.store.schema import AGENT, FACE, FRAME, SCENE
from edgefirst_ros.model.sensors import Role

TEXT = (REPOSITORY / "docs" / "datasets.md").read_text(encoding="utf-8")
SCENES = (REPOSITORY / "docs" / "l5kit.md").read_text(encoding="utf-8")
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")] for line in SCENES.splitlines() if line[:1] == "|"
]
L5KIT = {"scenes": SCENE, "frames": FRAME, "agents": AGENT, "traffic_light_faces": FACE}


def in_words(kind: pl.DataType) -> str:
    """A type as the page has it."""
    if isinstance(kind, pl.Array):
        return f"Array({kind.inner}, {kind.size})"
    if isinstance(kind, pl.List):
        return f"List({in_words(kind.inner)})"
    return str(kind).partition("(")[0]


@pytest.mark.parametrize(("version", "at"), [("2025.01", 0), ("2026.10", 2)])
def test_columns_of_the_table(version: SchemaVersion, at: int) -> None:
    table = TEXT.split("### The table")[1].split("**Splits.**")[0]
    rows = [[c.strip() for c in line.strip("|").split("|")] for line in table.splitlines() if "|" in line][2:]
    shown = {row[at].strip("`"): row[at + 1] for row in rows if row[at]}
    found = columns(version, ())
    empty = pl.DataFrame(pa.schema([column.field(name) for name, column in found.items()]).empty_table())
    assert shown == {name: in_words(kind) for name, kind in empty.schema.items()}


def test_fields_of_l5kits_arrays() -> None:
    array, shown = "", {}
    for row in ROWS:
        if len(row) == 4 and row[1].startswith("`") and row[0].strip("`") in {"", *L5KIT}:
            array = row[0].strip("`") or array
            for name in re.findall(r"`(\w+)`", row[1]):
                shown[array, name] = row[2]
    made = {}
    for name, kind in L5KIT.items():
        for field in kind.names or ():
            base, shape = kind[field].base, kind[field].shape
            size = f" ({', '.join(map(str, shape))})" if shape else ""
            made[name, field] = (
                f"text ({base.itemsize // 4})" if base.kind == "U" else f"{np.dtype(base).name}{size}"
            )
    assert shown == made


def test_every_role_has_a_place_in_the_last_table() -> None:
    table = TEXT.split("## Which sensor goes where")[1]
    assert {
        *re.findall(r"`(\w+)`", " ".join(line.split("|")[1] for line in table.splitlines() if "|" in line))
    } == {*Role}
