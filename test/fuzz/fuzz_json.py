"""JSON that other runs have left, with hostile values: a fleet's notes, reports, recorded sessions."""

from __future__ import annotations

import io
import json
import os
import random
import struct
import tempfile
from contextlib import suppress
from dataclasses import replace
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from drives import simulated
from fuzz_datasets import ELSEWHERE, packed_folder, unpack_folder
from fuzz_outcomes import command
from fuzz_recordings import SMALL, messages_of, recording_of
from fuzzing import Target, UnexpectedError
from hostile_files import changed_json
from mcap.reader import make_reader
from notes_made import KEY, SOUND
from valid_messages import VALUES
from wire_encoder import encode

from edgefirst_ros.config.model import build_config
from edgefirst_ros.fleet.notes import DONE, PLAN, Notes, encoded
from edgefirst_ros.fleet.output import open_output
from edgefirst_ros.fleet.page import put_report
from edgefirst_ros.fleet.plan import Settings, make_plan
from edgefirst_ros.fleet.task import Task, run_task
from edgefirst_ros.model.errors import EdgeFirstError
from edgefirst_ros.model.registry import decoder
from edgefirst_ros.model.sample import Calibration
from edgefirst_ros.model.transform import Transform
from edgefirst_ros.model.untrusted import REPORT
from edgefirst_ros.offline.convert import convert
from edgefirst_ros.simulation import DriveOptions
from edgefirst_ros.sources.mcap import McapRecording
from edgefirst_ros.sources.session import RESUMED, SESSION, RecordedSession, resumed_message

SETTINGS = Settings({"formats": ["edgefirst"]}, {}, version("edgefirst_ros"), page=False)
MARKUP = "<script>alert(1)</script>"
"""Must not stand in a page as it is."""


@cache
def _drive() -> Path:
    return simulated(DriveOptions(**{**SMALL, "seconds": 0.7})).mcap


@cache
def _report() -> bytes:
    with tempfile.TemporaryDirectory() as folder:
        found = convert([_drive()], Path(folder), build_config({"formats": ["edgefirst", "l5kit"]}))
        return next(path for path in found.paths if path.name == REPORT).read_bytes()


def fleets() -> list[bytes]:
    """Outputs with notes of every kind: done with other files; done; failed; begun."""
    with tempfile.TemporaryDirectory() as folder:
        (drive,) = make_plan([_drive()], SETTINGS, open_output(folder)).work
    before = replace(drive.key, state="0" * 12)
    plan = {"drives": {drive.name: str(drive.key), "other": "x"}}
    names = {
        kind: {f"{kind}/{drive.name}.{drive.key}": {**SOUND[kind], "drive": drive.name}} for kind in SOUND
    }
    changed = {
        f"{DONE}/{drive.name}.{before}": {**SOUND[DONE], "drive": drive.name, "page": f"../{ELSEWHERE}"}
    }
    return [
        _output(drive.name, changed),
        *(_output(drive.name, {**notes, PLAN: plan}) for notes in names.values()),
    ]


def _output(drive: str, notes: dict[str, dict[str, Any]]) -> bytes:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "out"
        (Path(name) / ELSEWHERE).mkdir()
        (Path(name) / ELSEWHERE / "file").write_bytes(b"untouched")
        (folder / drive).mkdir(parents=True)
        (folder / drive / "lnk").symlink_to(f"../../{ELSEWHERE}")
        for note, values in notes.items():
            path = folder / f"{note}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(encoded(values))
        return packed_folder(Path(name))


def mutate_notes(rng: random.Random, data: bytes) -> bytes:
    """Hostile values in notes, other names for them, or what is no file in their place."""
    with tempfile.TemporaryDirectory() as name:
        unpack_folder(data, Path(name))
        notes = sorted(Path(name).rglob("*.json"))
        for _ in range(rng.choice((1, 1, 2))):
            path = rng.choice(notes)
            if not path.is_file():
                continue
            way = rng.random()
            if way < 0.8:
                path.write_bytes(changed_json(rng, path.read_bytes()))
            elif way < 0.86:
                path.rename(path.with_name(rng.choice(("x.json", ".json", f"a.{KEY}.json", "\udcff.json"))))
            else:
                path.unlink()
                _no_file(rng, path)
        return packed_folder(Path(name))


def _no_file(rng: random.Random, path: Path) -> None:
    way = rng.randrange(5)
    if way == 0:
        path.mkdir()
    elif way == 1:
        os.mkfifo(path)
    else:
        path.symlink_to(("/dev/zero", "missing", "/proc/self/mem")[way - 2])


def run_notes(data: bytes, folder: Path) -> str:
    unpack_folder(data, folder)
    output = folder / "out"
    said = [str(command("info", output)), str(command("info", output, "--json"))]
    to = open_output(str(output))
    with suppress(EdgeFirstError, OSError), to.hold(lambda: None):
        plan = make_plan([_drive()], SETTINGS, to)
        Notes(to).put_plan({drive.name: drive.key for drive in plan.drives})
        said += [run_task(Task(drive, SETTINGS, to.shown, 1)).how for drive in plan.work]
        said.append("planned")
    with suppress(EdgeFirstError, OSError):
        put_report(to, said.append)
        said.append("reported")
        if MARKUP in (output / "fleet_report.html").read_text():
            raise UnexpectedError("markup of a note is in the page as it is")
    if (folder / ELSEWHERE / "file").read_bytes() != b"untouched":
        raise UnexpectedError("a file elsewhere was changed")
    return "-".join(said)


def reports() -> list[bytes]:
    return [_report()]


def mutate_report(rng: random.Random, data: bytes) -> bytes:
    """Hostile values in a capture report; some of them markup."""
    made = changed_json(rng, data)
    if rng.random() < 0.3:
        made = made.replace(b'"sensor_msgs/msg/Imu"', json.dumps(MARKUP).encode()).replace(
            b"camera", b"<script>"
        )
    return made


def run_report(data: bytes, folder: Path) -> str:
    path = folder / "ds" / REPORT
    path.parent.mkdir()
    path.write_bytes(data)
    page = folder / "page.html"
    code = command("report", path.parent, "-o", page)
    said = str(command("check", path.parent))
    if page.exists() and MARKUP in page.read_text():
        raise UnexpectedError("markup of the report is in the page as it is")
    return f"{code}-{said}"


def sessions() -> list[bytes]:
    """A recording as ``capture --record`` makes it, with a calibration, resumed once."""
    messages = [each for each in McapRecording(_drive()).messages() if each.topic != "/radar/cube"]
    info, radar, model = (
        decoder(schema)(encode(schema, VALUES[schema]), "").datum
        for schema in ("sensor_msgs/CameraInfo", "edgefirst_msgs/RadarInfo", "edgefirst_msgs/ModelInfo")
    )
    mount = Transform("base_link", "camera_optical", (1.0, 0.0, 1.0), (-0.5, 0.5, -0.5, 0.5))
    known = Calibration(info, radar, model, {mount.child: mount})
    name = "host_2026_05_01_09_00_00"
    session = RecordedSession("ds", name, "host", {"rate_hz": 5.0}, known).to_metadata()
    half = messages[len(messages) // 2].receive_ns
    marker = resumed_message(f"{name}_2", known)._replace(receive_ns=half, publish_ns=half)
    content = sorted([*messages, marker], key=lambda each: each.receive_ns)
    return [recording_of(content, 0, {SESSION: session}), recording_of(messages, 0, {SESSION: session})]


def mutate_session(rng: random.Random, data: bytes) -> bytes:
    """Hostile values in the calibration or the settings of a session, or in a marker of its resumption."""
    content = messages_of(data)
    session = dict(_metadata(data))
    way = rng.random()
    if way < 0.6:
        name = rng.choice(("calibration", "calibration", "settings"))
        session[name] = changed_json(rng, session[name].encode()).decode(errors="replace")
    elif way < 0.8:
        name = rng.choice(sorted(session))
        session[name] = rng.choice(
            ("", "x" * 70_000, "1 2", "-1 99999999999999999999", "../../x", "\x1b[2J", "2")
        )
    else:
        marked = [n for n, each in enumerate(content) if each.topic == RESUMED]
        for n in marked:
            text = content[n].data[8:-1]
            values = json.loads(text)
            inner = changed_json(rng, values["calibration"].encode()).decode(errors="replace")
            text = (
                json.dumps({**values, "calibration": inner}).encode()
                if way < 0.9
                else changed_json(rng, text)
            )
            head = content[n].data[:4] + struct.pack("<I", len(text) + 1)
            content[n] = content[n]._replace(data=head + text + b"\0")
    return recording_of(content, 0, {SESSION: session})


def _metadata(data: bytes) -> dict[str, str]:
    return next(
        record.metadata for record in make_reader(io.BytesIO(data)).iter_metadata() if record.name == SESSION
    )


def run_session(data: bytes, folder: Path) -> str:
    path = folder / "host_2026_05_01_09_00_00.mcap"
    path.write_bytes(data)
    code = command("convert", path, "-o", folder / "out", "--no-report", "--format", "edgefirst,ncore")
    return f"{code}-{command('check', folder / 'out')}"


NOTES = Target("notes", fleets, run_notes, mutate_notes)
REPORTS = Target("reports", reports, run_report, mutate_report)
SESSIONS = Target("sessions", sessions, run_session, mutate_session)
