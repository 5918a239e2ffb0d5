"""Checks an EdgeFirst dataset."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from edgefirst_ros.formats.crashsafe.manifest import NO_MANIFEST, Comparison
from edgefirst_ros.formats.edgefirst.check.files import (
    File,
    SensorFiles,
    check_files,
    folder_files,
    zip_files,
)
from edgefirst_ros.formats.edgefirst.check.samples import FILES, Samples
from edgefirst_ros.formats.edgefirst.check.table import check_table
from edgefirst_ros.formats.edgefirst.finish import MADE_BY
from edgefirst_ros.formats.edgefirst.read.dataset import ANNOTATIONS, EdgeFirstDataset
from edgefirst_ros.formats.edgefirst.store.archive import MANIFEST, QUALITY, TABLE
from edgefirst_ros.formats.format import EVERYTHING, Check, Findings, Look, concluded, reading
from edgefirst_ros.model.errors import DatasetNotFound
from edgefirst_ros.model.untrusted import MOST_REPORT_BYTES, REPORT, parse_json, read_regular
from edgefirst_ros.model.zlib_backend import crc32

_KIND_OF = {
    "radar_targets": "radar.pcd",
    "radar_cube": "radar.png",
    "lidar_points": "lidar.pcd",
    "depth": "depth.png",
}
"""Kind of the file that each stored message of a role has; pictures are counted as samples."""


def check(path: Path, look: Look = EVERYTHING) -> Check:
    """Check a dataset, given by its folder, ``.arrow`` or ``.zip``.

    Reads one file at a time and the table in batches; memory grows by 0.8 kB per file in a ZIP. With a
    manifest all must be as it was written; without one the report's counts are all that there is.

    Raises:
        DatasetNotFound: the path does not exist, or has no part of a dataset.
    """
    if not path.exists():
        raise DatasetNotFound(f"{path}: no such file or folder")
    name = path.name if path.is_dir() else path.stem
    folder = path if path.is_dir() else path.parent
    table, archive, plain = folder / f"{name}.arrow", folder / f"{name}.zip", folder / name
    manifest = folder / f"{name}{MANIFEST}"
    parts = sorted(p for p in folder.glob("*.part") if p.name.startswith((f"{name}.", f"{REPORT}.")))
    is_listed = os.path.lexists(manifest)
    is_bare = not (parts or is_listed or table.is_file() or archive.is_file() or plain.is_dir())
    if is_bare and not (folder / REPORT).is_file():
        raise DatasetNotFound(f"{path}: holds no EdgeFirst dataset; expected {name}.arrow")
    findings = Findings(look)
    if is_bare and _is_of_nothing(folder / REPORT):
        findings.note(name, "holds no samples, as its report says")
        return concluded("edgefirst", name, findings, {"samples": 0})
    for part in parts:
        findings.error(part.name, "unfinished; edgefirst-ros recover can finish it")
    if not parts:
        _check_parts(name, table, archive, plain, findings)
    # While a dataset is being replaced, the manifest may be of either.
    comparison = Comparison(manifest, MADE_BY) if is_listed and not parts else None
    seen = _check_container(archive, plain, comparison, findings)
    samples = _count(seen.samples)
    counts = {"samples": sum(samples.values())}
    if table.is_file():
        counts["rows"] = check_table(table, seen, findings)
    if comparison is not None:
        _conclude(comparison, manifest, table, findings)
    elif not parts:
        findings.note(name, NO_MANIFEST)
    if path.is_dir():
        _check_report(folder / REPORT, samples, None if is_listed else seen.counts, findings)
    _check_samples(folder, name, findings)
    return concluded("edgefirst", name, findings, {**counts, **dict(sorted(seen.counts.items()))})


def _check_parts(name: str, table: Path, archive: Path, plain: Path, findings: Findings) -> None:
    if not (archive.is_file() or plain.is_dir()):
        findings.error(name, "no sensor files", f"expected {archive.name} or {plain.name}/")
    if not table.is_file():
        findings.error(name, "no annotation table", f"expected {table.name}")


def _conclude(comparison: Comparison, manifest: Path, table: Path, findings: Findings) -> None:
    """Hold the tables against the manifest, too, and say what differs in all."""
    if table.is_file():
        comparison.add(TABLE, table.stat().st_size, table)
    quality = table.with_name(QUALITY)
    if quality.is_file():
        comparison.add(QUALITY, quality.stat().st_size, quality)
    for fault in comparison.faults():
        findings.error(manifest.name, fault)


def _check_container(
    archive: Path, plain: Path, comparison: Comparison | None, findings: Findings
) -> SensorFiles:
    if archive.is_file():
        if plain.is_dir():
            findings.warning(
                archive.stem, "has a ZIP and a folder of files; only the ZIP is checked", f"{plain.name}/"
            )
        return check_files(_compared(zip_files(archive, findings), comparison), archive.name, findings)
    if plain.is_dir():
        return check_files(_compared(folder_files(plain, findings), comparison), plain.name, findings)
    return SensorFiles()


def _compared(files: Iterator[File], comparison: Comparison | None) -> Iterator[File]:
    """The same files, held against the manifest on their way."""
    for path, data in files:
        if comparison is not None:
            comparison.add(path, len(data or b""), None if data is None else crc32(data))
        yield path, data


def _check_samples(folder: Path, name: str, findings: Findings) -> None:
    """Have the reader itself read the annotations of all samples, whose files were decoded before."""
    if findings.look.quick or findings.counts["error"]:
        return
    with reading(findings, name, "dataset"):
        dataset = EdgeFirstDataset(folder, name, keys=ANNOTATIONS)
        for number in range(len(dataset)):
            with reading(findings, f"{name}@sample {number}", "sample"):
                dataset[number]


def _count(samples: Samples) -> dict[str, int]:
    """Number of samples with files, by sequence."""
    found = {name: sum(bool(bits & FILES) for _, bits in samples.of(name)) for name in samples.sequences()}
    return {name: count for name, count in found.items() if count}


def _is_of_nothing(report: Path) -> bool:
    """Whether a report is of a run without samples, which leaves nothing else."""
    try:
        report_ = parse_json(read_regular(report, MOST_REPORT_BYTES))
        return bool(report_["formats"]["edgefirst"]["samples"] == 0)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _check_report(
    path: Path, samples: dict[str, int], files: Counter[str] | None, findings: Findings
) -> None:
    """Compare the counts of the report with the dataset's; recovered datasets have no report.

    Args:
        path: the report's.
        samples: number of them by sequence.
        files: number of them by kind; None if they need not be compared.
        findings: what is found is added.
    """
    if not path.is_file():
        return
    try:
        report = parse_json(read_regular(path, MOST_REPORT_BYTES))
        sequences = [each for s in report["sequences"] for each in (s, *s.get("cameras", {}).values())]
        reported = {str(each["name"]): int(each["sample"]) for each in sequences if each["sample"]}
        total = report.get("formats", {}).get("edgefirst", report)["samples"]
        beside = sum(int(c["sample"]) for s in report["sequences"] for c in s.get("cameras", {}).values())
        others = report["samples"] + beside - total
        # Of which camera a companion is in samples, the report does not say.
        expected = {} if files is None else _reported_files(report, is_whole=not (others or beside))
    except (
        OSError,
        ArithmeticError,
        ValueError,
        KeyError,
        TypeError,
        AttributeError,
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
    for kind, (least, most) in expected.items():
        found = (files or Counter())[kind]
        if found < least or (most is not None and found > most):
            text = f"{least}{' or more' * (most is None)} by the report, {found} in the dataset"
            findings.error(path.name, f"number of {kind} differs", text)


def _reported_files(report: Mapping[str, Any], *, is_whole: bool) -> dict[str, tuple[int, int | None]]:
    """By kind the least and the most files that there are, by what became of the messages.

    A message is in the files of one sample or of several. The report says how many samples have one, and each
    of them has its file if no format lacks samples and no message was refused, in whole or in part.
    """
    roles = {t: s["role"] for each in report["sequences"] for t, s in each.get("streams", {}).items()}
    found: dict[str, tuple[int, int | None]] = {}
    for role, kind in _KIND_OF.items():
        topics = [topic for topic in report.get("topics", {}) if roles.get(topic) == role]
        accounts = [report["topics"][topic] for topic in topics]
        written = sum(int(account["written_to"].get("edgefirst", 0)) for account in accounts)
        paired = sum(int(report.get("companions", {}).get(topic, 0)) for topic in topics)
        is_exact = is_whole and not any(each["refused"] or each["refused_parts"] for each in accounts)
        if written:
            found[kind] = (paired, paired) if is_exact and paired >= written else (written, None)
    return found
