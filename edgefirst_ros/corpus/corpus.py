"""Samples of several datasets as those of one."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import numpy.typing as npt

from edgefirst_ros.formats.edgefirst.read.dataset import EdgeFirstDataset, Sample, Span
from edgefirst_ros.formats.edgefirst.read.places import ForkLock
from edgefirst_ros.model.errors import ConfigError, extra

if TYPE_CHECKING:
    import polars as pl

_MOST_OPEN = 64
"""Datasets whose files are open at once: up to four each, and a process may mostly have 1,024 open."""


class Corpus(EdgeFirstDataset):
    """The samples of several EdgeFirst datasets, one after another, each as ``EdgeFirstDataset`` has it.

    Samples have one more key, ``dataset``: path or URL of the one that they are from. Classes have the same
    numbers in all: those of the order that all files list; if these differ, all names are sorted.

    In memory is the index of each dataset; files are opened when a sample is read, and few at once.

    Attributes:
        datasets: paths or URLs, in order.
        labels, groups: of all datasets.
        schema_version: if it is the same in all of them, else None.
        path: of the first dataset.

    Args:
        members: the datasets by path or URL, all with the same keys, and without a transform.
        order: member and number of each sample there, (N, 2); by default all of them.
        labels: see ``edgefirst_ros.open``.
        transform: called with each sample.
        groups: of each sample, in place of those that it has in its dataset; None for these.
    """

    def __init__(
        self,
        members: Sequence[tuple[str, EdgeFirstDataset]],
        order: npt.NDArray[np.int32] | None = None,
        *,
        labels: Iterable[str] | None = None,
        transform: Callable[[Sample], Any] | None = None,
        groups: Sequence[str | None] | None = None,
    ) -> None:
        found = [member for _, member in members]
        chosen = _common([member.labels for member in found]) if labels is None else tuple(labels)
        self.datasets = tuple(shown for shown, _ in members)
        self._members = [member.with_labels(chosen) for member in found]
        self.labels = chosen
        self.path = found[0].path
        self._own_groups = None if groups is None else np.array(groups, object)
        several = {group for member in found for group in member.groups} if groups is None else {*groups}
        self.groups = tuple(sorted(group for group in several if group is not None))
        versions = {member.schema_version for member in found}
        self.schema_version = versions.pop() if len(versions) == 1 else None
        self._transform = transform
        self._is_part = order is not None
        self._order = _all(found) if order is None else order
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
        members = [member.with_keys(chosen) for member in self._members]
        return self._with(_members=members, _transform=None, _open={}, _lock=ForkLock())

    def with_labels(self, labels: Iterable[str]) -> Self:
        """The same samples, with the numbers that classes have in ``labels``.

        Raises:
            ConfigError: a label that occurs is not among them.
        """
        chosen = tuple(labels)
        members = [member.with_labels(chosen) for member in self._members]
        return self._with(_members=members, labels=chosen, _open={}, _lock=ForkLock())

    def only(self, group: str | None = None, labelled: str | None = None) -> Self:
        """Its samples of a group, and those in which somebody looked for these annotations; maybe none.

        Raises:
            ConfigError: there are no such annotations, or no such group in a list.
        """
        own = self._own_groups
        kept = [m.numbered() for m in limited(self._members, group if own is None else None, labelled)]
        keys = [list(member.numbered()) for member in self._members]
        found = [keys[number][inside] in kept[number] for number, inside in self._order.tolist()]
        mask = np.array(found, np.bool_)
        if own is not None and group is not None:
            if group not in self.groups:
                raise ConfigError(
                    [f"group: no sample is in {group}; there are {', '.join(self.groups) or 'none'}"]
                )
            mask &= own == group
        return self._chosen(mask)

    def _chosen(self, some: slice | npt.NDArray[np.bool_]) -> Self:
        groups = None if self._own_groups is None else self._own_groups[some]
        return self._with(_order=self._order[some], _own_groups=groups, _is_part=True)

    @property
    def members(self) -> list[EdgeFirstDataset]:
        """The datasets, in order."""
        return list(self._members)

    def dataset_of(self, index: int) -> str:
        """Path or URL of the dataset that a sample is from.

        Raises:
            IndexError: there are fewer samples.
        """
        return self.datasets[self._at(index)[0]]

    def file(self, index: int, *kinds: str) -> bytes | None:
        """A sample's file as it is stored; see ``EdgeFirstDataset.file``."""
        number, inside = self._at(index)
        return self._use(number).file(inside, *kinds)

    def ahead(self, indices: Iterable[int]) -> None:
        """These samples are read soon: ask for what is not on this machine."""
        wanted: dict[int, list[int]] = {}
        for number, inside in map(self._at, indices):
            wanted.setdefault(number, []).append(inside)
        for number, several in wanted.items():
            self._members[number].ahead(several)

    def release(self) -> None:
        """Close all files until they are read again."""
        with self._lock:
            self._open.clear()
        for member in self._members:
            member.release()

    @property
    def sequences(self) -> list[Span]:
        """Sequences, whose samples follow one another, in order; each is of one dataset."""
        if self._is_part:
            return list(self._runs())
        found, start = [], 0
        for member in self._members:
            found += [Span(name, start + begin, start + end) for name, begin, end in member.sequences]
            start += len(member)
        return found

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
            import polars as pl  # noqa: PLC0415 - optional

        tables = []
        for number, (shown, member) in enumerate(zip(self.datasets, self._members, strict=True)):
            chosen = self._order[self._order[:, 0] == number, 1] if self._is_part else None
            if chosen is not None and not len(chosen):
                continue
            table = (member if chosen is None else member.at(chosen.tolist())).to_polars()
            member.release()
            texts = [name for name, kind in table.schema.items() if kind in (pl.Enum, pl.Categorical)]
            table = table.with_columns(pl.col(texts).cast(pl.String), pl.lit(shown).alias("dataset"))
            if self._own_groups is not None and "group" in table.columns:
                schema: dict[str, Any] = {
                    "name": pl.String,
                    "frame": table.schema["frame"],
                    "group": pl.String,
                }
                own = pl.DataFrame(self._grouped(number), schema, orient="row")
                table = table.drop("group").join(own, ["name", "frame"], "left").select(table.columns)
            tables.append(table)
        return pl.concat(tables, how="diagonal_relaxed") if tables else pl.DataFrame()

    def _grouped(self, number: int) -> list[tuple[str, int | None, Any]]:
        """Sequence, frame and group of the samples of a member."""
        keys = list(self._members[number].numbered())
        chosen = zip(self._order.tolist(), self._own_groups, strict=True)  # type: ignore[arg-type]
        return [(*keys[inside], group) for (member, inside), group in chosen if member == number]

    def _runs(self) -> Iterator[Span]:
        """Sequences of samples in another order than that of the datasets."""
        start, last = 0, None
        for index, (number, inside) in enumerate(self._order.tolist()):
            name = self._members[number].sequence_of(inside)
            if last not in {None, (number, name)}:
                yield Span(last[1], start, index)
                start = index
            last = number, name
        if last is not None:
            yield Span(last[1], start, len(self))

    def _part(self, chosen: slice) -> Self:
        return self._chosen(chosen)

    def _sample(self, index: int) -> Sample:
        number, inside = self._at(index)
        sample = {**self._use(number)[inside], "dataset": self.datasets[number]}
        if self._own_groups is not None:
            sample["group"] = self._own_groups[index]
        return sample

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


def _all(members: Sequence[EdgeFirstDataset]) -> npt.NDArray[np.int32]:
    parts = [np.stack([np.full(len(m), n), np.arange(len(m))], axis=-1) for n, m in enumerate(members)]
    return np.concatenate(parts).astype(np.int32)


def _common(labels: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """The names of all classes, in the order that all datasets have, or sorted."""
    longest = max(labels, key=len)
    if all(each == longest[: len(each)] for each in labels):
        return longest
    return tuple(sorted({label for each in labels for label in each}))


def limited(
    members: Sequence[EdgeFirstDataset], group: str | None, labelled: str | None
) -> list[EdgeFirstDataset]:
    """Only samples of a group, or of those in which somebody looked for annotations.

    Raises:
        ConfigError: no dataset has such a group, or there are no such annotations.
    """
    groups = sorted({each for member in members for each in member.groups})
    if group is not None and group not in groups:
        known = ", ".join(groups) or "none"
        raise ConfigError([f"group: no dataset has a group {group}; there are {known}"])
    return [member.only(group, labelled) for member in members]
