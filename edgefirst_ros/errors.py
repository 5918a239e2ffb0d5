"""Every error this package raises on purpose; each message says what was found and what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class EdgeFirstError(Exception):
    """Root of all errors raised on purpose, so that callers can catch the package's own."""


class ConfigError(EdgeFirstError, ValueError):
    """A configuration that cannot be meant; lists every fault found, not only the first.

    Args:
        faults: one sentence per fault, naming the parameter.
    """

    def __init__(self, faults: list[str]) -> None:
        self.faults = faults
        super().__init__("; ".join(faults))


class DecodeError(EdgeFirstError, ValueError):
    """A message that cannot be turned into a measurement; the reason is short enough to count by."""


class RecordingError(EdgeFirstError, ValueError):
    """A recording that cannot be read at all."""


class RecordingNotFound(EdgeFirstError, FileNotFoundError):
    """No recording at that path."""


class OutputExists(EdgeFirstError, FileExistsError):
    """The output is already there and overwriting was not asked for."""


class WriteError(EdgeFirstError, OSError):
    """The output cannot be written: disk full, read-only, vanished."""


class DatasetError(EdgeFirstError, ValueError):
    """A dataset that is not what its format says, or that is damaged."""


class DatasetNotFound(EdgeFirstError, FileNotFoundError):
    """No dataset at that path."""


class TransportError(EdgeFirstError, ConnectionError):
    """A connection to a device cannot be made or listened for."""


class ExtraNotInstalled(EdgeFirstError, ImportError):
    """A library that only an optional part of the package needs is not installed."""


@contextmanager
def extra(name: str) -> Iterator[None]:
    """Import what an extra of setup.py brings inside this block.

    Raises:
        ExtraNotInstalled: with the command that installs it.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise ExtraNotInstalled(
            f"{error.name} is not installed: pip install 'edgefirst_ros[{name}]'", name=error.name
        ) from error
