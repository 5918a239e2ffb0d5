"""The errors of this package; a message says what was found, what was expected and what to do."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager


class EdgeFirstError(Exception):
    """Base class of all errors of this package."""


class ConfigError(EdgeFirstError, ValueError):
    """An invalid configuration.

    Args:
        faults: one sentence for every fault, with the name of the parameter.
    """

    def __init__(self, faults: list[str]) -> None:
        self.faults = faults
        super().__init__("; ".join(faults))


class DecodeError(EdgeFirstError, ValueError):
    """Data that cannot be decoded, or that a format cannot express; counted by their text, which is short."""


class RecordingError(EdgeFirstError, ValueError):
    """A recording that cannot be read."""


class RecordingNotFound(EdgeFirstError, FileNotFoundError):
    """No recording at that path."""


class OutputExists(EdgeFirstError, FileExistsError):
    """The output exists and overwriting was not requested."""


class WriteError(EdgeFirstError, OSError):
    """The output cannot be written: the disk is full, read-only or gone."""


class OutputBusy(WriteError):
    """Another process is writing or recovering it."""


class DatasetError(EdgeFirstError, ValueError):
    """A dataset that does not comply with its format, or is damaged."""


class DatasetNotFound(EdgeFirstError, FileNotFoundError):
    """No dataset at that path."""


class TransportError(EdgeFirstError, ConnectionError):
    """A connection to a device cannot be made or accepted."""


class ExtraNotInstalled(EdgeFirstError, ImportError):
    """A library of an optional part of the package is not installed."""


@contextmanager
def extra(name: str = "") -> Iterator[None]:
    """A block that imports modules of an extra of setup.py, or a part that few need and that may be left out.

    Raises:
        ExtraNotInstalled: a module is missing; the message has the command that installs it.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        package = f"'edgefirst_ros[{name}]'" if name else "edgefirst_ros"
        text = f"{error.name} is not installed: pip install {package}"
        raise ExtraNotInstalled(text, name=error.name) from error
