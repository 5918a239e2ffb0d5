"""Message definition texts of the packages that are installed in the graph's workspace."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from rosidl_runtime_py import get_interface_path

from edgefirst_ros.messages.definitions import definition, short_name

_SEPARATOR = "=" * 80
_BUILT_IN = re.compile(r"(bool|byte|char|float32|float64|u?int(8|16|32|64)|w?string)\b")


@cache
def definition_of(kind: str) -> str:
    """The definition of ``pkg/msg/Type`` with all it depends on, as an MCAP stores it; empty if not found."""
    try:
        return definition(kind)
    except KeyError:
        pass
    found = {kind: _text(kind)}
    waiting = [kind]
    while waiting:
        for used in _used(waiting[0].partition("/")[0], found[waiting.pop(0)]):
            if used not in found:
                found[used] = _text(used)
                waiting.append(used)
    if not all(found.values()):
        return ""
    others = (f"{_SEPARATOR}\nMSG: {short_name(name)}\n{text}" for name, text in list(found.items())[1:])
    return "".join([found[kind], *others])


def _text(kind: str) -> str:
    try:
        path = Path(get_interface_path(kind))
        return f"{path.read_text(encoding='utf-8').rstrip()}\n" if path.suffix == ".msg" else ""
    except (LookupError, ValueError, OSError):
        return ""


def _used(package: str, text: str) -> list[str]:
    """Types that a definition's fields are of."""
    found = []
    for line in text.splitlines():
        field = line.partition("#")[0].split()
        if len(field) < 2 or _BUILT_IN.match(field[0]):
            continue
        name = field[0].partition("[")[0]
        parts = name.split("/")
        found.append(f"{parts[0] if len(parts) > 1 else package}/msg/{parts[-1]}")
    return found
