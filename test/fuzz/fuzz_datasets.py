"""Damaged datasets of every format, finished and not, for every command that reads them."""

from __future__ import annotations

import atexit
import io
import lzma
import os
import random
import shutil
import struct
import sys
import tarfile
import tempfile
import threading
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import cbor2
import numpy as np
from drives import simulated
from edgefirst_mutations import damage
from faulty import FaultyOptions
from fuzz_outcomes import command
from fuzz_recordings import SMALL
from fuzzing import Target, UnexpectedError, mutate_bytes
from hostile_archives import hostile_tar, hostile_zip
from hostile_arrow import hostile_arrow
from hostile_files import changed, changed_json, hostile_chunk, hostile_zarray, was_run

import edgefirst_ros
from edgefirst_ros.config.model import build_config
from edgefirst_ros.formats.edgefirst.read.dataset import EdgeFirstDataset
from edgefirst_ros.formats.ncore.store.itar import BLOCK, members
from edgefirst_ros.model.errors import DatasetError, EdgeFirstError
from edgefirst_ros.offline.convert import convert

ARRAYS = {
    "location": (np.float64, 1), "pose": (np.float64, 1), "image": (np.uint8, 3), "boxes2d": (np.float32, 2),
    "labels2d": (np.int64, 1), "scores2d": (np.float32, 1), "boxes3d": (np.float32, 2),
    "lidar_depth": (np.uint16, 2), "lidar_reflect": (np.uint8, 2), "depth": (np.uint16, 2),
}  # fmt: skip
"""Dtype and dimensions of what a sample has, if it has it."""
LENGTHS = {"edgefirst": 1.2, "ncore": 0.9, "l5kit": 2.4}
"""Seconds of the drives."""
CONFIGS: dict[str, tuple[dict[str, Any], ...]] = {
    "edgefirst": ({}, {"edgefirst": {"container": "folder", "schema_version": "2026.10"}}),
    "ncore": ({}, {"ncore": {"store": "directory"}}),
    "l5kit": ({},),
}
COMMITTED = 2
"""With so many samples committed, a run is taken as killed."""
OUTPUT, ELSEWHERE = "out", "elsewhere"
_TRAILER = struct.Struct("<4sIQI")
_RECORD = struct.Struct("<II")

_hook: Callable[[], None] | None = None


def _made_at() -> Path:
    """Where the processes of a run share what is made once."""
    if "EDGEFIRST_FUZZ_CORPUS" not in os.environ:
        folder = tempfile.mkdtemp(prefix="fuzz-corpus-")
        os.environ["EDGEFIRST_FUZZ_CORPUS"] = folder
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(os.environ["EDGEFIRST_FUZZ_CORPUS"])


CORPUS = _made_at()


def corpus(format_name: str) -> list[bytes]:
    place = CORPUS / format_name
    if not place.exists():
        growing = Path(tempfile.mkdtemp(dir=CORPUS))
        for number, data in enumerate(_states(format_name)):
            (growing / f"{number:03d}").write_bytes(data)
        growing.rename(place)
    return [path.read_bytes() for path in sorted(place.iterdir())]


def _states(format_name: str) -> Iterator[bytes]:
    """Finished; killed amidst samples or when all but names was complete, also over an older one."""
    options = FaultyOptions(**{**SMALL, "seconds": LENGTHS[format_name], "masks": True, "mask_size": (16, 9)})
    recording = simulated(options).mcap
    for values in CONFIGS[format_name]:
        folder = Path(tempfile.mkdtemp(prefix="fuzz-made-"))
        never = {name: {"required": "never"} for name in ("radar_targets", "lidar_points", "model")}
        config = build_config({"formats": [format_name], "workers": 1, "topics": never, **values})
        (folder / ELSEWHERE).mkdir()
        (folder / ELSEWHERE / "file").write_bytes(b"untouched")
        run = partial(convert, [recording], folder / OUTPUT, config, dataset="ds")
        yield from _killed(folder, run)
        yield packed_folder(folder)
        yield from _killed(folder, partial(run, overwrite=True))
        shutil.rmtree(folder)


def _killed(folder: Path, run: Callable[..., object]) -> list[bytes]:
    """What is in a folder while a run is in it: with some samples committed, and before the first name."""
    found: list[bytes] = []
    lock = threading.Lock()
    count = 0

    def committed(_: object) -> None:
        nonlocal count
        count += 1
        if count == COMMITTED:
            found.append(packed_folder(folder))

    def renaming() -> None:
        with lock:
            if len(found) == 1:
                found.append(packed_folder(folder))

    with _renames(renaming):
        run(committed=committed)
    return found


@contextmanager
def _renames(call: Callable[[], None]) -> Iterator[None]:
    global _hook  # noqa: PLW0603 - an audit hook cannot be removed
    if _hook is None:
        sys.addaudithook(lambda event, _: _hook() if event == "os.rename" and _hook is not None else None)
    _hook = call
    try:
        yield
    finally:
        _hook = lambda: None  # noqa: E731


def packed_folder(folder: Path) -> bytes:
    """A folder as a tar file; links into it are relative."""
    file = io.BytesIO()
    with tarfile.open(fileobj=file, mode="w") as archive:
        for path in sorted(folder.rglob("*")):
            if not path.is_symlink() and not (path.is_file() or path.is_dir() or path.is_fifo()):
                continue
            member = archive.gettarinfo(path, str(path.relative_to(folder)))
            member.mtime = 0
            if member.issym() and member.linkname.startswith(str(folder)):
                member.linkname = os.path.relpath(member.linkname, path.parent)
            if member.islnk():  # files may be the same under two names for a moment
                member.type, member.size = tarfile.REGTYPE, path.stat().st_size
            archive.addfile(member, io.BytesIO(path.read_bytes()) if member.isreg() else None)
    return file.getvalue()


def unpack_folder(data: bytes, folder: Path) -> None:
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        archive.extractall(folder, filter="fully_trusted")


def mutate(rng: random.Random, data: bytes) -> bytes:
    folder = Path(tempfile.mkdtemp(prefix="fuzz-mutated-"))
    try:
        unpack_folder(data, folder)
        for _ in range(rng.choice((1, 1, 2, 3))):
            _damage(rng, folder)
        return packed_folder(folder)
    finally:
        shutil.rmtree(folder)


def _damage(rng: random.Random, folder: Path) -> None:
    files = sorted(p for p in (folder / OUTPUT).rglob("*") if p.is_file() and not p.is_symlink())
    if not files:
        return
    path = rng.choice(files)
    inside = [way for fits, way in INSIDE if fits(path)]
    if inside and rng.random() < 0.6:
        rng.choice(inside)(rng, path)
    elif rng.random() < 0.1:
        _rename(rng, path)
    else:
        # What was damaged before may be nothing that this can damage, or a bomb.
        with suppress(IndexError, OSError, shutil.Error, MemoryError):
            damage(path.parent, folder / ELSEWHERE / "file", rng)


def _rename(rng: random.Random, path: Path) -> None:
    part = ".part"
    name = path.name.removesuffix(part) if path.name.endswith(part) else path.name + part
    is_moved = rng.random() < 0.5
    with suppress(OSError):  # a folder may have the name already
        if is_moved:
            path.rename(path.with_name(name))
        else:
            shutil.copy(path, path.with_name(name))


def _member(rng: random.Random, path: Path) -> None:
    """Change what a tar member holds."""
    data = bytearray(path.read_bytes())
    with path.open("rb") as file:
        found = [each for each in members(file.fileno()) if each.size]
    if not found:
        return
    each = rng.choice(found)
    old = bytes(data[each.offset : each.offset + each.size])
    if old[:1] in b"{[" and rng.random() < 0.8:
        new = changed_json(rng, old)
    else:
        new = hostile_chunk(rng, old) if rng.random() < 0.7 else mutate_bytes(rng, old)
    # Blanks are no part of JSON, and a chunk says how long it is.
    new = new[: each.size].ljust(each.size, b" " if old[:1] in b"{[" else b"\0")
    data[each.offset : each.offset + each.size] = new
    path.write_bytes(data)


def damage_index(rng: random.Random, path: Path) -> None:
    """Change the index of an ``.itar``, or its trailer."""
    data = path.read_bytes()
    if len(data) < BLOCK:
        return
    magic, kind, offset, length = _TRAILER.unpack_from(data, len(data) - BLOCK)
    if magic != b"itar" or rng.random() < 0.3:
        numbers = [rng.choice((n, n, 0, 1, n + 512, 0xFFFFFFFF)) for n in (kind, offset, length)]
        tail = _TRAILER.pack(magic, *numbers).ljust(BLOCK, b"\0")
        path.write_bytes(data[:-BLOCK] + tail)
        return
    try:
        raw = lzma.decompress(data[offset : offset + length])
    except lzma.LZMAError:
        return
    way = rng.random()
    if way < 0.5:
        raw = mutate_bytes(rng, raw)
    elif way < 0.6:
        raw = b"\x81" * rng.choice((2_000, 100_000))
    elif way < 0.7:
        raw = raw + bytes(100 << 20)
    else:
        raw = _changed_cbor(rng, raw)
    packed = lzma.compress(raw, preset=0)
    end = -(-len(packed) // BLOCK) * BLOCK
    tail = _TRAILER.pack(magic, kind, offset, len(packed)).ljust(BLOCK, b"\0")
    path.write_bytes(data[:offset] + packed.ljust(end, b"\0") + tail)


def _of(change: Callable[[random.Random, bytes], bytes]) -> Callable[[random.Random, Path], None]:
    """The same for a file."""

    def change_file(rng: random.Random, path: Path) -> None:
        data = path.read_bytes()
        try:
            data = change(rng, data)
        except Exception:  # noqa: BLE001 - a library that reads what was damaged before may raise anything
            data = mutate_bytes(rng, data)
        path.write_bytes(data)

    return change_file


def _changed_cbor(rng: random.Random, data: bytes) -> bytes:
    try:
        return cbor2.dumps(changed(rng, cbor2.loads(data)))
    except (ValueError, EOFError, RecursionError, TypeError, OverflowError, cbor2.CBORError):
        return mutate_bytes(rng, data)


def _journal(rng: random.Random, path: Path) -> None:
    """Records with other content under right checksums, in another order, or cut."""
    head, _, rest = path.read_bytes().partition(b"\n")
    records, at = [], 0
    while at + _RECORD.size <= len(rest):
        (length, _crc) = _RECORD.unpack_from(rest, at)
        records.append(rest[at + _RECORD.size :][:length])
        at += _RECORD.size + length
    if not records:
        return
    chosen = rng.randrange(len(records))
    way = rng.random()
    if way < 0.15:
        del records[chosen]
    elif way < 0.3:
        records.insert(rng.randrange(len(records)), records[chosen])
    elif records[chosen][:1] in (b"{", b"["):
        records[chosen] = changed_json(rng, records[chosen])
    else:
        records[chosen] = _changed_cbor(rng, records[chosen])
    data = bytearray(head + b"\n")
    for record in records:
        place = struct.pack("<QI", len(data), len(record))
        data += _RECORD.pack(len(record), zlib.crc32(record, zlib.crc32(place))) + record
    path.write_bytes(data)


def _is_json(path: Path) -> bool:
    return path.name.removesuffix(".part").endswith((".json", ".zarray", ".zattrs", ".zgroup", ".zmetadata"))


def _is_chunk(path: Path) -> bool:
    return path.name.removesuffix(".part").rpartition(".")[2].isdigit()


def _ends(ending: str) -> Callable[[Path], bool]:
    return lambda path: path.name.removesuffix(".part").endswith(ending)


INSIDE: tuple[tuple[Callable[[Path], bool], Callable[[random.Random, Path], None]], ...] = (
    (_is_json, _of(changed_json)), (_is_chunk, _of(hostile_chunk)), (_ends(".zarray"), _of(hostile_zarray)),
    (_ends(".arrow"), _of(hostile_arrow)), (_ends(".zip"), _of(hostile_zip)),
    (_ends(".itar"), _of(hostile_tar)), (_ends(".itar"), _member), (_ends(".itar"), damage_index),
    (lambda path: "journal" in path.name, _journal),
)  # fmt: skip


def run(format_name: str, data: bytes, folder: Path) -> str:
    unpack_folder(data, folder)
    output = folder / OUTPUT
    before = _contents(folder / ELSEWHERE)
    said = []
    for part in ("check", "recover", "check"):
        said.append(str(command(part, output)))
        if part == "check":
            _look(format_name, output, folder)
    if was_run():
        raise UnexpectedError("code of the dataset was run")
    if _contents(folder / ELSEWHERE) != before:
        raise UnexpectedError("a file elsewhere was changed through a link")
    return "-".join(said)


def _look(format_name: str, output: Path, folder: Path) -> None:
    command("report", output, "-o", folder / "report.html")
    if format_name == "edgefirst":
        command("report", output / "edgefirst" / "ds", "--picture", folder / "sheet.png", "--rows", "2")
        with suppress(EdgeFirstError):
            read_samples(edgefirst_ros.open(output), folder / "coco")


def read_samples(dataset: EdgeFirstDataset, coco: Path) -> None:
    """Read all samples that can be read; what they are must be what the documentation says."""
    for number in range(len(dataset)):
        try:
            sample = dataset[number]
        except DatasetError:
            continue
        for key, (kind, dimensions) in ARRAYS.items():
            array = sample[key]
            if array is not None and (array.ndim != dimensions or array.dtype != kind):
                raise UnexpectedError(f"{key}: {array.dtype} {array.shape}")
        if any(ring.dtype != np.float32 or ring.shape[1:] != (2,) for m in sample["masks"] for ring in m):
            raise UnexpectedError("masks: rings are no pairs")
    edgefirst_ros.export_coco(dataset, coco)


def _contents(folder: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def _target(name: str) -> Target:
    return Target(name, partial(corpus, name), partial(run, name), mutate)


EDGEFIRST, NCORE, L5KIT = _target("edgefirst"), _target("ncore"), _target("l5kit")
