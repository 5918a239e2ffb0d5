"""Names that come from recordings, made safe to be file names."""

from __future__ import annotations

import re
from datetime import UTC, datetime

_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")
_LONGEST = 120


def safe_name(text: str, default: str = "unnamed") -> str:
    """One path component: letters, digits, dot, dash and underscore; never hidden, never a parent."""
    name = _UNSAFE.sub("_", text).lstrip("._-")[:_LONGEST].rstrip(".")
    return name or default


def sequence_name(host: str, start_ns: int) -> str:
    """``hostname_date_time`` in UTC, as the device names its recordings."""
    when = datetime.fromtimestamp(start_ns // 1_000_000_000, UTC)
    return f"{safe_name(host, 'host')}_{when:%Y_%m_%d_%H_%M_%S}"
