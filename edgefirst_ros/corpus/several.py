"""Samples of one dataset or of several as one sequence, with common class numbers; what exports read."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import Any, Protocol, cast

import numpy as np
import numpy.typing as npt

from edgefirst_ros.corpus.reading import beneath
from edgefirst_ros.corpus.reading import open as open_dataset
from edgefirst_ros.formats.edgefirst.read.dataset import NO_LABEL, Sample
from edgefirst_ros.formats.edgefirst.read.decoding import CAMERA
from edgefirst_ros.model.errors import DatasetError
from edgefirst_ros.model.pictures import open_picture
from edgefirst_ros.model.untrusted import refusing

__all__ = [
    "CAMERA",
    "NO_LABEL",
    "Sample",
    "Samples",
    "Several",
    "Source",
    "file_name",
    "gathered",
    "pictures",
    "size_of",
]

_NO_FILE_NAME = re.compile(r"[/\\\x00-\x1f]")
_LABELS = ("labels2d", "labels3d", "labels_masks")


class Samples(Protocol):
    """What an export needs of a dataset, of several, or of a selection."""

    @property
    def labels(self) -> Sequence[str]:
        """Names of the classes."""

    @property
    def path(self) -> Path:
        """Where it is, for messages."""

    def __len__(self) -> int:
        """How many samples."""

    def __iter__(self) -> Iterator[Any]:
        """All samples in order."""

    def __getitem__(self, index: int) -> Any:  # noqa: ANN401 - what a transform returns
        """One of them."""

    def with_keys(self, keys: Iterable[str]) -> Samples:
        """The same samples with these keys."""

    def file(self, index: int, *kinds: str) -> bytes | None:
        """A sample's file as it is stored."""


Source = Samples | str | PathLike[str]


def gathered(source: Source | Iterable[Source]) -> Samples:
    """What an export takes: open datasets as they are, and those at or below paths, one after the other.

    Raises:
        DatasetNotFound: there is none at one of the paths.
        DatasetError: one is damaged.
    """
    if hasattr(source, "with_keys"):
        return cast("Samples", source)
    if isinstance(source, str | PathLike):
        source = [source]
    found: list[Samples] = []
    for each in source:
        if not isinstance(each, str | PathLike):
            found.append(each)
        elif isinstance(each, str) and "://" in each:
            found.append(open_dataset(each))
        else:
            found += map(open_dataset, beneath(Path(each)))
    return found[0] if len(found) == 1 else Several(found)


class Several:
    """Datasets one after the other; their class numbers are those of the names of all classes, sorted.

    Attributes:
        labels: names of the classes.
        path: of the first dataset.
    """

    def __init__(self, datasets: Sequence[Samples]) -> None:
        self._datasets = list(datasets)
        self.path = self._datasets[0].path
        own = [tuple(each.labels) for each in self._datasets]
        self.labels: Sequence[str] = (
            own[0] if len({*own}) == 1 else sorted({n for names in own for n in names})
        )
        numbers = {name: number for number, name in enumerate(self.labels)}
        self._tables = [np.array([*map(numbers.__getitem__, names), NO_LABEL], np.int64) for names in own]
        self._ends = np.cumsum([len(each) for each in self._datasets])

    def __len__(self) -> int:
        return int(self._ends[-1])

    def __iter__(self) -> Iterator[Sample]:
        return (self[number] for number in range(len(self)))

    def __getitem__(self, index: int) -> Sample:
        """One of the samples, with common class numbers."""
        place, own = self._place(index)
        return _renumbered(self._datasets[place][own], self._tables[place])

    def with_keys(self, keys: Iterable[str]) -> Several:
        """The same samples with these keys."""
        chosen = [*keys]
        return Several([each.with_keys(chosen) for each in self._datasets])

    def file(self, index: int, *kinds: str) -> bytes | None:
        """A sample's file as it is stored, of the first of these kinds that it has."""
        place, own = self._place(index)
        return self._datasets[place].file(own, *kinds)

    def _place(self, index: int) -> tuple[int, int]:
        """Which dataset, and which sample of it.

        Raises:
            IndexError: there are fewer.
        """
        if not 0 <= index < len(self):
            raise IndexError(f"sample {index} of {len(self)}")
        place = int(np.searchsorted(self._ends, index, "right"))
        return place, index - (int(self._ends[place - 1]) if place else 0)


def _renumbered(sample: Sample, table: npt.NDArray[np.int64]) -> Sample:
    """A sample with other class numbers; NO_LABEL is the last of the table."""
    found = {key: table[sample[key]] for key in _LABELS if sample.get(key) is not None}
    return {**sample, **found}


def pictures(
    samples: Samples, keys: Iterable[str], *, unlabelled: bool = True
) -> Iterator[tuple[int, Sample, bytes, str]]:
    """Number, sample, picture as it is stored, and a name for its files that no other has.

    Args:
        samples: those without a picture are left out.
        keys: what to read of them.
        unlabelled: also pictures in which nobody looked for 2-D boxes.
    """
    used: set[str] = set()
    for number, sample in enumerate(samples.with_keys(keys)):
        if not unlabelled and sample["boxes2d"] is None:
            continue
        picture = samples.file(number, *CAMERA)
        if picture is None:
            continue
        name = file_name(sample["name"])
        name = name if name not in used else f"{name}_{number}"
        used.add(name)
        yield number, sample, picture, name


def file_name(text: str) -> str:
    """A sample's or group's name as a file name: no path, whatever a table says."""
    return _NO_FILE_NAME.sub("_", text)


def size_of(picture: bytes, what: str) -> tuple[tuple[int, int], str]:
    """Width and height of a picture in pixels, and how its file's name ends.

    Raises:
        DatasetError: it cannot be decoded.
    """
    with refusing(what, DatasetError, "cannot be decoded"), open_picture(picture) as opened:
        return opened.size, "jpg" if opened.format == "JPEG" else "png"
