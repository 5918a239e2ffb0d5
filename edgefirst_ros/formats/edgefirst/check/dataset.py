"""Checks an EdgeFirst dataset."""

from __future__ import annotations

import json
from pathlib import Path

from edgefirst_ros.errors import DatasetNotFound
from edgefirst_ros.formats.crashsafe.reading import MOST_REPORT_BYTES, read_regular
from edgefirst_ros.formats.edgefirst.check.container import folder_files, zip_files
from edgefirst_ros.formats.edgefirst.check.files import SensorFiles, check_files
from edgefirst_ros.formats.edgefirst.check.samples import FILES, Samples
from edgefirst_ros.formats.edgefirst.check.table import check_table
from edgefirst_ros.formats.findings import Check, Findings, concluded
from edgefirst_ros.naming import REPORT


def check(path: Path) -> Check:
    """Check a dataset, given by its folder, ``.arrow`` or ``.zip``.

    Reads one file at a time and the table in batches; memory grows by 0.8 kB per file in a ZIP.

    Raises:
        DatasetNotFound: the path does not exist, or has no part of a dataset.
    """
    if not path.exists():
        raise DatasetNotFound(f"{path}: no such file or folder")
    name = path.name if path.is_dir() else path.stem
    folder = path if path.is_dir() else path.parent
    table, archive, plain = folder / f"{name}.arrow", folder / f"{name}.zip", folder / name
    parts = sorted(p for p in folder.glob("*.part") if p.name.startswith((f"{name}.", f"{REPORT}.")))
    is_bare = not (parts or table.is_file() or archive.is_file() or plain.is_dir())
    if is_bare and not (folder / REPORT).is_file():
        raise DatasetNotFound(f"{path}: holds no EdgeFirst dataset; expected {name}.arrow")
    findings = Findings()
    if not (parts or table.is_file() or archive.is_file() or plain.is_dir()) and _is_of_nothing(
        folder / REPORT
    ):
        findings.note(name, "holds no samples, as its report says")
        return concluded("edgefirst", name, findings, {"samples": 0})
    for part in parts:
        findings.error(part.name, "unfinished; edgefirst-ros recover can finish it")
    if not parts:
        if not (archive.is_file() or plain.is_dir()):
            findings.error(name, "no sensor files", f"expected {archive.name} or {plain.name}/")
        if not table.is_file():
            findings.error(name, "no annotation table", f"expected {table.name}")
    seen = _check_container(archive, plain, findings)
    samples = _count(seen.samples)
    counts = {"samples": sum(samples.values())}
    if table.is_file():
        counts["rows"] = check_table(table, seen, findings)
    if path.is_dir():
        _check_report(folder / REPORT, samples, findings)
    return concluded("edgefirst", name, findings, {**counts, **dict(sorted(seen.counts.items()))})


def _check_container(archive: Path, plain: Path, findings: Findings) -> SensorFiles:
    if archive.is_file():
        if plain.is_dir():
            findings.warning(
                archive.stem, "has a ZIP and a folder of files; only the ZIP is checked", f"{plain.name}/"
            )
        return check_files(zip_files(archive, findings), archive.name, findings)
    if plain.is_dir():
        return check_files(folder_files(plain, findings), plain.name, findings)
    return SensorFiles()


def _count(samples: Samples) -> dict[str, int]:
    """Number of samples with files, by sequence."""
    found = {name: sum(bool(bits & FILES) for _, bits in samples.of(name)) for name in samples.sequences()}
    return {name: count for name, count in found.items() if count}


def _is_of_nothing(report: Path) -> bool:
    """Whether a report is of a run without samples, which leaves nothing else."""
    try:
        return bool(
            json.loads(read_regular(report, MOST_REPORT_BYTES))["formats"]["edgefirst"]["samples"] == 0
        )
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _check_report(path: Path, samples: dict[str, int], findings: Findings) -> None:
    """Compare the counts of the report with the dataset's; recovered datasets have no report."""
    if not path.is_file():
        return
    try:
        report = json.loads(read_regular(path, MOST_REPORT_BYTES))
        reported = {str(each["name"]): int(each["sample"]) for each in report["sequences"] if each["sample"]}
        total = report.get("formats", {}).get("edgefirst", report)["samples"]
        others = report["samples"] - total
    except (
        OSError,
        ArithmeticError,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
        RecursionError,
    ) as error:
        findings.error(path.name, "is not a capture report", repr(error))
        return
    if total != sum(samples.values()):
        text = f"{total} in the report, {sum(samples.values())} in the dataset"
        findings.error(path.name, "number of samples differs", text)
    for name in sorted(reported.keys() | samples.keys()):
        # The counts of sequences include samples that only other formats have.
        if not others and reported.get(name, 0) != samples.get(name, 0):
            text = f"{reported.get(name, 0)} in the report, {samples.get(name, 0)} in the dataset"
            findings.error(path.name, f"number of samples of {name} differs", text)
