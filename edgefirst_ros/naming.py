"""Names from recordings and users as valid file names, and texts that are safe to print."""

from __future__ import annotations

import re
import unicodedata
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from zlib import crc32

REPORT = "capture_report.json"
"""The report beside every dataset."""
PAGE = "capture_report.html"
"""The same as a page to look at."""
MAX_NAME_BYTES = 180
"""File systems allow 255: this leaves room for frame number and extension."""


def page_path(report: Path) -> Path:
    """The page beside a report."""
    return report.with_name(report.name.removesuffix(REPORT) + PAGE)


@lru_cache(maxsize=1024)
def safe_name(text: str, default: str = "unnamed") -> str:
    """The name of a host, sequence or dataset as a valid file name.

    Letters, digits, ``_``, ``-`` and ``.`` stay; any run of other characters becomes one ``-``. Leading and
    trailing ``.``, ``-`` and ``_`` are removed; an empty result becomes ``default``.
    """
    name = re.sub(r"[^\w.-]+", "-", unicodedata.normalize("NFC", text))
    name = name.encode("utf-8", "ignore")[:MAX_NAME_BYTES].decode("utf-8", "ignore")
    return name.strip("._-") or default


def renaming(what: str, name: str) -> list[str]:
    """A note for the user if ``safe_name`` changes a name; an empty list if not, or if there is no name."""
    safe = safe_name(name)
    if name in {"", safe}:
        return []
    return [f"the {what} {visible(readable(name))} cannot be used in file names: it is written as {safe}"]


def readable(name: str) -> str:
    """The name of a file as printable text: bytes that are not UTF-8 become U+FFFD."""
    return name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


_HIDDEN = frozenset({"Cc", "Cf", "Zl", "Zp", "Cs", "Co"})
"""Unicode's categories of what is escaped: controls, formats (directions, joiners), separators of lines and
paragraphs, surrogates and private characters. Those that are not assigned stay: which ones these are differs
from one version of Python to the next, and names go into datasets."""
_BLANK = re.compile(
    "[\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u2065\u3164\ufe00-\ufe0f\uffa0\ufff0-\ufff8\U000e0000-\U000e0fff]"
)
"""What shows nothing either: letters, marks and unassigned (Unicode: Default_Ignorable_Code_Point)."""


def visible(text: str, keep: str = "") -> str:
    r"""Text that is safe to show anywhere: characters that steer a terminal or show nothing are escaped.

    They become ``\x1b``, ``\u200b`` or ``\U000e0041``. Characters in ``keep`` stay.
    """
    if text.isprintable() and (text.isascii() or not _BLANK.search(text)):
        return text
    return "".join(each if each in keep or _is_seen(each) else ascii(each)[1:-1] for each in text)


def _is_seen(character: str) -> bool:
    return unicodedata.category(character) not in _HIDDEN and not _BLANK.match(character)


MAX_DISPLAYED = 160
"""Longest name in characters that is shown whole; no ROS topic may be longer than 256."""


@lru_cache(maxsize=1024)
def displayed(name: str) -> str:
    """A topic, type or frame as it is called everywhere: without control characters, and of sane length.

    A name that is too long ends in ``…`` and a checksum that tells it from others.
    """
    shown = visible(name)
    if len(shown) <= MAX_DISPLAYED:
        return shown
    return f"{shown[:MAX_DISPLAYED]}…{crc32(name.encode('utf-8', 'surrogatepass')):08x}"


def sequence_name(host: str, start_ns: int) -> str:
    """``hostname_date_time`` in UTC, as the device names its recordings."""
    when = datetime.fromtimestamp(start_ns // 1_000_000_000, UTC)
    return f"{safe_name(host, 'host')}_{when:%Y_%m_%d_%H_%M_%S}"
