"""Times and distances as the page writes them."""

from __future__ import annotations

from datetime import UTC, datetime

_FAR_M = 1000


def clock(seconds: float) -> str:
    """Seconds as mm:ss or h:mm:ss."""
    whole = max(0, round(seconds))
    hours, rest = divmod(whole, 3600)
    return f"{hours}:{rest // 60:02d}:{rest % 60:02d}" if hours else f"{rest // 60:02d}:{rest % 60:02d}"


def distance(metres: float) -> str:
    """A distance in metres or kilometres."""
    return f"{metres / 1000:,.2f} km" if metres >= _FAR_M else f"{metres:,.0f} m"


def utc(time_ns: int) -> str:
    """Nanoseconds since 1970 as a time in UTC."""
    try:
        return f"{datetime.fromtimestamp(time_ns / 1e9, UTC):%Y-%m-%d %H:%M:%S} UTC"
    except (ValueError, OverflowError, OSError):
        return "at an impossible time"
