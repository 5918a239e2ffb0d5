"""Finds EdgeFirst datasets, and reads several as one."""

from __future__ import annotations

import operator
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, Self, Unpack

import numpy as np
import numpy.typing as npt

from edgefirst_ros.formats.edgefirst.read.dataset import EdgeFirstDataset, ReadOptions, Sample, Span
from edgefirst_ros.formats.edgefirst.read.local import ForkLock
from edgefirst_ros.formats.edgefirst.store.archive import TABLE
from edgefirst_ros.model.errors import ConfigError, DatasetNotFound, extra, recovery

if TYPE_CHECKING:
    import polars as pl

_OWN = (TABLE, ".zip")
"""How names of files end of which one, named as its folder, makes that a dataset."""
_DEEPEST = 4
"""How far below a folder datasets are looked for: a fleet has sets/DRIVE/edgefirst/NAME."""
_MOST_OPEN = 64
"""Datasets whose files are open at once: up to four each, and a process may mostly have 1,024 open."""


class Found(NamedTuple):
    """A dataset: the folder that its table is in, and its name."""

    folder: Path
    name: str

    @property
    def path(self) -> Path:
        """Its folder; its table where several are in one."""
        return self.folder if self.folder.name == self.name else self.table

    @property
    def table(self) -> Path:
        """Its table."""
        return self.folder / f"{self.name}{TABLE}"


def find(path: Path) -> list[Found]:
    """The datasets at or below a path, at least one.

    Raises:
        DatasetNotFound: there is none that is finished.
    """
    if not path.exists():
        raise DatasetNotFound(f"{path}: no such file or folder")
    if path.is_file():
        if path.suffix not in {TABLE, ".zip"}:
            raise DatasetNotFound(f"{path}: is no EdgeFirst dataset; give its folder, its .arrow or its .zip")
        path = path.resolve() if path.is_symlink() else path
        return [Found(path.parent.absolute(), path.stem)]
    folder = path.absolute()
    if any((folder / f"{folder.name}{ending}").exists() for ending in _OWN):
        return [Found(folder, folder.name)]
    found = [Found(table.parent, table.stem) for table in sorted(_tables(folder, _DEEPEST))]
    if not found:
        refuse_unfinished(path)
        raise DatasetNotFound(f"{path}: holds no finished EdgeFirst dataset; is it the folder of one?")
    return found


def refuse_unfinished(path: Path) -> None:
    """Refuse what holds the journal of a dataset that a kill or a crash left.

    Raises:
        DatasetNotFound: it does; says what to do.
    """
    if any(path.rglob("*.journal.part")):
        raise DatasetNotFound(f"{path}: holds an unfinished dataset; {recovery(path)} finishes it")


def _tables(folder: Path, depth: int) -> Iterator[Path]:
    """Tables in and below a folder, but not below one that has some: its sensor files may be many."""
    try:
        with os.scandir(folder) as entries:
            here = list(entries)
    except OSError:  # what may not be read holds nothing that could be opened
        return
    ending = [Path(entry.path) for entry in here if entry.name.endswith(TABLE)]
    tables = [path for path in ending if path.is_file()]  # of entries a loop of links is an error
    yield from [table for table in tables if table.stem == folder.name] or tables
    if not tables and depth:
        for entry in here:
            if entry.is_dir(follow_symlinks=False):
                yield from _tables(Path(entry.path), depth - 1)


def open_datasets(
    found: Sequence[Found], *, as_corpus: bool = False, **options: Unpack[ReadOptions]
) -> EdgeFirstDataset:
    """A dataset, or several as one; with ``as_corpus`` also of one; see ``EdgeFirstDataset`` for the others.

    Raises:
        DatasetNotFound: none is named.
        DatasetError: one is damaged.
        ConfigError: there is no such key or group, or a label that occurs is not among ``labels``.
    """
    if not found:
        raise DatasetNotFound("no dataset was named")
    if len(found) == 1 and not as_corpus:
        return EdgeFirstDataset(*found[0], **options)
    keys, labels = options.pop("keys", None), options.pop("labels", None)
    wanted = None if keys is None else [keys] if isinstance(keys, str) else list(keys)
    members = []
    for each in found:
        members.append((str(each.path), EdgeFirstDataset(*each, keys=wanted)))
        members[-1][1].release()
    chosen = [labels] if isinstance(labels, str) else labels
    corpus = Corpus(members, labels=chosen, transform=options.pop("transform", None))
    return corpus.only(**options)  # type: ignore[misc] # what was popped


class Corpus(EdgeFirstDataset):
    """The samples of several EdgeFirst datasets, one after another, each as ``EdgeFirstDataset`` has it.

    Samples have one more key, ``dataset``: path of the one that they are from. Classes have the same numbers
    in all: those of the order that all files list; if these differ, all names are sorted.

    In memory is the index of each dataset; files are opened when a sample is read, and few at once.

    Attributes:
        datasets: paths, in order.
        labels, groups: of all datasets.
        schema_version: if it is the same in all of them, else None.
        path: of the first dataset.

    Args:
        members: the datasets by path, all with the same keys, and without a transform.
        labels: names of the classes, by default all.
        transform: called with each sample.
    """

    def __init__(
        self,
        members: Sequence[tuple[str, EdgeFirstDataset]],
        *,
        labels: Iterable[str] | None = None,
        transform: Callable[[Sample], Any] | None = None,
    ) -> None:
        found = [member for _, member in members]
        chosen = _common([member.labels for member in found]) if labels is None else tuple(labels)
        self.datasets = tuple(path for path, _ in members)
        self._members = [member.with_labels(chosen) for member in found]
        self.labels = chosen
        self.path = found[0].path
        self.groups = tuple(sorted({group for member in found for group in member.groups}))
        versions = {member.schema_version for member in found}
        self.schema_version = versions.pop() if len(versions) == 1 else None
        self._transform = transform
        self._is_part = False
        numbers = [np.stack([np.full(len(m), n), np.arange(len(m))], axis=-1) for n, m in enumerate(found)]
        self._order = np.concatenate(numbers).astype(np.int32)
        """Member and number there of each sample, (N, 2)."""
        self._lock = ForkLock()
        self._open: dict[int, None] = {}

    def __repr__(self) -> str:
        return f"<Corpus of {len(self._members):,} datasets: {len(self):,} samples>"

    def __len__(self) -> int:
        return len(self._order)

    def with_keys(self, keys: Iterable[str]) -> Self:
        """The same samples with these keys, and without a transform.

        Raises:
            ConfigError: there is no such key.
        """
        chosen = [keys] if isinstance(keys, str) else list(keys)
        return self._of([member.with_keys(chosen) for member in self._members], _transform=None)

    def with_labels(self, labels: Iterable[str]) -> Self:
        """The same samples, with the numbers that classes have in ``labels``.

        Raises:
            ConfigError: a label that occurs is not among them.
        """
        chosen = tuple(labels)
        return self._of([member.with_labels(chosen) for member in self._members], labels=chosen)

    def _of(self, members: list[EdgeFirstDataset], **changed: Any) -> Self:  # noqa: ANN401 - attributes
        return self._with(_members=members, _open={}, _lock=ForkLock(), **changed)

    def only(
        self, group: str | None = None, labelled: str | None = None, require: Iterable[str] = ()
    ) -> Self:
        """Its samples of a group, labelled, and with what is required; maybe none.

        Raises:
            ConfigError: there are no such annotations or keys, or no dataset has such a group.
        """
        if group is not None and group not in self.groups:
            known = ", ".join(self.groups) or "none"
            raise ConfigError([f"group: no dataset has a group {group}; there are {known}"])
        wanted = tuple(require)
        if group is None and labelled is None and not wanted:
            return self
        kept = [member.only(group, labelled, wanted).numbered() for member in self._members]
        keys = [list(member.numbered()) for member in self._members]
        found = [keys[number][inside] in kept[number] for number, inside in self._order.tolist()]
        return self._part(np.array(found, np.bool_))

    @property
    def members(self) -> list[EdgeFirstDataset]:
        """The datasets, in order."""
        return list(self._members)

    def dataset_of(self, index: int) -> str:
        """Path of the dataset that a sample is from.

        Raises:
            IndexError: there are fewer samples.
        """
        return self.datasets[self._at(index)[0]]

    def file(self, index: int, *kinds: str) -> bytes | None:
        """A sample's file as it is stored; see ``EdgeFirstDataset.file``."""
        number, inside = self._at(index)
        return self._use(number).file(inside, *kinds)

    def release(self) -> None:
        """Close all files until they are read again."""
        with self._lock:
            self._open.clear()
        for member in self._members:
            member.release()

    @property
    def sequences(self) -> list[Span]:
        """Sequences, whose samples follow one another, in order; each is of one dataset."""
        names = [
            (number, self._members[number].sequence_of(inside)) for number, inside in self._order.tolist()
        ]
        starts = [at for at, each in enumerate(names) if not at or each != names[at - 1]]
        stops = [*starts[1:], len(names)]
        return [Span(names[start][1], start, stop) for start, stop in zip(starts, stops, strict=False)]

    def numbered(self) -> dict[tuple[str, int | None], int]:
        """Not of a corpus, as several datasets may have a sequence of the same name."""
        raise NotImplementedError

    def to_polars(self) -> pl.DataFrame:
        """The tables of the datasets one after another, with a column ``dataset``; labels are texts.

        Raises:
            DatasetError: one is damaged.
            ExtraNotInstalled: polars is missing.
        """
        with extra("polars"):
            import polars as pl

        tables = []
        for number, (path, member) in enumerate(zip(self.datasets, self._members, strict=True)):
            chosen = self._order[self._order[:, 0] == number, 1]
            if not len(chosen):
                continue
            table = (member.at(chosen.tolist()) if self._is_part else member).to_polars()
            member.release()
            texts = [name for name, kind in table.schema.items() if kind in (pl.Enum, pl.Categorical)]
            tables.append(table.with_columns(pl.col(texts).cast(pl.String), pl.lit(path).alias("dataset")))
        return pl.concat(tables, how="diagonal_relaxed") if tables else pl.DataFrame()

    def _part(self, chosen: slice | npt.NDArray[np.bool_]) -> Self:
        return self._with(_order=self._order[chosen], _is_part=True)

    def _sample(self, index: int) -> Sample:
        number, inside = self._at(index)
        return {**self._use(number)[inside], "dataset": self.datasets[number]}

    def _at(self, index: int) -> tuple[int, int]:
        """The member that a sample is of, and its number there."""
        number = operator.index(index)
        if not -len(self) <= number < len(self):
            raise IndexError(f"sample {number} of {len(self)}")
        member, inside = self._order[number].tolist()
        return member, inside

    def _use(self, number: int) -> EdgeFirstDataset:
        """A member, whose files may be opened; those of the one that was not used for longest are closed."""
        with self._lock:
            self._open.pop(number, None)
            self._open[number] = None
            closed = next(iter(self._open)) if len(self._open) > _MOST_OPEN else None
            if closed is not None:
                del self._open[closed]
        if closed is not None:
            self._members[closed].release()
        return self._members[number]


def _common(labels: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """The names of all classes, in the order that all datasets have, or sorted."""
    longest = max(labels, key=len)
    if all(each == longest[: len(each)] for each in labels):
        return longest
    return tuple(sorted({label for each in labels for label in each}))


def described(dataset: EdgeFirstDataset) -> dict[str, Any]:
    """What a dataset is, as plain values."""
    names = sum((Counter({name: stop - start}) for name, start, stop in dataset.sequences), Counter[str]())
    found: dict[str, Any] = {
        "format": "edgefirst",
        "path": f"{dataset.path}",
        "samples": len(dataset),
        "sequences": [{"name": name, "samples": count} for name, count in names.items()],
        "groups": {group: len(dataset.only(group)) for group in dataset.groups},
        "labels": [*dataset.labels],
        "schema_version": dataset.schema_version,
    }
    if isinstance(dataset, Corpus):
        found["datasets"] = [described(member) for member in dataset.members]
    return found
