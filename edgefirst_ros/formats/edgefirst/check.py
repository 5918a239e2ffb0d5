"""What can be verified about EdgeFirst datasets, without the vendor's client."""

from __future__ import annotations

import json
from pathlib import Path

from edgefirst_ros.errors import DatasetNotFound
from edgefirst_ros.formats.edgefirst.checkfiles import Seen, check_files
from edgefirst_ros.formats.edgefirst.checksamples import FILES, Samples
from edgefirst_ros.formats.edgefirst.checktable import check_table
from edgefirst_ros.formats.edgefirst.checkzip import folder_files, zip_files
from edgefirst_ros.formats.findings import Check, Findings, concluded
from edgefirst_ros.naming import REPORT


def check(path: Path) -> Check:
    """Check the dataset at ``path``: the folder that bears its name, its ``.arrow`` or its ``.zip``.

    Every file is read once, one at a time, and the table batch by batch; what is kept is four bytes a frame.

    Raises:
        DatasetNotFound: no such file or folder, or nothing of a dataset in it.
    """
    if not path.exists():
        raise DatasetNotFound(f"{path}: no such file or folder")
    name = path.name if path.is_dir() else path.stem
    folder = path if path.is_dir() else path.parent
    table, archive, plain = folder / f"{name}.arrow", folder / f"{name}.zip", folder / name
    parts = sorted(p for p in folder.glob("*.part") if p.name.startswith((f"{name}.", f"{REPORT}.")))
    if not (parts or table.is_file() or archive.is_file() or plain.is_dir() or (folder / REPORT).is_file()):
        raise DatasetNotFound(f"{path}: holds no EdgeFirst dataset; expected {name}.arrow")
    findings = Findings()
    for part in parts:
        findings.error(part.name, "unfinished; edgefirst-ros recover can finish it")
    if not parts:
        if not (archive.is_file() or plain.is_dir()):
            findings.error(name, "no sensor files", f"neither {archive.name} nor {plain.name}/ is there")
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


def _check_container(archive: Path, plain: Path, findings: Findings) -> Seen:
    if archive.is_file():
        if plain.is_dir():
            findings.warning(
                archive.stem, "has its files twice; the folder is not looked at", f"{plain.name}/"
            )
        return check_files(zip_files(archive, findings), archive.name, findings)
    if plain.is_dir():
        return check_files(folder_files(plain, findings), plain.name, findings)
    return Seen()


def _count(samples: Samples) -> dict[str, int]:
    """Samples with files, by sequence."""
    found = {name: sum(bool(bits & FILES) for _, bits in samples.of(name)) for name in samples.sequences()}
    return {name: count for name, count in found.items() if count}


def _check_report(path: Path, samples: dict[str, int], findings: Findings) -> None:
    """The report beside the dataset is of this dataset; one that was recovered has none."""
    if not path.is_file():
        return
    try:
        report = json.loads(path.read_bytes())
        said = {each["name"]: each["sample"] for each in report["sequences"] if each["sample"]}
        total = report.get("formats", {}).get("edgefirst", report)["samples"]
        others = report["samples"] - total
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        findings.error(path.name, "is no capture report", repr(error))
        return
    if total != sum(samples.values()):
        findings.error(path.name, "counts other samples than there are", f"{total}, {sum(samples.values())}")
    for name in sorted(said.keys() | samples.keys()):
        # Samples that only other formats have are in the sequences' counts, too.
        if not others and said.get(name, 0) != samples.get(name, 0):
            text = f"{said.get(name, 0)}, {samples.get(name, 0)}"
            findings.error(path.name, f"counts other samples of {name} than there are", text)
