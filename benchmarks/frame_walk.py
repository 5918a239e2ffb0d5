"""What one camera frame and one radar cube go through, from the recording to the ledger.

    python benchmarks/frame_walk.py [--list]

Converts two simulated drives that differ only in how many frames (or cubes) they hold, with one worker and a
profiler, and divides what the longer one does more by the messages that it has more: opening, closing and all
other messages drop out. What is done for at least every second message belongs to the walk.

Lambdas and comprehensions are part of their function; resuming a generator is a call. How often threads look
for work varies, so the calls differ by some percent between runs, as does the order of the list. An object
carries the message if its constructor leaves it a buffer of at least 512 bytes or another carrier, be it in a
tuple, list, set or mapping. A type without a number is made without the message, too.
"""

from __future__ import annotations

import argparse
import gc
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any

from faults import FaultyOptions, simulate

from edgefirst_ros.config.model import build_config
from edgefirst_ros.offline.convert import convert

PACKAGE = "edgefirst_ros"
SHORT_S, LONG_S, DRIVE_S = 4.0, 6.0, 7.0
"""When the topic falls silent, and when the drive ends; clocks are known after 3 s."""
MESSAGES = {"camera frame": "camera/h264", "radar cube": "radar/cube"}
UNUSED = ("camera/info", "radar", "lidar", "model")
DRIVE = FaultyOptions(DRIVE_S, fps=10, radar_hz=10, cube_hz=10, imu_hz=50, cube_shape=(2, 64, 4, 32))


class Profile:
    """Calls of the package's functions, objects made and what they hold, until its threads have ended."""

    def __init__(self) -> None:
        self.calls: list[tuple[str, str]] = []
        self.made: list[type] = []
        self.held: list[tuple[type, type]] = []
        self._is_over, self._threads = False, set[threading.Thread]()

    def __call__(self, frame: FrameType, event: str, result: object) -> None:
        """Take an event of the interpreter."""
        code, module = frame.f_code, frame.f_globals.get("__name__", "")
        if event == "call":
            if is_own(module) and not self._ended() and "<" not in code.co_filename + code.co_name:
                self.calls.append((module, code.co_qualname))
        elif not self._is_over and event == "return":
            if code.co_name == "__init__" and is_own(module):
                made = frame.f_locals[code.co_varnames[0]]
                if getattr(type(made).__init__, "__code__", None) is code:
                    self._look(made)
            elif module.startswith("namedtuple_"):
                self._look(result)

    def _ended(self) -> bool:
        self._threads.add(threading.current_thread())
        self._is_over |= sum(thread.is_alive() for thread in tuple(self._threads)) == 1 < len(self._threads)
        return self._is_over

    def _look(self, made: object) -> None:
        if is_own(type(made).__module__):
            self.made.append(type(made))
            self.held += [(type(made), kind) for value in gc.get_referents(made) for kind in kinds(value)]


def is_own(module: str) -> bool:
    """Whether a module is the package's."""
    return f"{module}.".startswith(f"{PACKAGE}.")


def kinds(value: object, depth: int = 0) -> Iterator[type]:
    """The package's types within a value, and ``bytes`` for every large buffer."""
    if is_own(type(value).__module__):
        yield type(value)
    elif isinstance(value, tuple | list | set | frozenset | dict) and depth < 3:
        for each in gc.get_referents(value):
            yield from kinds(each, depth + 1)
    elif getattr(value, "nbytes", len(value) if isinstance(value, bytes | bytearray) else 0) >= 512:
        yield bytes


def profiled(recording: Path, topic: str, formats: tuple[str, ...]) -> tuple[Profile, int]:
    """A conversion's profile, without a first reading for poses, and the topic's messages written."""
    given = {"topics": {"radar_cube": {"required": "never"}}, "ego": {"smoothing": "lag"}, "workers": 1}
    config, profile = build_config({"formats": formats, **given}), Profile()
    with tempfile.TemporaryDirectory() as scratch:
        threading.setprofile(profile)
        sys.setprofile(profile)
        done = convert([recording], Path(scratch) / "out", config)
        sys.setprofile(None)
        threading.setprofile(None)
    return profile, done.report["topics"][f"/{topic}"]["written"]


def walk(recordings: Sequence[Path], topic: str, formats: tuple[str, ...], *, whole: bool) -> Iterator[str]:
    """What one message more costs, in lines for a person."""
    profiled(recordings[0], topic, formats)  # fills caches
    (short, few), (long, many) = (profiled(recording, topic, formats) for recording in recordings)

    def more(what: str) -> dict[Any, float]:
        counts = Counter(getattr(long, what))
        counts.subtract(getattr(short, what))
        return {each: n / (many - few) for each, n in counts.items() if 2 * n >= many - few}

    def named(types: list[type]) -> str:
        return ", ".join(each.__name__ + (f" ×{made[each]:g}" if each in made else "") for each in types)

    calls, made, held, order = more("calls"), more("made"), more("held"), dict.fromkeys(long.made)
    modules = dict.fromkeys(module for module, _ in calls)
    found: list[type] = [bytes]
    for carried in found:
        found += {holder for holder, kind in held if kind is carried and holder not in found}
    yield f"{len(calls)} functions in {len(modules)} modules, {sum(calls.values()):.0f} calls"
    for what, direct in (("hold its bytes", True), ("wrap those", False)):
        types = [kind for kind in order if kind in found and ((kind, bytes) in held) is direct]
        yield f"{len(types)} types {what}: {named(types)}"
    if whole:
        yield f"made besides: {named([kind for kind in made if kind not in found])}"
        for module in modules:
            names = (f"{name} ×{number:g}" for (owner, name), number in calls.items() if owner == module)
            yield f"  {module}: {', '.join(names)}"


def main() -> None:
    """Print both messages' walks, to EdgeFirst alone and to all formats."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--list", action="store_true", help="also list modules, in order of first call")
    whole = parser.parse_args().list
    for message, topic in MESSAGES.items():
        with tempfile.TemporaryDirectory() as scratch:
            recordings = []
            for until_s in (SHORT_S, LONG_S):
                silent = dict.fromkeys(UNUSED, ((0.0, DRIVE_S),)) | {topic: ((until_s, DRIVE_S),)}
                recordings.append(simulate(Path(scratch, f"{until_s}"), replace(DRIVE, silent=silent)).mcap)
            for formats in (("edgefirst",), ("edgefirst", "ncore", "l5kit")):
                lines = walk(recordings, topic, formats, whole=whole)
                print(f"{message} to {', '.join(formats)}:", *lines, sep="\n  ")


if __name__ == "__main__":
    main()
