"""The settings of a live session from its recording, which its conversion uses by default."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from edgefirst_ros.config.model import Config, build_config
from edgefirst_ros.errors import ConfigError, RecordingError, RecordingNotFound
from edgefirst_ros.naming import readable
from edgefirst_ros.offline.files import find_files
from edgefirst_ros.sources.kinds import open_recording
from edgefirst_ros.sources.location import Location
from edgefirst_ros.sources.session import RecordedSession

LIVE_ONLY = frozenset(
    {
        *("record", "record_topics", "queue_mb", "min_free_mb", "sync_s", "workers"),
        *("split_every_s", "split_every_mb", "split_every_m", "shed_first"),
    }
)
"""Settings that do not affect what is written for given messages."""


def recorded_settings(places: Sequence[str | Location]) -> tuple[dict[str, Any], str] | None:
    """The settings of the recorded sessions as plain values, and a note about their use.

    None if any of the recordings was made by another program.

    Raises:
        RecordingNotFound: a path does not exist, or a folder holds no recordings.
        ConfigError: the sessions had different settings, or settings that this version does not know.
    """
    found: list[tuple[Location, RecordedSession]] = []
    for file in find_files(places).files:
        session = _session(file.path)
        if session is None:
            return None
        found.append((file.path, session))
    (first, chosen), *others = found
    for path, session in others:
        if _relevant(session.settings) != _relevant(chosen.settings):
            which = f"{readable(first.name)} and {readable(path.name)}"
            remedy = "give --config for all, or convert one after the other"
            raise ConfigError([f"{which} were captured with different settings: {remedy}"])
    try:
        build_config(chosen.settings)
    except ConfigError as error:
        raise ConfigError(
            [
                f"{readable(first.name)}: captured by another version, its settings cannot be used: {fault}; "
                "give --config"
                for fault in error.faults
            ]
        ) from error
    which = readable(first.name) if not others else f"the {len(found)} recordings"
    return dict(chosen.settings), f"settings from {which}, as captured; --config overrides them"


def is_as_captured(session: RecordedSession, config: Config) -> bool:
    """Whether topics are configured as in the session, so that its initial calibration is valid."""
    try:
        captured = build_config(session.settings)
    except ConfigError:
        return False
    return (captured.topics, captured.prefix, captured.reference) == (
        config.topics,
        config.prefix,
        config.reference,
    )


def _session(path: Location) -> RecordedSession | None:
    try:
        return open_recording(path).session
    except (RecordingError, RecordingNotFound):
        return None


def _relevant(settings: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in settings.items() if name not in LIVE_ONLY}
