"""The life of what writes one dataset: refused or begun, grown as ``.part``, completed, named, given up."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Generic, TypeVar

from edgefirst_ros.formats.crashsafe.journal import refuse_busy
from edgefirst_ros.formats.crashsafe.names import refuse_links
from edgefirst_ros.formats.crashsafe.sync import disk_errors
from edgefirst_ros.model.errors import OutputExists, WriteError, recovery

Grown = TypeVar("Grown")
"""What is open while a dataset grows."""


class DatasetWriter(ABC, Generic[Grown]):
    """What writers of one dataset have in common; a format says how its own is finished, named and let go.

    Args:
        root: folder of the datasets.
        place: of the dataset, which an advice to recover names.
        journal: locked while the dataset is written.
        finished: paths by which a finished dataset is there.
        unfinished: paths that a killed run may leave.
        overwrite: replace what is there, once the new one is complete.

    Raises:
        OutputExists: the dataset is there, finished or not, and ``overwrite`` is off.
        OutputBusy: another process is writing it.
        WriteError: a folder or file of it is a symbolic link.
    """

    def __init__(
        self,
        root: Path,
        place: Path,
        journal: Path,
        finished: Sequence[Path],
        unfinished: Sequence[Path],
        *,
        overwrite: bool,
    ) -> None:
        self._place, self._locked, self._overwrite = place, journal, overwrite
        self._finished, self._unfinished = finished, unfinished
        self._advice = f"what is committed stays as .part: {recovery(place)}"
        self._store: Grown | None = None
        self._warnings: list[str] = []
        self._notes: list[str] = []
        self._failed = self._is_complete = False
        refuse_links(root, place, *finished, *unfinished)
        self._refuse_others()

    @property
    def warnings(self) -> Sequence[str]:
        """Warnings about the output for the user, one sentence each, in order of discovery."""
        return tuple(self._warnings)

    @property
    def notes(self) -> Sequence[str]:
        """Notes for the user about what was done to the data."""
        return tuple(self._notes)

    def complete(self) -> list[Path]:
        """Finish the dataset under its ``.part`` names, synced; without anything in it, leave what was there.

        Raises:
            WriteError: it cannot be written, or an earlier ``write`` failed; what is committed stays.
        """
        if self._store is not None and not self._is_complete:
            store = self._growing()
            with self._reporting():
                self._is_complete = self._finish(store)
                if not self._is_complete:
                    self._store = None
        return [] if self._store is None else self._results()

    def close(self) -> list[Path]:
        """``complete``, then give the dataset its name, in place of an earlier one.

        Raises:
            WriteError: it cannot be written, or an earlier ``write`` failed; what is committed stays.
        """
        paths = self.complete()
        if self._store is not None:
            with self._reporting():
                self._publish(self._store)
            self._store = None
        return paths

    def abort(self) -> None:
        """Release files without finishing; what is on disk stays as ``.part``."""
        if self._store is not None:
            self._release(self._store)
            self._failed = True

    @abstractmethod
    def _results(self) -> list[Path]:
        """What a user should look at later."""

    @abstractmethod
    def _finish(self, store: Grown) -> bool:
        """Finish what grows; if nothing is in it, remove it and return False."""

    @abstractmethod
    def _publish(self, store: Grown) -> None:
        """Give what is complete its name."""

    @abstractmethod
    def _release(self, store: Grown) -> None:
        """Let go of the files."""

    def _growing(self) -> Grown:
        if self._failed or self._store is None:
            raise WriteError(f"{self._place}: not being written; {self._advice}")
        return self._store

    def _refuse_others(self) -> None:
        """Refuse what is being written, and what is there unless it is to be replaced."""
        refuse_busy(self._locked)
        if self._overwrite:
            return
        if any(path.exists() for path in self._finished):
            raise OutputExists(f"dataset {self._place} already exists")
        for path in filter(Path.exists, self._unfinished):
            raise OutputExists(f"{path} was left by an unfinished run: {recovery(self._place)} finishes it")

    @contextmanager
    def _reporting(self) -> Iterator[None]:
        """Give up after an error of the disk, which is told with what to do."""
        try:
            with disk_errors(self._place, advice=self._advice):
                yield
        except WriteError:
            self._failed = self._store is not None
            self.abort()
            raise
