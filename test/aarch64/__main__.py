"""``make test-aarch64``: the package on an emulated aarch64, and whether it makes what it makes here.

Exits with 1 if something fails or differs, with 2 if something that it takes is lacking.
"""

from __future__ import annotations

import argparse
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parent.parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent / "formats/ncore")]

from alike import DifferentError, compare  # noqa: E402
from emulated import fetch_wheels, inside, lacking, make_root  # noqa: E402
from places import contents  # noqa: E402

PACKAGE = "edgefirst_ros[zenoh,cloud,polars]"
TOOLS = (
    "pytest",
    "pytest-timeout",
    "hypothesis",
    "scipy",
    "pypcd4",
    "mcap-ros2-support",
    "rosbags",
    "setuptools",
)
"""Of the extra ``test``, what tests import that start no other process; versions are those that are here."""
FORMATS = {"edgefirst", "ncore", "l5kit"}
ALL = ("--format", ",".join(sorted(FORMATS)))
LIGHT = {"lidar_points": 64, "cube_shape": [1, 16, 1, 8], "cube_hz": 1, "model_hz": 3, "imu_hz": 20}
SMALL = ("--seconds", "10", "--fps", "3", "--size", "160x96", *(f"--set={k}={v}" for k, v in LIGHT.items()))
"""At its own pace, as at another one stamps drift; emulated, a sample in three formats takes 0.1 s."""
UNHURRIED = "overload: {latency_s: 0}"
"""Nothing is shed, however slow it is."""
SETTLE_S = 20.0
"""Between the last message and the signal: a capture gives what it still has to write 3 s after one."""
LIMIT_S = 900.0
TESTS = "test/model test/formats"
"""Those of the rooms that pack bytes and pixels; test/timing and test/ego take as long again."""
TESTS_LIMIT_S = 4 * 3600.0
OPTIONS = ("--quick", "-q", "--timeout=0", "-o", "faulthandler_timeout=0", "-p", "no:cacheprovider")
EMULATED = ("-p", "alone", "--hypothesis-profile=emulated")
COPY = """
git ls-files -z --cached --others --exclude-standard |
tar --create --null --files-from=- --file=- | tar --extract --directory "$0"
"""


class Failed(Exception):
    """A step failed; the text says how."""


class Machine:
    """The emulated one.

    Args:
        base: folder for its root, its wheels and everything that is made.
    """

    def __init__(self, base: Path) -> None:
        self.root = base / "root"
        self.work = self.root / "work"
        self.ours = base / "x86-64"

    def start(self, name: str, *words: str | Path) -> subprocess.Popen[bytes]:
        """A command in the working folder; what it says goes to files of that name."""
        with (self.work / f"{name}.out").open("wb") as out, (self.work / f"{name}.err").open("wb") as err:
            within = inside(self.root, "sh", "-c", 'cd /work && exec "$@"', "sh", *words)
            return subprocess.Popen(within, stdout=out, stderr=err)

    def end(
        self, process: subprocess.Popen[bytes], name: str, expected: int = 0, limit_s: float = LIMIT_S
    ) -> str:
        """Await it; what it said on both streams.

        Raises:
            Failed: it ends with another exit code.
        """
        code = process.wait(limit_s)
        said = "".join((self.work / f"{name}.{of}").read_text() for of in ("out", "err"))
        if code != expected:
            raise Failed(f"{name} ended with {code}:\n{said}")
        return said

    def run(self, name: str, *words: str | Path) -> str:
        """A command from its beginning to its end."""
        return self.end(self.start(name, *words), name)

    def program(self, command: str, *words: str | Path) -> str:
        """One of the package's commands."""
        return self.run(command, "edgefirst-ros", command, *words)


def install(machine: Machine, suite: str, mirror: str) -> list[str]:
    """Make the root if there is none, and install the package with all that it takes from wheels alone."""
    if not machine.root.exists():
        machine.root.parent.mkdir(exist_ok=True)
        make_root(machine.root, suite, mirror)
    for folder in (machine.work, machine.ours, machine.root / "tmp"):
        shutil.rmtree(folder, ignore_errors=True)
    source, wheels = machine.work / "source", machine.root / "wheels"
    source.mkdir(parents=True)
    (machine.root / "tmp").mkdir()
    subprocess.run(["sh", "-ec", COPY, source], cwd=REPOSITORY, check=True)
    python = [sys.executable, "-m", "pip", "--disable-pip-version-check"]
    for old in wheels.glob("edgefirst_ros-*"):
        old.unlink()
    subprocess.run([*python, "wheel", "--quiet", "--no-deps", "--wheel-dir", wheels, source], check=True)
    # The same libraries as here, so that what differs is the machine.
    here = subprocess.run(
        [*python, "freeze", "--exclude-editable"], check=True, capture_output=True, text=True
    )
    held = [line.partition("+")[0] for line in here.stdout.splitlines() if "==" in line]
    constraints = machine.work / "constraints.txt"
    constraints.write_text("\n".join(held))
    (wheel,) = wheels.glob("edgefirst_ros-*.whl")
    fetch_wheels(machine.root, python, constraints, [PACKAGE.replace("edgefirst_ros", str(wheel)), *TOOLS])
    if not (machine.root / "venv/bin/pip").exists():
        machine.run("venv", "python3", "-m", "venv", "/venv")
    for old in machine.root.glob("venv/lib/python3*/site-packages/edgefirst_ros*"):
        shutil.rmtree(old)
    # Emulated, to compile all modules of all libraries takes longer than to install them.
    options = ("--quiet", "--no-compile", "--no-index", "--find-links=/wheels", "--only-binary=:all:")
    machine.run("pip", "pip", "install", *options, PACKAGE, *TOOLS)
    return [machine.run("version", "edgefirst-ros", "--version").strip()]


def demo(machine: Machine) -> list[str]:
    """The steps of ``make demo`` there, and the same recording converted on both.

    Raises:
        Failed: a step failed.
        DifferentError: a reader sees a difference.
    """
    machine.ours.mkdir()
    words = [sys.executable, "-m", "edgefirst_ros"]
    environment = {**os.environ, "PYTHONPATH": str(machine.work / "source")}
    convert = ("convert", "drive", "-o", "out", "--name", "demo", *ALL, "--quiet")
    for each in (("simulate", "-o", "drive", "--seconds", "3", "--quiet"), convert):
        subprocess.run(
            [*words, *each], cwd=machine.ours, env=environment, stdout=subprocess.DEVNULL, check=True
        )
    machine.program("simulate", "-o", "drive", "--seconds", "3")
    made = [contents(of / "drive") for of in (machine.ours, machine.work)]
    same = sum(made[1].get(name) == data for name, data in made[0].items())
    shutil.rmtree(machine.work / "drive")
    shutil.copytree(machine.ours / "drive", machine.work / "drive")
    machine.program(*convert)
    machine.program("report", "out/edgefirst/demo", "--picture", "contact-sheet.png")
    machine.program("check", "out")
    found = compare(machine.ours / "out", machine.work / "out")
    equal = sum(not how for how in found.values())
    return [
        f"simulate: {same} of {len(made[0])} files equal in bytes",
        f"convert: {equal} of {len(found)} files equal in bytes; of the others:",
        *(f"  {file}: {how}" for file, how in found.items() if how),
    ]


def live(machine: Machine) -> list[str]:
    """Capture what another process plays over Zenoh: to its end, and until it is killed and recovered.

    Raises:
        Failed: a step failed, or nothing of what was captured is found.
    """
    machine.program("simulate", "-o", "small", *SMALL)
    (machine.work / "capture.yaml").write_text(UNHURRIED)
    lines = []
    for number in (signal.SIGINT, signal.SIGKILL):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            endpoint = f"tcp/127.0.0.1:{free.getsockname()[1]}"
        name = number.name.lower()
        words = (
            "--zenoh-listen",
            endpoint,
            "-o",
            name,
            "--name",
            name,
            "--session",
            "s",
            "--config",
            "capture.yaml",
            *ALL,
        )
        capture = machine.start("capture", "edgefirst-ros", "capture", *words)
        try:
            machine.program("play", "small", "--zenoh", endpoint, "--wait", "300")
            time.sleep(SETTLE_S)
            capture.send_signal(number)
            machine.end(capture, "capture", 130 if number == signal.SIGINT else -number)
        finally:
            capture.kill()
        if number == signal.SIGKILL:
            machine.program("recover", name)
        said = machine.program("check", name).splitlines()
        lines += [f"{name}: {line}" for line in said if line.startswith("OK")]
        if any(" 0 samples" in line for line in said):
            raise Failed(f"no sample in {name}")
        if lost := FORMATS - {path.name for path in (machine.work / name).iterdir()}:
            raise Failed(f"nothing of {', '.join(lost)} in {name}")
    return lines


def tests(machine: Machine, chosen: str) -> list[str]:
    """Those that start no other process, each once.

    Raises:
        Failed: one fails.
    """
    words = ("env", "PYTHONPATH=test/aarch64", "pytest", *EMULATED, *OPTIONS, *chosen.split())
    process = machine.start("tests", "sh", "-c", 'cd source && exec "$@"', "sh", *words)
    return machine.end(process, "tests", limit_s=TESTS_LIMIT_S).splitlines()[-1:]


def main() -> int:
    """Run the steps; 1 if one fails, 2 if something that they take is lacking."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--suite", default="bookworm", help="of Debian")
    parser.add_argument("--mirror", default="", help="URL; default: debootstrap's")
    parser.add_argument("--tests", default=TESTS, help="files and folders")
    given = parser.parse_args()
    if lacks := lacking():
        sys.stdout.write(f"{lacks}\n")
        return 2
    machine = Machine(REPOSITORY / ".aarch64")
    steps: list[tuple[str, Callable[[], Sequence[str]]]] = [
        ("install", partial(install, machine, given.suite, given.mirror)),
        ("demo", partial(demo, machine)),
        ("live", partial(live, machine)),
        ("tests", partial(tests, machine, given.tests)),
    ]
    try:
        for name, step in steps:
            began_s = time.monotonic()
            found = step()
            took_s = time.monotonic() - began_s
            sys.stdout.write("\n  ".join([f"{name}: {took_s:.0f} s", *found]) + "\n")
            sys.stdout.flush()
    except (Failed, DifferentError, subprocess.SubprocessError) as error:
        sys.stdout.write(f"{error}\n")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
