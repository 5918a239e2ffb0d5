"""Print a sha256 of everything that convert, capture and recover write: to see that it stays the same.

    python benchmarks/digests.py [--data FOLDER] [--jobs N] [--only PART] [--write FILE] [--against FILE]

A line a scenario: the sha256 over its files' paths and digests, and how many they are. FILE is JSON and has
every file's. With --against the exit code is 1 if a scenario differs, and the files that do are named.

What digests.yaml lists is run as a user runs it, with `python -m edgefirst_ros`, whatever modules there are.
Of reports, versions are left out, and of a live session's, times of receipt; its recording is looked at by
what it becomes.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import shlex
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
PLAN: Mapping[str, Any] = yaml.safe_load(Path(__file__).with_suffix(".yaml").read_text())
LIMIT_S = 300.0
PACKAGE = ("-m", "edgefirst_ros")
FAULTY = (str(ROOT / "test" / "faulty"),)
KILLED = """
import os, re, runpy, sys
_, place, number, *sys.argv[1:] = sys.argv
left = [int(number)]
def look(event, details):
    if event == "os.rename" and re.search(place, os.fspath(details[1])):
        left[0] -= 1
        if not left[0]:
            os._exit(9)
sys.addaudithook(look)
runpy.run_module("edgefirst_ros", run_name="__main__")
"""
Process = subprocess.Popen[bytes]


def started(folder: Path, command: str, *options: str, code: tuple[str, ...] = PACKAGE) -> Process:
    """A command in a folder; what it says goes to a file of its name there."""
    with (folder / f"{command}.err").open("wb") as err:
        env = {**os.environ, "PYTHONPATH": str(ROOT)}
        words = [sys.executable, *code, command, *options]
        return subprocess.Popen(words, cwd=folder, env=env, stdout=subprocess.DEVNULL, stderr=err)


def await_end(process: Process, folder: Path, expected: int = 0) -> None:
    """Another exit code than the expected is an error."""
    if process.wait(LIMIT_S) != expected:
        said = "\n".join(path.read_text() for path in folder.glob("*.err"))
        raise RuntimeError(f"{process.args!r} exits with {process.returncode}:\n{said}")


def run(folder: Path, words: Sequence[str]) -> None:
    """A command from its beginning to its end."""
    await_end(started(folder, *words), folder)


def simulate(folder: Path, words: Sequence[str]) -> None:
    """A drive, some of which have faults."""
    await_end(started(folder, "simulate", *words, code=FAULTY), folder)


def recording(folder: Path, drive: str) -> str:
    """Where a drive's files are, seen from the folder."""
    return os.path.relpath(min((folder.parent / f"simulate {drive}").rglob("*.mcap")).parent, folder)


def options_of(folder: Path, words: str, own: Mapping[str, Any] = PLAN["configs"]["zero"]) -> list[str]:
    """Options that convert and capture share; the configuration, which is the first word, is written."""
    config, *options = shlex.split(words)
    (folder / "config.yaml").write_text(json.dumps({**own, **PLAN["configs"][config]}))
    formats = () if "--format" in options else ("--format", "edgefirst,ncore,l5kit")
    return ["-o", "out", "--name", "d", "--config", "config.yaml", *formats, *options]


def conversion(folder: Path, drives: str, words: str) -> list[str]:
    """The command's words."""
    found = (recording(folder, drive) for drive in drives.split(" + "))
    return ["convert", *found, *options_of(folder, words)]


def convert(folder: Path, drives: str, words: str) -> None:
    """Convert, one after another into the same output."""
    for number, drive in enumerate(drives.split(", ")):
        run(folder, conversion(folder, drive, words if number else words.replace(" --overwrite", "")))


def recover(folder: Path, place: str, number: int, words: str) -> None:
    """Convert up to the kill, then recover what is left of it: as it is, and torn."""
    if "--overwrite" in words:
        convert(folder, "tiles", words)
    killing = ("-c", KILLED, place, str(number))
    await_end(started(folder, *conversion(folder, "plain", words), code=killing), folder, 9)
    (folder / "out").rename(folder / "killed")
    for kind in ("whole", "torn"):
        shutil.copytree(folder / "killed", folder / "out" / kind)
    for path in [path for path in (folder / "out" / "torn").rglob("*") if path.is_file()]:
        if path.name.endswith(".json.part"):
            path.unlink()
        elif path.name.endswith((".part", ".rows")):
            os.truncate(path, path.stat().st_size * 3 // 5)
    for kind in ("whole", "torn"):
        run(folder, ("recover", f"out/{kind}"))


def capture(folder: Path, words: str, playing: str) -> None:
    """Capture what another process plays; times are the stamps, so that it does not matter when they come."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        endpoint = f"tcp/127.0.0.1:{found.getsockname()[1]}"
    named = ("--session", "s", "--host", "h", *options_of(folder, words, PLAN["live"]))
    live = started(folder, "capture", "--zenoh", endpoint, *named)
    try:
        play = ("play", recording(folder, "plain"), "--zenoh-listen", endpoint, "--wait", "60")
        run(folder, (*play, *shlex.split(playing)))
        count = f"{(folder / 'play.err').read_text().split()[0]} messages received"
        limit_s = time.monotonic() + LIMIT_S
        while count not in (folder / "capture.err").read_text() and time.monotonic() < limit_s:
            time.sleep(0.1)
        live.send_signal(signal.SIGINT)
        await_end(live, folder, 130)
    finally:
        live.kill()
    if json.loads(next((folder / "out").rglob("*capture_report.json")).read_text())["totals"]["dropped"]:
        raise RuntimeError("the machine is too busy: messages were dropped")
    for path in (folder / "out").glob("recordings/*.mcap"):
        run(folder, ("convert", str(path.relative_to(folder)), "-o", "out/again"))
        shutil.rmtree(path.parent)


def scenarios() -> Iterator[tuple[str, Callable[[Path], None]]]:
    """Name, and what is to be done in its folder."""
    for drive, words in PLAN["drives"].items():
        made = ("-o", "out", *shlex.split(f"{PLAN['small']} {words}"))
        yield f"simulate {drive}", partial(simulate, words=made)
    for drives, each in PLAN["convert"].items():
        yield from ((f"convert {drives}: {w}", partial(convert, drives=drives, words=w)) for w in each)
    for place, number, words in PLAN["recover"]:
        name = f"recover {words}, killed at {place} {number}"
        yield name, partial(recover, place=place, number=number, words=words)
    for words, playing in PLAN["capture"]:
        yield f"capture {words}", partial(capture, words=words, playing=playing)


def digest(work: Path, name: str, make: Callable[[Path], None]) -> dict[str, str]:
    """Digest by path of every file that a scenario writes, none if it fails; its line is printed."""
    folder, found = work / name.replace("/", "_"), {}
    folder.mkdir()
    try:
        make(folder)
    except (RuntimeError, subprocess.TimeoutExpired) as error:
        print(f"{name} failed: {error}", flush=True)
        return {}
    for path in sorted(path for path in (folder / "out").rglob("*") if path.is_file()):
        data = path.read_bytes()
        if path.name.endswith("capture_report.html"):
            continue  # made of the report and the datasets
        if path.name.endswith("capture_report.json"):
            report = json.loads(data)
            del report["versions"]
            if name.startswith("capture"):
                report = {
                    k: v for k, v in report.items() if not k.startswith("recording") and k != "timeline"
                }
                for sequence in report["sequences"]:
                    del sequence["clocks"], sequence["rates_hz"], sequence["streams"]
            data = json.dumps(report).encode()
        found[path.relative_to(folder / "out").as_posix()] = hashlib.sha256(data).hexdigest()
    if not name.startswith("simulate"):
        shutil.rmtree(folder)
    print(name, hashlib.sha256(json.dumps(found).encode()).hexdigest(), len(found), "files", flush=True)
    return found


def differs(name: str, was: Mapping[str, str], found: Mapping[str, str]) -> bool:
    """Whether a scenario's files differ or are none; the first that do are printed."""
    paths = sorted(path for path in {*was, *found} if was.get(path) != found.get(path))
    for path in paths[:5]:
        print(f"{name}: {path}: {'gone' if path not in found else 'differs' if path in was else 'new'}")
    if paths[5:]:
        print(f"{name}: and {len(paths) - 5} more")
    return bool(paths) or not found


def main() -> int:
    """Print a line a scenario; 1 if one differs or fails."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", type=Path, default=ROOT.parent / "shared" / "data", help="a recording")
    parser.add_argument("--jobs", type=int, default=1, help="scenarios at a time")
    parser.add_argument("--only", default="", help="scenarios with this in their names")
    parser.add_argument("--write", type=Path, help="write the digests as JSON")
    parser.add_argument("--against", type=Path, help="JSON to compare with")
    given = parser.parse_args()
    chosen = {name: make for name, make in scenarios() if given.only in name or name.startswith("simulate")}
    if not any(given.data.glob("*.mcap")):
        print(f"skipped: all of the recording that is given, as there is none in {given.data}")
        chosen = {name: make for name, make in chosen.items() if " real" not in name}
    now: dict[str, dict[str, str]] = {}
    with tempfile.TemporaryDirectory() as work, ThreadPoolExecutor(given.jobs) as pool:
        (Path(work) / "simulate real").symlink_to(given.data.resolve())
        for is_drive in (True, False):  # of which the others are made
            names = [name for name in chosen if name.startswith("simulate") is is_drive]
            made = [pool.submit(digest, Path(work), name, chosen[name]) for name in names]
            now |= {name: each.result() for name, each in zip(names, made, strict=True)}
    if given.write:
        given.write.write_text(json.dumps(now, indent=1) + "\n")
    before = json.loads(given.against.read_text()) if given.against else now
    bad = [name for name, found in now.items() if differs(name, before.get(name, {}), found)]
    print(f"{len(now)} scenarios, {len(bad)} differ or fail" + "".join(f"\n  {name}" for name in bad))
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
