"""One run from configuration to finished output: the writers, the pipeline and the report it leaves."""

from __future__ import annotations

import json
import re
import shlex
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from edgefirst_ros.config.model import Config
from edgefirst_ros.formats.crashsafe.journal import lock_open_file
from edgefirst_ros.formats.crashsafe.names import forget, part_path, refuse_links, remove, take_name
from edgefirst_ros.formats.crashsafe.sync import AppendFile, disk_errors, make_folder
from edgefirst_ros.formats.datasets import recover
from edgefirst_ros.formats.format import Target, Writer
from edgefirst_ros.formats.registry import FORMATS
from edgefirst_ros.model.errors import DatasetError, WriteError
from edgefirst_ros.model.sample import Role, Sample
from edgefirst_ros.model.untrusted import MOST_REPORT_BYTES, PAGE, REPORT, page_path, read_object, safe_name
from edgefirst_ros.pipeline.assembly import Pipeline
from edgefirst_ros.pipeline.disk import Disk, Mark
from edgefirst_ros.pipeline.overload import Overload
from edgefirst_ros.pipeline.processes import Workers, keep_freed_memory
from edgefirst_ros.report.models import parsed
from edgefirst_ros.report.shortfalls import never_arrived, unreadable
from edgefirst_ros.video.decoder import require_decoder


class Job:
    """Writers of every configured format behind one pipeline; recordings and live capture use it alike.

    ``sequences`` are names of sequences to come, as far as they are known; ``processes`` and ``workers``: see
    ``Pipeline``. ``publishers`` are those of topics that the ROS graph has several of.

    Raises:
        ConfigError: the machine lacks the decoder that is configured.
        OutputExists: an output is there already and ``overwrite`` is off.
        OutputBusy: another process is writing it.
        WriteError: the output folder cannot be made, or a folder in it is a symbolic link.
    """

    def __init__(
        self,
        config: Config,
        output: Path,
        dataset: str,
        *,
        overwrite: bool = False,
        sequences: Sequence[str] = (),
        committed: Callable[[Sample], None] | None = None,
        overload: Overload | None = None,
        durable: Callable[[Mark], None] | None = None,
        disk: Disk | None = None,
        processes: bool = False,
        workers: Workers | None = None,
    ) -> None:
        keep_freed_memory()
        self.dataset = safe_name(dataset)
        self._output = output
        self._config = config
        self._disk = disk
        if overwrite:
            _finish_earlier(report_path(config, output, self.dataset))
        require_decoder(config.decoder)
        refuse_links(output, *(output / each.name for each in config.chosen_formats))
        self.writers: list[Writer] = []
        for each in config.chosen_formats:
            target = Target(
                output / each.name, self.dataset, overwrite, tuple(sequences), *_alignment(config)
            )
            self.writers.append(each.writer(config.options(each), target))
        _check_writable(output)
        self.overload = overload
        self.publishers: dict[str, list[str]] = {}
        self.pipeline = Pipeline(
            config,
            self.writers,
            committed,
            overload,
            durable=durable,
            disk=disk,
            processes=processes,
            workers=workers,
        )
        self.pipeline.notes += FORMATS.faults

    def finish(
        self, head: Mapping[str, Any], *, warnings: Sequence[str] = ()
    ) -> tuple[list[Path], dict[str, Any]]:
        """Complete the output and write the report; the paths to look at, and the report.

        When this returns all of it survives a power cut. First everything is finished under ``.part`` names,
        the report last: once that is on disk the run counts as complete, and wherever it is killed then,
        recovery gives the names, in place of an earlier run's files and report. Before, those stay. The page
        of an earlier run goes before anything of this one gets a name: none is beside what it does not show.

        ``warnings`` come before those that the pipeline has itself.

        Raises:
            WriteError: the output cannot be completed; what was committed stays in ``.part`` files.
        """
        paths = self.pipeline.complete()
        report = {"dataset": self.dataset, **head, **self.pipeline.report()}
        report["notes"] += [f"{w.name}: {note}" for w in self.writers for note in w.notes]
        report["warnings"] = [*warnings, *report["warnings"]]
        if self._disk is not None:  # live; what depends on the disk's speed is of no use to others
            if self._disk.reason not in {"", head.get("ended")}:
                report["warnings"].append(f"not everything was written: {self._disk.reason}")
            commits = self.pipeline.fanout.commits
            if commits.at_risk_s is not None:
                report["at_risk_s"] = round(commits.at_risk_s, 2)
            found = (*commits.findings, *never_arrived(parsed(report)), *unreadable(parsed(report)))
            report["warnings"] += (each.text for each in found)
        report["warnings"] += [f"{w.name}: {warning}" for w in self.writers for warning in w.warnings]
        if report["samples"]:
            given_up = self.pipeline.fanout.given_up
            empty = [w.name for w in self.writers if w.name not in given_up and not self._wrote(w, paths)]
            report["warnings"] += [f"{name}: {FORMATS[name].nothing}" for name in empty]
        report["files"] = [path.relative_to(self._output).as_posix() for path in paths]
        path = self._report_place(paths)
        output = shlex.quote(str(self._output))
        with disk_errors(path, advice=f"edgefirst-ros recover {output} completes what is in .part files"):
            make_folder(path.parent)
            remove(part_path(path))
            with closing(AppendFile(part_path(path), exclusive=True)) as part:
                lock_open_file(
                    part.descriptor, part_path(path)
                )  # so that no recovery gives the names as well
                part.append((_as_text(report) + "\n").encode())
                part.sync()
                forget(page_path(path))
                self.pipeline.close()
                take_name(path)
        return [*paths, path], report

    def _report_place(self, paths: Sequence[Path]) -> Path:
        """Where the report goes: not into an earlier run's dataset of which this one replaces nothing."""
        config = self._config
        if given_up := self.pipeline.fanout.given_up:  # nothing is made where their folders were
            left = tuple(name for name in config.formats if name not in given_up)
            config = config.model_copy(update={"formats": left})
        path = report_path(config, self._output, self.dataset)
        is_dataset = (
            path.name == REPORT
            and path.exists()
            and not {each.name for each in path.parent.iterdir()} <= {REPORT, PAGE}
        )
        if is_dataset and not any(written.parent == path.parent for written in paths):
            return _loose_report(config, self._output, self.dataset)
        return path

    def _wrote(self, writer: Writer, paths: Sequence[Path]) -> bool:
        return any(path.is_relative_to(self._output / writer.name) for path in paths)

    def abort(self) -> None:
        """Let go of files and threads after an error."""
        self.pipeline.abort()


_NUMBERS = re.compile(r"\[\n\s+(-?[\d.][-+\d.e]*(?:,\n\s+-?[\d.][-+\d.e]*)*)\n\s+\]")
"""A list of numbers in indented JSON; there is no line break within a string."""


def _as_text(report: Mapping[str, Any]) -> str:
    """Indented JSON with lists of numbers on one line."""
    text = json.dumps(report, indent=2, ensure_ascii=False)
    return _NUMBERS.sub(lambda found: f"[{' '.join(found[1].split())}]", text)


def _alignment(config: Config) -> tuple[Role | None, dict[Role, dict[str, float]]]:
    """The role of the reference, and by role and topic how near to its frame a message must be."""
    wanted = config.reference.strip("/")
    reference = None
    tolerances_ms: dict[Role, dict[str, float]] = {}
    for name, rule in config.topics.items():
        topic = rule.topic.strip("/")
        if wanted in (name, topic, rule.role) and reference is not Role.CAMERA:
            reference = rule.role
        if topic:
            tolerances_ms.setdefault(rule.role, {})[topic] = rule.tolerance_ns / 1e6
    return reference, tolerances_ms


def report_path(config: Config, output: Path, dataset: str) -> Path:
    """In the dataset of a format that has a place for it, else in the folder of the first format."""
    for each in config.chosen_formats:
        if found := each.report(Target(output / each.name, dataset)):
            return found
    return _loose_report(config, output, dataset)


def was_interrupted(config: Config, output: Path, dataset: str) -> bool:
    """Whether what is there was left by somebody who stopped its conversion."""
    try:
        report = read_object(report_path(config, output, safe_name(dataset)), MOST_REPORT_BYTES, DatasetError)
    except (OSError, DatasetError):
        return False
    return bool(report.get("interrupted"))


def _loose_report(config: Config, output: Path, dataset: str) -> Path:
    """Beside the datasets of the first format."""
    return output / config.formats[0] / f"{dataset}.{REPORT}"


def _finish_earlier(report: Path) -> None:
    """An earlier run that was killed among its last renames comes to its end, so that it is replaced whole.

    Raises:
        WriteError: it cannot be finished.
    """
    if part_path(report).exists():
        for done in recover(report):
            if done.failed:
                raise WriteError(done.text)


def _check_writable(output: Path) -> None:
    """Find out before the first message whether the output can be made, while nothing can be lost."""
    there = next(p for p in (output, *output.parents) if p.exists())
    try:
        with tempfile.TemporaryFile(dir=there):
            pass
    except OSError as error:
        reason = error.strerror or str(error)
        raise WriteError(f"{output}: cannot be written to: {reason}; choose another output folder") from error
