"""What a user is told when the file system refuses."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from edgefirst_ros.errors import EdgeFirstError, WriteError


@contextmanager
def disk_errors(path: Path, failed: str = "cannot be written", advice: str = "") -> Iterator[None]:
    """Turn errors of the file system into a WriteError that names the path; the package's own pass.

    Args:
        path: what was being written.
        failed: what cannot be done.
        advice: what the user can do.

    Raises:
        WriteError: the file system refused.
    """
    try:
        yield
    except OSError as error:
        if isinstance(error, EdgeFirstError):
            raise
        sentence = f"{path}: {failed}: {error.strerror or error}"
        raise WriteError(f"{sentence}; {advice}" if advice else sentence) from error
