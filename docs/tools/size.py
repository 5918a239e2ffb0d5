"""How large the house is, by room: code, modules, arrows, constants, options; and the most that it may be.

    python docs/tools/size.py [--installed]

Code lines are those without docstrings, comments and blank lines. ``test/test_architecture.py`` holds the
ceilings, which docs/architecture.md shows. They leave 5 % for what comes, lines and modules and constants
alike. Who raises one says why in the commit.
"""

from __future__ import annotations

import argparse
import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from pydantic import BaseModel

from edgefirst_ros.config.model import Config

PACKAGE = Path(__file__).resolve().parents[2] / "edgefirst_ros"
PLAIN = "plain modules"
"""Those that lie beside the rooms."""
CEILINGS: Mapping[str, int] = {
    "formats": 15410,
    "pipeline": 5600,
    "video": 2330,
    "sources": 4000,
    "report": 2670,
    "cli": 1700,
    "model": 2850,
    "nodes": 1880,
    "ego": 2100,
    "timing": 2280,
    "simulation": 1570,
    "live": 1880,
    "fleet": 950,
    "offline": 1850,
    "config": 1580,
    PLAIN: 90,
}
MOST = {"modules": 280, "rooms": 16, "arrows": 59, "floors": 8, "constants": 1010, "options": 50}


def code_lines(path: Path) -> int:
    """Lines of a module without docstrings, comments and blank ones."""
    text = path.read_text(encoding="utf-8")
    told: set[int] = set()
    for node in ast.walk(ast.parse(text)):
        for each in getattr(node, "body", ()) if not isinstance(node, ast.Lambda | ast.IfExp) else ():
            is_text = isinstance(each, ast.Expr) and isinstance(each.value, ast.Constant)
            if is_text and isinstance(each.value.value, str):
                told.update(range(each.lineno, (each.end_lineno or each.lineno) + 1))
    lines = enumerate(text.splitlines(), 1)
    return sum(
        bool(line.strip()) and line.lstrip()[0] != "#" and number not in told for number, line in lines
    )


@cache
def code() -> Mapping[str, int]:
    """Code lines by room."""
    found = Counter[str]()
    for path in PACKAGE.rglob("*.py"):
        parts = path.relative_to(PACKAGE).parts
        found[parts[0] if len(parts) > 1 else PLAIN] += code_lines(path)
    return found


def floors(arrows: Mapping[str, Iterable[str]]) -> int:
    """Rooms on the longest way down."""

    @cache
    def below(room: str) -> int:
        return 1 + max((below(each) for each in arrows.get(room, ())), default=0)

    return max(map(below, arrows))


def options(model: type[BaseModel]) -> int:
    """How many values a configuration has, without those of each topic."""
    kinds = [info.annotation for info in model.model_fields.values()]
    inner = [each for each in kinds if isinstance(each, type) and issubclass(each, BaseModel)]
    return len(kinds) - len(inner) + sum(map(options, inner))


def is_number(node: ast.AST) -> bool:
    """Whether an expression is a number, or made of numbers."""
    if isinstance(node, ast.UnaryOp):
        return is_number(node.operand)
    if isinstance(node, ast.BinOp):
        return is_number(node.left) and is_number(node.right)
    return isinstance(node, ast.Constant) and type(node.value) in {int, float}


def constants(path: Path) -> int:
    """How many numbers a module gives names to."""
    values = [getattr(each, "value", None) for each in ast.parse(path.read_text(encoding="utf-8")).body]
    parts = [each.elts if isinstance(each, ast.Tuple) else [each] for each in values if each is not None]
    return sum(len(each) for each in parts if all(map(is_number, each)))


def measured(arrows: Mapping[str, Iterable[str]]) -> Mapping[str, int]:
    """What ``MOST`` bounds, with the rooms that each room imports."""
    return {
        "modules": sum(path.name != "__init__.py" for path in PACKAGE.rglob("*.py")),
        "rooms": len(arrows),
        "arrows": sum(len([*there]) for there in arrows.values()),
        "floors": floors(arrows),
        "constants": sum(map(constants, PACKAGE.rglob("*.py"))),
        "options": options(Config),
    }


def table() -> str:
    """The ceilings, as docs/architecture.md has them."""
    by_size = sorted(CEILINGS, key=lambda room: (room == PLAIN, -CEILINGS[room]))
    rooms = ", ".join(f"{room}\u00a0{CEILINGS[room]:,}" for room in by_size)
    rest = ", ".join(f"{most}\u00a0{what}" for what, most in MOST.items())
    return f"{rooms}; in all {sum(CEILINGS.values()):,}. {rest}."


def installed_mb() -> Iterator[tuple[str, float]]:
    """Megabytes of the package and of each distribution that it needs without extras."""
    waiting, seen = ["edgefirst_ros"], set[str]()
    while waiting:
        name = re.split(r"[^A-Za-z0-9._-]", waiting.pop())[0]
        key = re.sub(r"[-_.]+", "-", name).lower()
        if key in seen:
            continue
        seen.add(key)
        try:
            found = distribution(name)
        except PackageNotFoundError:  # of another system
            continue
        waiting += [line for line in found.requires or () if "extra ==" not in line]
        places = (each.locate() for each in found.files or ())
        yield key, sum(place.stat().st_size for place in map(Path, places) if place.is_file()) / 1e6


def main() -> None:
    """Print the code lines by room, and what is installed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--installed", action="store_true", help="also the megabytes that pip installs")
    sizes = sorted(code().items(), key=lambda each: -each[1])
    print(*(f"{lines:7,} {room}" for room, lines in sizes), f"{sum(code().values()):7,} in all", sep="\n")
    if parser.parse_args().installed:
        found = sorted(installed_mb(), key=lambda each: -each[1])
        print(*(f"{size:7.1f} MB {name}" for name, size in found if size >= 1), sep="\n")
        print(f"{sum(size for _, size in found):7.1f} MB in all")


if __name__ == "__main__":
    main()
