"""All commands x kinds of input x kinds of damage: words and an exit code, never a traceback, soon.

A repeatable choice is tried, every kind of input with every damage and every command; ``WALK=all`` tries all
of them, ``WALK=500 WALK_SEED=7`` others.
"""

from __future__ import annotations

import json
import os
import random
import re
import resource
import shutil
import signal
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from pathlib import Path
from types import FrameType

import pytest
from faulty import FaultyOptions
from notes_made import KEY, SOUND
from PIL import Image
from recorded import messages
from rosbags_made import write_bag, write_db3
from typer.testing import CliRunner

from edgefirst_ros.cli.app import COMMANDS, app
from edgefirst_ros.config.model import build_config
from edgefirst_ros.formats.edgefirst.catalog import catalog
from edgefirst_ros.offline.convert import convert
from edgefirst_ros.simulation import simulate

SEED = os.environ.get("WALK_SEED", "1")
MOST_S = 20.0
MOST_BYTES = 3 << 30
"""Of memory, above what the test process has: /dev/zero has no end, and the machine has other work."""
SMALL = FaultyOptions(seconds=1, fps=5, width=160, height=96, lidar_points=64, cube_hz=2, imu_hz=20, gps_hz=5)
ODD = "a\x1b[2J\n\u202e\u200b\udcff"
"""What a name may hold."""


class HangError(BaseException):
    """It took too long; no handler of errors takes it for one."""


# --- kinds of input: each makes a file or a folder at a path, which is read as that


def _mcap(path: Path) -> None:
    shutil.copy(_drive(), path)


def _rosbag2(path: Path) -> None:
    made = simulate(path.with_name("made"), replace(SMALL, splits=2))
    made.mcap.parent.rename(path)


def _datasets(path: Path, **options: object) -> None:
    config = build_config({"formats": ["edgefirst", "ncore", "l5kit"], **options})
    convert([_drive()], path, config, dataset="d")


def _fleet(path: Path) -> None:
    for kind, values in SOUND.items():
        (path / kind).mkdir(parents=True)
        (path / kind / f"a.{KEY}.json").write_text(json.dumps(values))


def _picture(path: Path) -> None:
    Image.new("L", (160, 96)).save(path, "PNG")


def _text(text: str) -> Callable[[Path], None]:
    return lambda path: [path.write_text(text), None][1]


PLAIN_ZENOH = '{mode: "peer", transport: {auth: {usrpwd: {user: "a", password: "b"}}}}'
KINDS: Mapping[str, tuple[str, Callable[[Path], object]]] = {
    "mcap": ("d.mcap", _mcap),
    "rosbag2": ("bag", _rosbag2),
    "db3": ("bag", lambda path: write_db3(path, _messages())),
    "bag": ("d.bag", lambda path: write_bag(path, _messages())),
    "zip": ("out", _datasets),
    "folder": (
        "out",
        lambda path: _datasets(path, edgefirst={"container": "folder"}, ncore={"store": "directory"}),
    ),
    "fleet": ("sets", _fleet),
    "config": (
        "c.yaml",
        _text("rate_hz: 2\nformats: [ncore]\ntopics: {imu: {required: never}}\n"),
    ),
    "zenoh": ("z.json5", _text(PLAIN_ZENOH)),
    "zenoh yaml": ("z.yaml", _text("mode: peer\n")),
    "picture": ("m.png", _picture),
    "catalogue": ("c.parquet", lambda path: catalog(sound("zip") / "edgefirst", path)),
}


@cache
def _drive() -> Path:
    return simulate(_kept() / "drive", SMALL).mcap


@cache
def _messages() -> tuple[object, ...]:
    return tuple(messages(seconds=0.4, fps=5))


@cache
def _kept() -> Path:
    return Path(os.environ["WALK_FOLDER"])


@cache
def sound(kind: str) -> Path:
    """A sound input of a kind, for copying."""
    name, make = KINDS[kind]
    place = _kept() / kind.replace(" ", "-") / name
    place.parent.mkdir(parents=True)
    make(place)
    return place


# --- damages: each changes the input at a path, or a file in it


def _flip(data: bytearray, rng: random.Random) -> None:
    for _ in range(rng.choice((1, 4, 16))):
        if data:
            data[rng.randrange(len(data))] ^= 1 << rng.randrange(8)


def _rewrite(change: Callable[[bytearray, random.Random], object]) -> Callable[[Path, random.Random], None]:
    def damage(path: Path, rng: random.Random) -> None:
        data = bytearray(path.read_bytes())
        change(data, rng)
        path.write_bytes(data)

    return damage


def _replaced(make: Callable[[Path], object]) -> Callable[[Path, random.Random], None]:
    def damage(path: Path, _: random.Random) -> None:
        shutil.rmtree(path) if path.is_dir() else path.unlink()
        make(path)

    return damage


def _cut(data: bytearray, rng: random.Random) -> None:
    del data[rng.randrange(len(data) + 1) :]


def _zero(data: bytearray, rng: random.Random) -> None:
    begin = rng.randrange(len(data) + 1)
    data[begin : begin + 4096] = bytes(len(data[begin : begin + 4096]))


def _noise(data: bytearray, rng: random.Random) -> None:
    data[:] = rng.randbytes(len(data) or 100)


def _other(data: bytearray, rng: random.Random) -> None:
    source = sound(rng.choice(sorted(KINDS)))
    files = [source] if source.is_file() else sorted(p for p in source.rglob("*") if p.is_file())
    data[:] = rng.choice(files).read_bytes()


def _deep(data: bytearray, rng: random.Random) -> None:
    data[:] = rng.choice((b"[" * 100_000, b'{"a":' * 50_000, b'{"topics": ' + b"[" * 5000, b"- " * 5000))


def _odd(data: bytearray, rng: random.Random) -> None:
    """Hostile text in place of some of it, of the same length."""
    text = "\x1b[2J\u202e\r\n\x07".encode()
    at = rng.randrange(max(1, len(data) - len(text)))
    data[at : at + len(text)] = text


DAMAGES: Mapping[str, Callable[[Path, random.Random], None]] = {
    "none": lambda *_: None,
    "empty": _rewrite(lambda data, _: data.clear()),
    "cut": _rewrite(_cut),
    "flipped": _rewrite(_flip),
    "zeros": _rewrite(_zero),
    "noise": _rewrite(_noise),
    "another's": _rewrite(_other),
    "deep": _rewrite(_deep),
    "odd text": _rewrite(_odd),
    "fifo": _replaced(os.mkfifo),
    "folder": _replaced(Path.mkdir),
    "device": _replaced(lambda path: path.symlink_to("/dev/zero")),
    "loop": _replaced(lambda path: path.symlink_to(path.name)),
    "nothing": _replaced(lambda _: None),
    "odd name": lambda *_: None,
}
WHOLE = frozenset({"fifo", "device", "loop", "nothing"})
"""What may also become of a folder as a whole."""


# --- commands: IN is the input, OUT a folder of the test


LINES = """
convert IN -o OUT/new
convert IN -o OUT/new --format edgefirst,ncore,l5kit --json
convert IN -o OUT/new --dry-run
convert --from IN -o OUT/new --dry-run
convert IN -o OUT/new --jobs 2 --dry-run
convert DRIVE -o OUT/new --config IN
convert DRIVE -o IN
convert DRIVE -o IN --overwrite
info IN
info IN --json
suggest IN
info DRIVE --config IN
simulate -o IN --seconds 0.4 --size 160x96 --fps 5
simulate --rig IN -o OUT/new --seconds 0.4 --size 160x96 --fps 5
recover IN
check IN
report IN -o OUT/x.html
report DRIVE -o IN
report IN --picture OUT/x.png
report ZIP --picture IN
capture -o OUT/new --zenoh tcp/127.0.0.1:1 --duration 0.05 --config IN --json
capture -o OUT/new --zenoh tcp/127.0.0.1:1 --duration 0.05 --zenoh-config IN
capture -o IN --zenoh tcp/127.0.0.1:1 --duration 0.05
play IN --zenoh-listen tcp/127.0.0.1:0 --wait 0.05
play DRIVE --zenoh-config IN --zenoh-listen tcp/127.0.0.1:0 --wait 0.05
select IN -o OUT/new
select IN -o OUT/new --where car>0
export coco IN -o OUT/new
export yolo IN -o OUT/new
export hf IN -o OUT/new
export coco ZIP -o IN
""".strip().split("\n")


@dataclass(frozen=True)
class Case:
    line: str
    kind: str
    damage: str

    def __str__(self) -> str:
        return f"{self.line.replace('OUT/', '')} | {self.kind} | {self.damage}"


def cases() -> Iterator[Case]:
    """All, or a choice in which every two of command, kind and damage meet at least once."""
    wanted = os.environ.get("WALK", "")
    every = [Case(*each) for each in product(LINES, KINDS, DAMAGES)]
    rng = random.Random(SEED)
    rng.shuffle(every)
    if wanted:
        yield from every if wanted == "all" else every[: int(wanted)]
        return
    met: set[tuple[str, str, str]] = set()
    for case in every:
        command = case.line.split(maxsplit=1)[0]
        pairs = {("", case.kind, case.damage), (command, "", case.damage), (command, case.kind, "")}
        if not pairs <= met:
            met |= pairs
            yield case


@pytest.fixture(scope="module", autouse=True)
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("WALK_FOLDER", str(tmp_path_factory.mktemp("walk")))
        yield


@contextmanager
def limits() -> Iterator[None]:
    """End what takes too long or too much, with an error where it is."""

    def hang(_: int, __: FrameType | None) -> None:
        raise HangError

    used = int(re.findall(r"VmData:\s+(\d+)", Path("/proc/self/status").read_text())[0]) << 10
    before, most = signal.signal(signal.SIGALRM, hang), resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (used + MOST_BYTES, most[1]))
    signal.setitimer(signal.ITIMER_REAL, MOST_S)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        resource.setrlimit(resource.RLIMIT_DATA, most)
        signal.signal(signal.SIGALRM, before)


def damaged(case: Case, folder: Path) -> Path:
    """The input of a case, in a folder of its own."""
    source, rng = sound(case.kind), random.Random(f"{SEED} {case}")
    name = f"{ODD}{source.suffix}" if case.damage == "odd name" else source.name
    path = folder / name
    if source.is_dir():
        shutil.copytree(source, path)
    else:
        shutil.copy(source, path)
    files = sorted(p for p in path.rglob("*") if p.is_file()) if path.is_dir() else [path]
    whole = case.damage in WHOLE and rng.random() < 0.3
    DAMAGES[case.damage](path if whole else rng.choice(files), rng)
    return meant(path, case.line) if path.is_dir() and not path.is_symlink() else path


def meant(path: Path, line: str) -> Path:
    """The dataset in an output that a command takes, if it takes but one."""
    return next(path.glob("edgefirst/*" if "--picture" in line else "nothing"), path)


def controls(text: str) -> Sequence[str]:
    """What a terminal would obey, or would not show."""
    return [
        c for c in set(text) if c not in "\n\t" and unicodedata.category(c) in {"Cc", "Cf", "Cs", "Zl", "Zp"}
    ]


@pytest.mark.long(cases=14)
@pytest.mark.guarded
@pytest.mark.filterwarnings("default")
@pytest.mark.parametrize("case", list(cases()), ids=str)
def test_it_ends_with_words_and_an_exit_code(case: Case, tmp_path: Path) -> None:
    given = damaged(case, tmp_path)
    places = {"IN": str(given), "DRIVE": str(_drive()), "ZIP": str(sound("zip") / "edgefirst" / "d")}
    words = [places.get(word, word.replace("OUT", str(tmp_path))) for word in case.line.split()]
    with limits():
        ran = CliRunner().invoke(app, words, prog_name="edgefirst-ros")
    if ran.exception is not None and not isinstance(ran.exception, SystemExit):
        raise ran.exception
    assert ran.exit_code in {0, 1, 2}, ran.output
    assert "Traceback" not in ran.output
    assert not controls(ran.output), ran.output
    assert ran.exit_code == 0 or ran.output
    for line in ran.stdout.splitlines() if "--json" in words else ():
        json.loads(line)


def test_every_command_is_walked() -> None:
    assert {line.split()[0] for line in LINES} == COMMANDS.keys()
    assert {line.split()[1] for line in LINES if line.startswith("export")} == {"coco", "yolo", "hf"}
