"""Which package may import which: dependencies point downwards, and every arrow is one that was meant."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest
from places import REPOSITORY, tool

PACKAGE = REPOSITORY / "edgefirst_ros"
MAY_IMPORT = {
    "model": "",
    "timing": "",
    "ego": "model",
    "formats": "model",
    "simulation": "model",
    "video": "model",
    "config": "formats model timing",
    "report": "formats model",
    "sources": "config model timing",
    "pipeline": "config ego formats model report timing video",
    "live": "config formats model pipeline report sources timing video",
    "offline": "config ego formats model pipeline report sources timing",
    "fleet": "config formats model offline report sources",
    "nodes": "config live model offline pipeline report sources",
    "cli": "config fleet formats live model offline pipeline report simulation sources",
    "__main__": "cli",
}
"""Package or plain module, and which others it may import."""
FORMATS_MAY_IMPORT = {
    "format": "scene",
    "motion": "",
    "pace": "",
    "registry": "format",
    "crashsafe": "",
    "zarr2": "",
    "tracks": "",
    "edgefirst.options": "format",
    "edgefirst.store": "crashsafe edgefirst.options",
    "edgefirst.prepare": "edgefirst.options edgefirst.store format",
    "edgefirst.finish": "crashsafe edgefirst.options edgefirst.store",
    "edgefirst.recover": "crashsafe edgefirst.finish edgefirst.options edgefirst.store format",
    "edgefirst.writer": "crashsafe edgefirst.finish edgefirst.options edgefirst.prepare edgefirst.recover "
    "edgefirst.store format motion",
    "edgefirst.check": "crashsafe edgefirst.finish edgefirst.read edgefirst.store format",
    "edgefirst.read": "crashsafe edgefirst.finish edgefirst.prepare edgefirst.store",
    "edgefirst.many": "edgefirst.read edgefirst.store",
    "edgefirst.catalogrows": "crashsafe edgefirst.finish edgefirst.options edgefirst.read edgefirst.store",
    "edgefirst.catalog": "crashsafe edgefirst.catalogrows edgefirst.many edgefirst.store",
    "edgefirst.selection": "crashsafe edgefirst.catalog edgefirst.catalogrows edgefirst.finish "
    "edgefirst.many edgefirst.read edgefirst.store",
    "edgefirst.export": "crashsafe edgefirst.many edgefirst.read",
    "edgefirst.format": "crashsafe edgefirst.check edgefirst.finish edgefirst.options edgefirst.recover "
    "edgefirst.scenes edgefirst.store edgefirst.writer format",
    "l5kit.store": "crashsafe zarr2",
    "l5kit.options": "format l5kit.store tracks",
    "l5kit.write": "crashsafe format l5kit.options l5kit.store motion tracks",
    "l5kit.read": "crashsafe l5kit.store scene tracks zarr2",
    "l5kit.recover": "crashsafe format l5kit.store zarr2",
    "l5kit.check": "crashsafe format l5kit.store zarr2",
    "l5kit": "l5kit.options l5kit.read l5kit.write",
    "l5kit.format": "crashsafe format l5kit.check l5kit.options l5kit.read l5kit.recover l5kit.store "
    "l5kit.write",
    "ncore.options": "format",
    "ncore.store": "crashsafe ncore.options pace zarr2",
    "ncore.poses": "",
    "ncore.prepare": "format ncore.options ncore.store tracks zarr2",
    "ncore.finish": "crashsafe motion ncore.options ncore.poses ncore.prepare ncore.store pace tracks zarr2",
    "ncore.write": "crashsafe format ncore.finish ncore.options ncore.poses ncore.prepare ncore.store pace "
    "zarr2",
    "ncore.recover": "crashsafe format ncore.finish ncore.options ncore.store ncore.write",
    "ncore.check": "format ncore.finish ncore.poses ncore.store zarr2",
    "ncore.format": "crashsafe format ncore.check ncore.options ncore.recover ncore.scenes "
    "ncore.store ncore.write",
    "datasets": "crashsafe format registry",
    "edgefirst.scenes": "edgefirst.finish edgefirst.prepare edgefirst.read edgefirst.store scene",
    "ncore.scenes": "ncore.store scene zarr2",
    "scene": "",
}
"""The same within ``formats``."""
ROS = {"rclpy", "launch", "launch_ros", "launch_testing"}


@cache
def places() -> dict[str, Path]:
    """The package's modules by dotted name."""
    found = {".".join(p.relative_to(PACKAGE.parent).with_suffix("").parts): p for p in PACKAGE.rglob("*.py")}
    return {name.removesuffix(".__init__"): path for name, path in found.items()}


@cache
def parsed(path: Path) -> ast.Module:
    """A module's syntax tree."""
    return ast.parse(path.read_text(encoding="utf-8"))


@cache
def imports() -> dict[str, frozenset[str]]:
    """What each module imports, by its dotted name; all that is imported from this package is a module."""
    found = {}
    for name, path in places().items():
        used = set()
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.Import):
                used.update(alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                whole = {f"{node.module}.{alias.name}" for alias in node.names}
                used.update((whole & places().keys()) or {node.module})
        found[name] = frozenset(used)
    return found


def arrows(table: dict[str, str], below: str) -> Iterator[tuple[str, str, str]]:
    """From, to, and why: every import between two rooms of a table."""
    for name, used in imports().items():
        for other in used:
            if name.startswith(below) and other.startswith(below):
                here, there = (room(n.removeprefix(below), table) for n in (name, other))
                if here != there:
                    yield here, there, f"{name} imports {other}"


def room(name: str, table: dict[str, str]) -> str:
    """The longest entry of the table that the module is, or is in; its own name if there is none."""
    parts = name.split(".")
    heads = (".".join(parts[:n]) for n in range(len(parts), 0, -1))
    return next((head for head in heads if head in table), name)


@pytest.mark.parametrize(
    ("table", "below"),
    [(MAY_IMPORT, "edgefirst_ros."), (FORMATS_MAY_IMPORT, "edgefirst_ros.formats.")],
    ids=["package", "formats"],
)
class TestArrows:
    def test_none_is_drawn_that_was_not_meant(self, table: dict[str, str], below: str) -> None:
        wrong = [why for here, there, why in arrows(table, below) if there not in table.get(here, "").split()]
        assert not sorted(wrong)

    def test_none_is_allowed_that_is_not_drawn(self, table: dict[str, str], below: str) -> None:
        drawn = {(here, there) for here, there, _ in arrows(table, below)}
        assert {(here, there) for here, line in table.items() for there in line.split()} == drawn


@pytest.mark.parametrize("table", [MAY_IMPORT, FORMATS_MAY_IMPORT], ids=["package", "formats"])
def test_arrows_point_downwards(table: dict[str, str]) -> None:
    order = list(TopologicalSorter({here: line.split() for here, line in table.items()}).static_order())
    assert set(order) == table.keys()


def test_only_the_nodes_import_ros() -> None:
    users = {name for name, used in imports().items() if {u.split(".")[0] for u in used} & ROS}
    assert users
    assert all(name.startswith("edgefirst_ros.nodes.") for name in users)


NAMES_A_FORMAT = re.compile(
    r"(?<![a-z])(ncore|l5kit)|^edgefirst(?=$|\.(?!schemas|printable))|formats\.edgefirst"
    r"|edgefirst(?!_ros|_msgs|error|[-.]|_debug|[ /]?maivin|$)",
    re.IGNORECASE,
)
MAY_NAME_ONE = {
    "edgefirst_ros": "the public names of the reader for training",
    "edgefirst_ros.offline.opening": "that reader",
    "edgefirst_ros.offline.copies": "that reader",
    "edgefirst_ros.cli.datasets": "the format whose boxes are exported",
    "edgefirst_ros.cli.capture": "the host of a device that has no name, which is the vendor's",
    "edgefirst_ros.model.cdr": "the vendor's package of messages",
    "edgefirst_ros.config.model": "the default of formats",
}


def words(tree: ast.Module) -> Iterator[str]:
    """Names and texts in the code of a module, without docstrings."""
    told = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in told:
            yield node.value
        elif isinstance(node, ast.ImportFrom):
            yield node.module or ""
        else:
            yield from (getattr(node, part) for part in ("id", "attr", "arg", "name") if hasattr(node, part))


def test_no_other_room_names_a_format() -> None:
    """What a room needs of a format is in ``Format``: then a format of another package has it as well."""
    named = {
        name: found
        for name, path in places().items()
        if not name.startswith("edgefirst_ros.formats.")
        and (found := {w for w in words(parsed(path)) if w and NAMES_A_FORMAT.search(str(w))})
    }
    assert not {name: found for name, found in named.items() if name not in MAY_NAME_ONE}
    assert named.keys() == MAY_NAME_ONE.keys()


def test_few_plain_modules_stand_at_the_top() -> None:
    assert len([p for p in PACKAGE.glob("*.py") if p.stem != "__init__"]) <= 7


class TestSize:
    """Whoever raises a ceiling (``docs/tools/size.py``) says why in the commit; whoever can, lowers it."""

    def test_no_room_has_more_code_than_its_ceiling(self) -> None:
        size = tool("size")
        assert size.code().keys() == size.CEILINGS.keys()
        assert not {room: lines for room, lines in size.code().items() if lines > size.CEILINGS[room]}

    def test_nothing_else_grows(self) -> None:
        size = tool("size")
        found = size.measured({room: line.split() for room, line in MAY_IMPORT.items()})
        assert not {each: most for each, most in found.items() if most > size.MOST[each]}

    def test_the_page_shows_the_ceilings(self) -> None:
        text = (REPOSITORY / "docs" / "architecture.md").read_text(encoding="utf-8")
        shown = tool("size").table()
        assert shown in text, f"docs/architecture.md needs:\n{shown}"
