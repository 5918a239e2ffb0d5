"""Messages that the troubleshooting page shows are the program's."""

from __future__ import annotations

import ast
import re
from functools import cache

import pytest
from places import REPOSITORY
from snippets import blocks

PAGE = REPOSITORY / "docs" / "troubleshooting.md"
LEAST = 6
"""Parts of fewer letters prove nothing."""


def shown() -> list[str]:
    """Every line of the page's blocks, and what else on it has a gap."""
    lines = [line for block in blocks(PAGE) if block.language == "text" for line in block.text.splitlines()]
    inline = re.findall(
        r"`([^`\n]*…[^`\n]*)`", re.sub(r"^```.*?^```", "", PAGE.read_text(), flags=re.M | re.S)
    )
    return [*lines, *inline]


@cache
def templates() -> tuple[str, ...]:
    """Every text in the package, with a gap for each value that is put into it."""
    found = []
    for path in (REPOSITORY / "edgefirst_ros").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.JoinedStr):
                parts = [each.value if isinstance(each, ast.Constant) else "\0" for each in node.values]
                found.append("".join(map(str, parts)))
            elif isinstance(node, ast.Constant) and isinstance(node.value, str):
                found.append(node.value)
    return tuple(found)


@pytest.mark.parametrize("message", shown())
def test_a_message_is_one_of_the_program(message: str) -> None:
    parts = [part.strip() for part in message.split("…")]
    telling = [part for part in parts if len(part) >= LEAST]
    assert telling
    for part in telling:
        assert any(part in template for template in templates()), part
