"""What an output format is to the rest of the package: one object, listed in ``registry.FORMATS``."""

from __future__ import annotations

import fnmatch
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from pydantic import BaseModel

from edgefirst_ros.formats.findings import EVERYTHING, Look
from edgefirst_ros.sample import Role

if TYPE_CHECKING:
    from edgefirst_ros.formats.base import Writer
    from edgefirst_ros.formats.crashsafe.report import Recovery
    from edgefirst_ros.formats.findings import Check
    from edgefirst_ros.formats.scene import Drawable, Scenes

Options = TypeVar("Options", bound=BaseModel)


@dataclass(frozen=True, slots=True)
class Target:
    """Where a writer writes, and what is known before the first message.

    Attributes:
        root: folder of the format's datasets, the output folder's subfolder of the format's name.
        dataset: the dataset's name, safe as a file name.
        overwrite: replace what has this name, once the new one is complete.
        sequences: names of the sequences that will be written, as far as they are known.
        reference: role that samples are aligned to, where it is known.
        tolerances_ms: by role and end of the topic, how near to its reference frame a message must be.
    """

    root: Path
    dataset: str
    overwrite: bool = False
    sequences: tuple[str, ...] = ()
    reference: Role | None = None
    tolerances_ms: Mapping[Role, Mapping[str, float]] = field(default_factory=dict)


class Format(ABC, Generic[Options]):
    """An output format: its options, its writer, and what can be done with its datasets.

    Import what is heavy in the methods that need it: the class is imported by every command.

    Attributes:
        name: as in ``--format`` and as the key of its options in a configuration; letters, digits and ``_``.
        options: the options for users; every field needs a default, and a type that ROS parameters can have.
        nothing: warning, after the name, if a run has samples but nothing in this format.
        official: the Python package of the official reader that ``check`` can ask; empty without one.
        moved: options that this format had before all formats shared them, by what they are called now.
        visible_by: patterns of the names of files without which readers do not find a dataset, or do not open
            it; in an object store they appear last. Without any, the report alone says that all is there.
    """

    name: str
    options: type[Options]
    nothing = "nothing was written"
    official = ""
    moved: Mapping[str, str] = {}
    visible_by: tuple[str, ...] = ()

    @abstractmethod
    def writer(self, options: Options, target: Target) -> Writer:
        """A writer of a new dataset.

        Raises:
            OutputExists: it is there already, finished or not, and ``target.overwrite`` is off.
        """

    @abstractmethod
    def find(self, path: Path) -> list[Path]:
        """Datasets of this format at or below a path, finished or not; what ``recover`` and ``check`` take.

        A file of a dataset means the dataset, see ``below``.
        """

    @abstractmethod
    def recover(self, path: Path, *, complete: bool = False) -> Recovery:
        """Finish what a crash left of a dataset; one that is finished is not touched.

        Args:
            path: as ``find`` returns it.
            complete: the run that wrote it lacked only final names; it then replaces an existing dataset of
                its name. Otherwise that one stays, and this one is finished beside it.

        Raises:
            EdgeFirstError: it cannot be finished, because it is being written, damaged, or the disk refuses.
        """

    @abstractmethod
    def check(self, path: Path, *, official_python: Path | None = None, look: Look = EVERYTHING) -> Check:
        """What is wrong with a dataset.

        Args:
            path: as ``find`` returns it.
            official_python: a Python with the format's official reader.
            look: how thoroughly, and whom to tell how far it is.
        """

    @abstractmethod
    def read(self, path: Path) -> Any:  # noqa: ANN401 - each format has a reader of its own
        """A finished dataset, open for reading.

        Raises:
            EdgeFirstError: it is not there, not finished, or damaged.
        """

    def scenes(self, path: Path) -> Scenes | None:  # noqa: ARG002 - for those that override it
        """The samples of a dataset, for a report page and a contact sheet; None if they cannot be looked at.

        Raises:
            EdgeFirstError: it is not there, or damaged.
        """
        return None

    def drawings(self, path: Path) -> Sequence[Drawable]:  # noqa: ARG002 - for those that override it
        """The sequences of a dataset, for a view in space, where that has more than ``scenes``.

        Raises:
            EdgeFirstError: it is not there, or damaged.
        """
        return ()

    def locks(self, path: Path) -> tuple[Path, ...]:  # noqa: ARG002 - for those that override it
        """What a process locks while it writes or recovers a dataset; ``path`` as ``find`` returns it."""
        return ()

    def companions(self, options: Options) -> frozenset[Role]:  # noqa: ARG002 - for those that override it
        """Roles that a sample is made of; a format of measurements has none."""
        return frozenset(Role)

    def hold_s(self, options: Options) -> float:  # noqa: ARG002 - for those that override it
        """How long the writer holds a sample back, since what it writes depends on later ones; seconds."""
        return 0.0

    def report(self, target: Target) -> Path | None:  # noqa: ARG002 - for those that override it
        """Where the report of the run goes if it is part of the dataset; None if it is not."""
        return None


def below(path: Path, *patterns: str) -> list[Path]:
    """Files and folders below ``path`` whose name matches one of the patterns, as ``*.zip``.

    A file named after its folder, as ``d/d.zip``, stands for the whole folder; any other file for itself.
    """
    match = re.compile("|".join(map(fnmatch.translate, patterns))).match
    if path.is_dir():
        return [Path(root, name) for root, *names in os.walk(path) for name in chain(*names) if match(name)]
    if path.name.startswith(f"{path.parent.name}."):
        return [each for each in path.parent.iterdir() if match(each.name)] if path.parent.is_dir() else []
    return [path] if path.is_file() and match(path.name) else []
