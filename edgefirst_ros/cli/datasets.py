"""edgefirst-ros check, recover, select and export: verify and finish datasets, and choose from them."""

from __future__ import annotations

import os
import sys
from dataclasses import asdict
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape

from edgefirst_ros.cli import options
from edgefirst_ros.cli.options import NoReport, opt
from edgefirst_ros.cli.progress import Progress, print_json
from edgefirst_ros.cli.shared import EXIT_POOR, EXIT_USAGE, fetched, guarded, page_beside, print_error
from edgefirst_ros.cli.terminal import make_console, print_line, say, several
from edgefirst_ros.formats.registry import FORMATS
from edgefirst_ros.model.errors import ConfigError, DatasetNotFound

INSTEAD = "use --overwrite, or another -o"


def recover(
    path: Annotated[Path, opt("PATH", "An output folder, or a folder above it.")],
    *,
    no_report: NoReport = False,
    as_json: options.AsJson = False,
) -> None:
    """Finish datasets that a crash, a kill or a full disk left in .part files.

    What was committed is kept. An incomplete record at the end is dropped. A complete dataset is never
    replaced: what an interrupted --overwrite left becomes NAME_recovered. Running it again does no harm.

    Exit codes: 0 everything is finished; 2 something could not be finished, or there is nothing to do.

    [bold]Example[/]

      edgefirst-ros recover out
    """
    err, outputs = make_console(stderr=True), []
    _print_format_faults(err)
    with guarded(err, as_json=as_json):
        from edgefirst_ros.formats.datasets import recover as run_recovery
        from edgefirst_ros.report.runs import without_page

        for done in run_recovery(path):
            outputs.append({**asdict(done), "path": f"{done.path}"})
            if done.failed:
                print_error(err, done.text)
            elif not as_json:
                say(f"{done.path}\n  {done.text}")
                sys.stdout.flush()
        pages = [f"{page}" for page in ([] if no_report else page_beside(without_page(path), err))]
        if as_json:
            print_json({"outputs": outputs, "pages": pages})
        for page in () if as_json else pages:
            say(f"{page}\n  the page of a report that had none")
    if any(each["failed"] for each in outputs):
        print_line(err, "hint: remove the cause, then run recover again")
        raise typer.Exit(EXIT_USAGE)


def check(
    path: Annotated[str, opt("PATH", "A dataset, one of its files, or a folder above it; or a URL.")],
    *,
    user: Annotated[str, opt("--for NAME", "Also check what this program asks: nurec.")] = "",
    quick: Annotated[
        bool, opt("--quick", "Decode no picture, cloud or mask, which take 10 ms each.")
    ] = False,
    official: Annotated[
        Path | None, opt("--official PYTHON", "Also ask NVIDIA's reader, which this interpreter has.")
    ] = None,
    strict: Annotated[bool, opt("--strict", "Fail on warnings, too.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Check that datasets are complete, undamaged and consistent.

    It reads every dataset at or below PATH as for training, prints what is wrong, and then one line for each
    dataset. It writes nothing.

    --for prints a line for each demand: YES, NO and what to do, or UNKNOWN where data cannot tell.

    Exit codes: 0 sound; 1 errors, a NO, a dataset that is being written, or with --strict a warning;
    2 no dataset there.

    [bold]Examples[/]

      edgefirst-ros check out

      edgefirst-ros check out/ncore --for nurec
    """
    err, results = make_console(stderr=True), []
    _print_format_faults(err)
    with guarded(err, as_json=as_json):
        from edgefirst_ros.formats.datasets import check as run_checks
        from edgefirst_ros.formats.format import Look
        from edgefirst_ros.sources.location import location_of

        user = _known(user)
        place = Path(str(fetched(location_of(path), whole=True)))
        with Progress(err, "checking", quiet=as_json) as view:
            look = Look(quick, _Passed(view, place), user)
            for result in run_checks(place, official_python=official, look=look):
                results.append(result)
                if not as_json:
                    say(result.text)
                    sys.stdout.flush()
        formats = {each.format: FORMATS[each.format] for each in results}
        if user and not any(user in each.users for each in formats.values()):
            raise DatasetNotFound(f"{path}: holds no dataset that {user} takes")
        for reader in {each.unasked() for each in formats.values() if official is None} - {""}:
            print_line(err, f"hint: not tested with {reader}, which --official PYTHON asks")
        if as_json:
            print_json([{"ok": each.ok and not each.failed, **asdict(each)} for each in results])
    if not all(each.ok and not each.failed and not (strict and each.warnings) for each in results):
        raise typer.Exit(EXIT_POOR)


def _known(user: str) -> str:
    """A program as its format calls it."""
    known = {name.lower(): name for each in FORMATS.values() for name in each.users}
    if user and user.lower() not in known:
        raise ConfigError([f"--for: {user!r} is not known; there are {', '.join(sorted(known))}"])
    return known.get(user.lower(), "")


class _Passed:
    """Adds up what was looked at, of all bytes in a place."""

    def __init__(self, view: Progress, place: Path) -> None:
        top = place if place.is_dir() else place.parent
        files = (Path(folder, name) for folder, _, names in os.walk(top) for name in names)
        self._view, self._done = view, 0
        self._total = sum(each.lstat().st_size for each in files)

    def __call__(self, passed: int) -> None:
        """So many more bytes."""
        self._done += passed
        self._view(self._done, self._total)


def _print_format_faults(console: Console) -> None:
    for fault in FORMATS.faults:
        print_line(console, f"[yellow]note[/]: {escape(fault)}")


def select(
    source: Annotated[Path, opt("SOURCE", "A folder of datasets, or a catalogue (.parquet).")],
    *,
    output: Annotated[Path, opt("--output -o FOLDER", "Folder of the new dataset.")],
    where: Annotated[str, opt("--where SQL", "A condition on the catalogue's columns, in polars' SQL.")] = "",
    overwrite: Annotated[bool, opt("--overwrite", "Replace what is there.")] = False,
    as_json: options.AsJson = False,
) -> None:
    r"""Choose samples of EdgeFirst datasets by SQL, as a new dataset.

    SOURCE/catalog.parquet has a row for each sample, and is made if it is not there. docs/corpus.md has its
    columns. Sensor files are copied byte for byte. It needs [bold]pip install 'edgefirst_ros\[polars]'[/].

    [bold]Examples[/]

      edgefirst-ros select out --where "person > 0 and speed_mps > 5" -o subset

      edgefirst-ros select out/catalog.parquet --where "frame % 10 = 0" -o some
    """
    err = make_console(stderr=True)
    with guarded(err, instead=INSTEAD, as_json=as_json):
        from edgefirst_ros import select as choose

        with Progress(err, "selecting", quiet=as_json) as view:
            done = choose(source, output, where=where, overwrite=overwrite, on_progress=view)
        if as_json:
            print_json({**done._asdict(), "path": f"{done.path}"})
        else:
            say(f"{done.path}\n  {done.samples:,} of {done.of:,} samples, of {done.datasets:,} datasets")


class Layout(StrEnum):
    """Whose tools read what is exported."""

    COCO = "coco"
    YOLO = "yolo"
    HF = "hf"


def export(
    layout: Annotated[Layout, opt("coco|yolo|hf", "COCO, Ultralytics' YOLO, or Hugging Face's datasets.")],
    sources: Annotated[list[str], opt("SOURCE...", "Datasets, folders above them, or URLs.")],
    *,
    output: Annotated[Path, opt("--output -o FOLDER", "A new or empty folder.")],
    unlabelled: Annotated[
        bool, opt("--unlabelled", "Also pictures without labels, as pictures without objects.")
    ] = False,
    as_json: options.AsJson = False,
) -> None:
    """Write pictures and 2-D boxes for other tools, with counts by group.

    Several datasets become one, with the classes of all. Pictures that no model looked at are left out.

    [bold]Examples[/]

      edgefirst-ros export coco out -o coco

      edgefirst-ros export hf monday tuesday -o hf
    """
    err = make_console(stderr=True)
    with guarded(err, as_json=as_json):
        import edgefirst_ros

        write = getattr(edgefirst_ros, f"export_{layout}")
        opened = edgefirst_ros.open(sources, format="edgefirst")
        with Progress(err, "exporting", quiet=as_json) as view:
            files, pictures, boxes = write(opened, output, unlabelled=unlabelled, on_progress=view)
        groups = {group: {"pictures": n, "boxes": boxes[group]} for group, n in pictures.items()}
        if as_json:
            print_json({"files": [f"{file}" for file in files], "groups": groups})
            return
        for file in files:
            say(f"{file}")
        for group, counts in groups.items():
            print_line(err, f"{escape(group)}: {', '.join(several(n, what) for what, n in counts.items())}")
