"""edgefirst-ros check, recover, select and export: verify and finish datasets, and choose from them."""

from __future__ import annotations

import os
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from edgefirst_ros.cli import options
from edgefirst_ros.cli.options import opt
from edgefirst_ros.cli.shared import EXIT_POOR, EXIT_USAGE, Out
from edgefirst_ros.cli.terminal import several
from edgefirst_ros.formats.registry import FORMATS
from edgefirst_ros.model.errors import ConfigError, DatasetNotFound


def recover(
    path: Annotated[Path, opt("PATH", "An output folder, or a folder above it.")],
    *,
    as_json: options.AsJson = False,
) -> None:
    """Finish datasets that a crash, a kill or a full disk left in .part files.

    What was committed is kept. An incomplete record at the end is dropped. A complete dataset is never
    replaced: what an interrupted --overwrite left becomes NAME_recovered. Running it again does no harm.

    Exit codes: 0 everything is finished; 2 something could not be finished, or there is nothing to do.

    For example

      edgefirst-ros recover out
    """
    out, outputs = Out(as_json=as_json), []
    out.note(*FORMATS.faults)
    with out.guarded():
        from edgefirst_ros.formats.datasets import recover as run_recovery
        from edgefirst_ros.report.runs import without_page

        for done in run_recovery(path):
            outputs.append({**asdict(done), "path": f"{done.path}"})
            if done.failed:
                out.complain(done.text)
            elif not as_json:
                out.result(None, f"{done.path}\n  {done.text}")
        pages = [f"{page}" for page in out.page_beside(without_page(path))]
        told = (f"{page}\n  the page of a report that had none" for page in pages)
        out.result({"outputs": outputs, "pages": pages}, *told)
    if any(each["failed"] for each in outputs):
        is_full = any("No space left" in each["text"] for each in outputs)
        cause = f"free space on the disk of {path}" if is_full else "remove the cause"
        out.tell("hint", f"{cause}, then run recover again")
        raise typer.Exit(EXIT_USAGE)


def check(
    path: Annotated[str, opt("PATH", "A dataset, one of its files, or a folder above it; or a URL.")],
    *,
    user: Annotated[str, opt("--for NAME", "Also check what this program asks: nurec.")] = "",
    quick: Annotated[bool, opt("--quick", "Decode no picture, cloud or mask, at 10 ms each.")] = False,
    official: Annotated[Path | None, opt("--official PYTHON", "Also ask NVIDIA's reader in PYTHON.")] = None,
    strict: Annotated[bool, opt("--strict", "Fail on warnings, too.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Check that datasets are complete, undamaged and consistent.

    It reads every dataset at or below PATH as for training, prints what is wrong, and then one line for each
    dataset. It writes nothing.

    --for prints a line for each demand: YES, NO and what to do, or UNKNOWN where data cannot tell.

    Exit codes: 0 sound; 1 errors, a NO, a dataset that is being written, or with --strict a warning;
    2 no dataset there.

    For example

      edgefirst-ros check out

      edgefirst-ros check out/ncore --for nurec
    """
    out, results = Out(as_json=as_json), []
    out.note(*FORMATS.faults)
    with out.guarded():
        from edgefirst_ros.formats.datasets import check as run_checks
        from edgefirst_ros.formats.format import Look
        from edgefirst_ros.offline.opening import located, nearby

        users = {name.lower(): (name, each.name) for each in FORMATS.values() for name in each.users}
        if user and user.lower() not in users:
            raise ConfigError([f"--for: {user!r} is not known; there are {', '.join(sorted(users))}"])
        (user, kind), place = users.get(user.lower(), ("", "")), nearby(located(path))
        with out.progress("checking") as view:
            walk = os.walk(place if place.is_dir() else place.parent)
            size = sum(Path(top, name).lstat().st_size for top, _, names in walk for name in names)
            look = Look(quick, lambda passed: view.add(passed, size), user)
            for result in run_checks(place, official_python=official, look=look):
                results.append(result)
                if not as_json:
                    out.result(None, result.text)
        formats = {each.format: FORMATS[each.format] for each in results}
        if user and not any(user in each.users for each in formats.values()):
            raise DatasetNotFound(
                f"{path}: holds no dataset that {user} takes; convert --format {kind} makes one"
            )
        for reader in {each.unasked() for each in formats.values() if official is None} - {""}:
            out.tell("hint", f"not tested with {reader}, which --official PYTHON asks")
        out.result([{"ok": each.ok and not each.failed, **asdict(each)} for each in results])
    if not all(each.ok and not each.failed and not (strict and each.warnings) for each in results):
        raise typer.Exit(EXIT_POOR)


def select(
    source: Annotated[Path, opt("SOURCE", "A folder of datasets, or a catalogue (.parquet).")],
    *,
    output: Annotated[Path, opt("--output -o FOLDER", "Folder of the new dataset.")],
    where: Annotated[str, opt("--where SQL", "A condition on the catalogue's columns, in polars' SQL.")] = "",
    overwrite: options.Overwrite = False,
    as_json: options.AsJson = False,
) -> None:
    """Choose samples of EdgeFirst datasets by SQL, as a new dataset.

    SOURCE/catalog.parquet has a row for each sample, and is made if it is not there. docs/corpus.md has its
    columns. Sensor files are copied byte for byte. It needs pip install 'edgefirst_ros[polars]'.

    For example

      edgefirst-ros select out --where "person > 0 and speed_mps > 5" -o subset

      edgefirst-ros select out/catalog.parquet --where "frame % 10 = 0" -o some
    """
    out = Out(as_json=as_json)
    with out.guarded("use --overwrite, or another -o"):
        from edgefirst_ros import select as choose

        with out.progress("selecting") as view:
            done = choose(source, output, where=where, overwrite=overwrite, on_progress=view)
        counts = f"{done.samples:,} of {done.of:,} samples, of {several(done.datasets, 'datasets')}"
        out.result({**done._asdict(), "path": f"{done.path}"}, f"{done.path}\n  {counts}")


def export(
    layout: Annotated[str, opt("coco|yolo|hf", "COCO, Ultralytics' YOLO, or Hugging Face's datasets.")],
    sources: Annotated[
        list[str], opt("SOURCE...", "Datasets, folders above them, or URLs, each taken once.")
    ],
    *,
    output: Annotated[Path, opt("--output -o FOLDER", "A new or empty folder.")],
    unlabelled: Annotated[bool, opt("--unlabelled", "Also pictures without labels, as empty ones.")] = False,
    as_json: options.AsJson = False,
) -> None:
    """Write pictures and 2-D boxes for other tools, with counts by group.

    Several datasets become one, with the classes of all. Pictures that no model looked at are left out.

    For example

      edgefirst-ros export coco out -o coco

      edgefirst-ros export hf monday tuesday -o hf
    """
    out = Out(as_json=as_json)
    with out.guarded():
        import edgefirst_ros

        write = getattr(edgefirst_ros, f"export_{layout}")
        opened = edgefirst_ros.open(sources, format="edgefirst")
        with out.progress("exporting") as view:
            files, pictures, boxes = write(opened, output, unlabelled=unlabelled, on_progress=view)
        groups = {group: {"pictures": n, "boxes": boxes[group]} for group, n in pictures.items()}
        out.result({"files": [f"{file}" for file in files], "groups": groups}, *(f"{file}" for file in files))
        for group, counts in groups.items():
            out.note(f"{group}: {', '.join(several(n, what) for what, n in counts.items())}", label="")
