"""Names of a sequence's files, while it is written and afterwards."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from edgefirst_ros.formats.crashsafe.names import PART, part_path
from edgefirst_ros.formats.crashsafe.replacing import NEW
from edgefirst_ros.formats.ncore.options import StoreType
from edgefirst_ros.formats.ncore.store.base import Store, suffix
from edgefirst_ros.formats.ncore.store.directory import DirectoryStore
from edgefirst_ros.formats.ncore.store.tarfile import TarStore
from edgefirst_ros.model.untrusted import MOST_REPORT_BYTES, read_regular

_STORE = "ncore4"


@dataclass(frozen=True, slots=True)
class SequenceFiles:
    """Where a sequence is: ``folder`` is named after its ``id``."""

    folder: Path
    id: str

    @property
    def meta(self) -> Path:
        """The sequence meta file, there once the sequence is complete."""
        return self.folder / f"{self.id}.json"

    @property
    def meta_part(self) -> Path:
        """The sequence meta file until all stores have their names; it is there when all are complete."""
        return self.folder / f"{self.id}.json{PART}"

    @property
    def journal(self) -> Path:
        """The journal, there until the sequence is complete."""
        return self.folder / f"{self.id}.journal{PART}"

    def held(self, number: int) -> Path:
        """Where a radar cube waits for its scan."""
        return self.folder / f"{self.id}.cube-{number}{PART}"

    def all_held(self) -> list[Path]:
        """Radar cubes that wait, and those that a sync has not let go of yet."""
        return [path for path in self.mine() if path.name.startswith(f"{self.id}.cube-")]

    def would_replace(self) -> bool:
        """Whether an earlier, complete sequence has the name of this one, whose meta file is written, too.

        The first that giving this one the name does is to remove the earlier one's meta file.
        """
        return self.meta.exists() and read_regular(self.meta, MOST_REPORT_BYTES) != read_regular(
            self.meta_part, MOST_REPORT_BYTES
        )

    @property
    def note(self) -> Path:
        """Says where the unfinished sequence goes while it is moved from beside a complete one."""
        return self.folder / f"{self.id}.aside{PART}"

    def leftovers(self) -> list[Path]:
        """What a finished sequence does not need.

        Last the journal, since without it nothing is recovered; behind it only the meta file of a sequence
        that is complete.
        """
        last = [self.journal, self.meta_part]
        mine = [path for path in self.mine() if path.suffix in {PART, NEW} and path not in last]
        return [*mine, *last]

    def finished_stores(self) -> list[Path]:
        """Stores that have their final names, of whatever group and kind."""
        return [path for path in self.mine() if self.is_store(path.name)]

    def is_store(self, name: str) -> bool:
        """Whether a store of this sequence can have this name once it is finished."""
        is_mine = name.startswith(f"{self.id}.{_STORE}") and Path(name).name == name
        return is_mine and name.endswith((suffix("itar"), suffix("directory")))

    def store(self, group: str, kind: StoreType) -> Path:
        """The finished store of a component group; the group of poses and calibration has no name."""
        stem = f"{self.id}.{_STORE}" + (f"-{group}" if group else "")
        return self.folder / f"{stem}{suffix(kind)}"

    def parts(self) -> dict[str, Path]:
        """Unfinished stores by component group."""
        start = f"{self.id}.{_STORE}"
        found = {}
        for kind in ("itar", "directory"):
            end = f"{suffix(kind)}{PART}"
            for path in sorted(self.folder.glob(f"*{end}")):
                if path.name.startswith(start):
                    found[path.name[len(start) : -len(end)].removeprefix("-")] = path
        return found

    def exists(self) -> bool:
        """True if anything of the sequence is on disk."""
        return self.folder.is_dir() and any(self.mine())

    def mine(self) -> list[Path]:
        """Everything of the sequence that is on disk."""
        return sorted(path for path in self.folder.glob("*") if path.name.startswith(f"{self.id}."))


def create_store(path: Path, kind: StoreType) -> Store:
    """An empty store that will be ``path`` when it is finished."""
    if kind == "itar":
        return TarStore.create(part_path(path))
    return DirectoryStore.create(part_path(path))


def open_store(part: Path) -> Store:
    """A store as a crash left it, for ``keep`` and ``cut``.

    Raises:
        DatasetError: a directory with a symbolic link.
        OSError: it cannot be opened, or is a symbolic link to a file.
    """
    return DirectoryStore(part) if part.is_dir() else TarStore(part)
