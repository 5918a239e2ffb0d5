"""Names of topics as a configuration gives them: plain ones, and regular expressions.

A ROS name is made of letters, digits and ``_ / ~ { }`` (Zenoh keys and recordings have hyphens as well), so
whatever holds another character is a regular expression. It must match a whole name, as those of
``ros2 bag record --regex`` are usually written to; one that begins with / matches full names, any other those
without the device's prefix.
"""

from __future__ import annotations

import re
from functools import cache

_PLAIN = re.compile(r"[A-Za-z0-9_/~{}-]*")
_ANY_SLASH = re.compile(r"(?<!\\)\.|\\[DSWX]|\[\^|\\[^\w]")
"""What in a part of an expression may match a slash."""
_NO_PARTS = re.compile(r"[()|]|\[[^\]]*/|/[?*+{]|\\/")
"""What makes the slashes of an expression no places to part it at."""


def is_pattern(name: str) -> bool:
    """Whether a name is a regular expression."""
    return _PLAIN.fullmatch(name) is None


def is_full(name: str) -> bool:
    """Whether a name is, or matches, full names: those with every prefix."""
    return name.removeprefix("^").startswith("/")


def split_names(text: str) -> tuple[str, ...]:
    """The names in a text that has blanks between them, each once."""
    return tuple(dict.fromkeys(text.split()))


@cache
def compiled(pattern: str) -> re.Pattern[str]:
    """The regular expression.

    Raises:
        ValueError: it is none; says where and why.
    """
    try:
        return re.compile(pattern)
    except (re.error, OverflowError, RecursionError) as error:
        hint = "; a wildcard for any text is .*" if "*" in pattern else ""
        raise ValueError(f"{pattern!r} is not a regular expression: {error}{hint}") from error


def fits(name: str, topic: str) -> bool:
    """Whether a configured name means a topic without its prefix; slashes at its ends do not count."""
    bare = topic.strip("/")
    if not is_pattern(name):
        return name.strip("/") == bare
    found = compiled(name)
    return found.fullmatch("/" + bare) is not None or (
        not is_full(name) and found.fullmatch(bare) is not None
    )


def key_expression(pattern: str, *, anywhere: bool = False) -> str:
    """A Zenoh key expression that includes every key which a regular expression matches, and maybe others.

    Args:
        pattern: the regular expression.
        anywhere: below any prefix.
    """
    keys = ["**"] if anywhere else []
    parts = pattern.removeprefix("^").removesuffix("$").strip("/").split("/")
    if _NO_PARTS.search(pattern) or not all(parts):
        return "**"
    for part in parts:
        if _PLAIN.fullmatch(part) and not set(part) & set("{}~"):
            keys.append(part)
        elif keys[-1:] == ["**"]:
            # Zenoh wants ** behind all * next to it, and once.
            keys[-1:] = ["**"] if _ANY_SLASH.search(part) else ["*", "**"]
        else:
            keys.append("**" if _ANY_SLASH.search(part) else "*")
    return "/".join(keys)
