from __future__ import annotations

import hashlib
import io
import json
import lzma
import os
import struct
import tarfile
import zlib
from pathlib import Path

import cbor2
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from edgefirst_ros.formats.ncore.store import directory
from edgefirst_ros.formats.ncore.store.base import Batch, Store, new_groups, take_mark
from edgefirst_ros.formats.ncore.store.directory import DirectoryStore
from edgefirst_ros.formats.ncore.store.files import FinishedTar
from edgefirst_ros.formats.ncore.store.itar import TarStore, header, members, parse_header, read_index
from edgefirst_ros.formats.ncore.store.journal import cbor_head, cbor_uints, consolidate, unxz
from edgefirst_ros.formats.zarr2 import Record, group, is_metadata
from edgefirst_ros.model.errors import DatasetError, WriteError

NAMES = st.text(st.characters(codec="utf-8", exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1)


def entry(end_us: int, payload: bytes = b"x" * 700, sensor: str = "lidars/lidar") -> list[Record]:
    base = f"{sensor}/frames/{end_us}"
    mark = json.dumps({"timestamps_us": [end_us - 5, end_us]}).encode()
    return [*group(base), (f"{base}/data/0", payload), (f"{base}/.zattrs", mark)]


def begun(store: Store, *ends_us: int, sensor: str = "lidars/lidar") -> list[Batch]:
    """A collection of entries, each appended as a batch."""
    first, *more = ends_us
    head = new_groups(store, f"{sensor}/frames")
    return [store.append([*head, *entry(first, sensor=sensor)]), *(store.append(entry(e)) for e in more)]


def reopened(kind: type[TarStore | DirectoryStore], part: Path, batches: list[Batch]) -> tuple[Store, int]:
    """As recovery does: batches kept up to the first that is not whole; and how many bytes are dropped."""
    store: Store = kind(part)
    all(store.keep(batch) for batch in batches)
    return store, store.cut()


def ends_of(store: Store, sensor: tuple[str, str] = ("lidars", "lidar")) -> list[int]:
    times = store.contents.instances.get(sensor)
    return list(times.ends) if times else []


def seal(store: TarStore) -> None:
    """Seal, and see that what was made on the way is of the file as it is."""
    store.seal()
    assert store.md5() == hashlib.md5(store.part.read_bytes(), usedforsecurity=False).hexdigest()
    with tarfile.open(store.part, "r:") as archive:
        names = archive.getnames()
        file = archive.extractfile(".zmetadata.cbor.xz")
        assert file is not None
        assert list(cbor2.loads(lzma.decompress(file.read()))["metadata"]) == list(
            dict.fromkeys(name for name in names if is_metadata(name))
        )
    with store.part.open("rb") as opened:
        assert list(read_index(opened.fileno())[0]) == names


@settings(max_examples=100, deadline=None)
@given(st.lists(NAMES, min_size=1, max_size=8), st.integers(0, 3000))
def test_headers_are_what_tarfile_reads(parts: list[str], size: int) -> None:
    name = "/".join(parts)
    encoded = name.encode()
    cut = encoded.rfind(b"/", 0, 156)
    if len(encoded) > 100 and (cut < 1 or len(encoded) - cut - 1 > 100):
        with pytest.raises(ValueError, match="too long for a tar header"):
            header(encoded, size)
        return
    block = header(encoded, size)
    info = tarfile.TarInfo.frombuf(block, "utf-8", "strict")
    assert (info.name, info.size, info.mtime, info.isreg()) == (name, size, 0, True)
    assert parse_header(block) == (name, size)


def test_long_keys_use_the_prefix_field() -> None:
    name = f"camera_labels/{'a' * 90}/labels/1773483630123456/data/.zarray"
    assert tarfile.TarInfo.frombuf(header(name.encode(), 1), "utf-8", "strict").name == name


def test_sizes_beyond_a_tar_header_are_refused() -> None:
    with pytest.raises(ValueError, match="8 GiB"):
        header(b"a", 8**11)


@pytest.mark.parametrize("position", [0, 124, 148, 156, 257, 345])
def test_a_damaged_header_is_no_header(position: int) -> None:
    block = bytearray(header(b"a/b", 5))
    block[position] ^= 0x41
    assert parse_header(bytes(block)) is None


def test_a_store_is_a_plain_tar_with_index_and_trailer(tmp_path: Path) -> None:
    store = TarStore.create(tmp_path / "s.part")
    store.append([*new_groups(store, "lidars/lidar/frames"), *entry(100)])
    store.append(entry(200, b""))
    store.seal()
    data = (tmp_path / "s.part").read_bytes()
    assert len(data) % 512 == 0
    magic, kind, offset, size = struct.unpack("<4sIQI", data[-512:][:20])
    assert (magic, kind, offset % 10240) == (b"itar", 1, 0)
    table = cbor2.loads(lzma.decompress(data[offset : offset + size]))
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        found = archive.getmembers()
        assert table["items"] == [member.name for member in found]
        assert table["offset_datas"] == [member.offset_data for member in found]
        assert table["sizes"] == [member.size for member in found]
        assert all(member.mtime == 0 for member in found)
        packed = archive.extractfile(".zmetadata.cbor.xz")
        assert packed is not None
        consolidated = cbor2.loads(lzma.decompress(packed.read()))
        metadata = [m.name for m in found if m.name.endswith((".zgroup", ".zattrs", ".zarray"))]
        assert consolidated["zarr_consolidated_format"] == 1
        assert list(consolidated["metadata"]) == metadata
        assert consolidated["metadata"]["lidars/lidar/frames/100/.zattrs"] == {"timestamps_us": [95, 100]}


@settings(max_examples=60, deadline=None)
@given(data=st.data())
def test_a_cut_anywhere_keeps_exactly_the_whole_entries(
    data: st.DataObject, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("cut") / "s.part"
    store = TarStore.create(path)
    batches = begun(store, 100)
    for end_us in (200, 300):
        batches.append(store.append(entry(end_us, b"y" * data.draw(st.integers(0, 2000)))))
    store.release()
    ends = [batch.place + batch.size for batch in batches]
    cut = data.draw(st.integers(0, ends[-1]))
    os.truncate(path, cut)
    recovered, dropped = reopened(TarStore, path, batches)
    whole = [end for end in ends if end <= cut]
    assert ends_of(recovered) == [100, 200, 300][: len(whole)]
    assert dropped == cut - (whole[-1] if whole else 0)
    recovered.append([*new_groups(recovered, "lidars/lidar/frames"), *entry(400)])
    recovered.release()
    with tarfile.open(path, "r:", ignore_zeros=True) as archive:
        names = archive.getnames()
    assert len(set(names)) == len(names)
    assert names[-1] == "lidars/lidar/frames/400/.zattrs"


@pytest.mark.parametrize("where", ["data", "header", "mark"])
def test_blocks_that_a_power_cut_left_zero_end_what_is_kept(tmp_path: Path, where: str) -> None:
    """The marks of later entries are whole, and so is that of the entry itself if ``where`` is its data."""
    store = TarStore.create(tmp_path / "s.part")
    batches = begun(store, 100, 200, 300)
    store.release()
    block = {"header": 0, "data": 1536, "mark": batches[1].size - 512}[where]
    with (tmp_path / "s.part").open("r+b") as file:
        file.seek(batches[1].place + block)
        file.write(bytes(512))
    recovered, dropped = reopened(TarStore, tmp_path / "s.part", batches)
    assert ends_of(recovered) == [100]
    assert dropped == batches[1].size + batches[2].size
    recovered.append(entry(400))
    seal(recovered)


def test_a_batch_counts_only_in_its_place(tmp_path: Path) -> None:
    store = TarStore.create(tmp_path / "s.part")
    first, second, third = begun(store, 100, 200, 300)
    store.release()
    store = TarStore(tmp_path / "s.part")
    assert store.keep(first)
    assert not store.keep(third)
    assert not store.keep(Batch(second.place, 1 << 60, second.crc))
    assert not store.keep(Batch(second.place, -second.size, second.crc))
    assert not store.keep(Batch(["lidars/lidar/frames/200/.zattrs"], second.size, second.crc))
    assert store.keep(second)
    store.cut()
    assert ends_of(store) == [100, 200]
    store.release()


def test_a_batch_that_is_no_tar_members_is_not_listed(tmp_path: Path) -> None:
    store = TarStore.create(tmp_path / "s.part")
    batches = begun(store, 100)
    garbage = store._file.append(b"\0" * 1024)
    store.release()
    stray = Batch(batches[0].size, garbage, zlib.crc32(bytes(1024)))
    recovered, _ = reopened(TarStore, tmp_path / "s.part", [*batches, stray])
    assert ends_of(recovered) == [100]
    recovered.release()


def test_what_the_journal_does_not_have_is_cut_off(tmp_path: Path) -> None:
    store = TarStore.create(tmp_path / "s.part")
    batches = begun(store, 100, 200)
    store.release()
    recovered, dropped = reopened(TarStore, tmp_path / "s.part", batches[:1])
    recovered.release()
    assert dropped == batches[1].size
    assert (tmp_path / "s.part").stat().st_size == batches[0].size


def test_what_is_made_on_the_way_is_of_the_whole_file(tmp_path: Path) -> None:
    store = TarStore.create(tmp_path / "s.part")
    store.append([*new_groups(store, "lidars/lidar/frames"), *entry(100)])
    for number in range(2, 40):
        store.append(entry(100 * number, bytes([number]) * 70 * number))
    seal(store)


def test_what_is_made_on_the_way_is_right_after_a_kill(tmp_path: Path) -> None:
    store = TarStore.create(tmp_path / "s.part")
    batches = begun(store, 100, 200)
    store.append(entry(300)[:-1])
    store.release()
    recovered, dropped = reopened(TarStore, tmp_path / "s.part", batches)
    assert dropped > 0
    recovered.append(entry(400))
    seal(recovered)


@pytest.mark.parametrize(
    "mark", [b"{tor", b"\xff", b"[]", b"{}", b'{"timestamps_us":[1]}', b'{"timestamps_us":[-1,2]}']
)
def test_a_mark_that_tells_no_times_is_of_no_entry(tmp_path: Path, mark: bytes) -> None:
    store = TarStore.create(tmp_path / "s.part")
    batches = begun(store, 100)
    store.release()
    store = TarStore(tmp_path / "s.part")
    store.keep(batches[0])
    take_mark(store.contents, "lidars/lidar/frames/200/.zattrs", mark)
    store.cut()
    store.release()
    assert ends_of(store) == [100]


def test_a_full_disk_takes_back_the_frame(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = TarStore.create(tmp_path / "s.part")
    whole = store.append([*new_groups(store, "lidars/lidar/frames"), *entry(100)])
    real = os.pwritev

    def full(descriptor: int, buffers: list[bytes], offset: int) -> int:
        real(descriptor, [buffers[0]], offset)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwritev", full)
    with pytest.raises(WriteError, match="No space left"):
        store.append(entry(200))
    monkeypatch.undo()
    assert (tmp_path / "s.part").stat().st_size == whole.size
    store.append(entry(300))
    seal(store)
    with tarfile.open(tmp_path / "s.part", "r:") as archive:
        assert not any("/200/" in name for name in archive.getnames())


def test_an_interrupt_takes_back_the_frame(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = TarStore.create(tmp_path / "s.part")
    whole = store.append([*new_groups(store, "lidars/lidar/frames"), *entry(100)])

    def interrupted(descriptor: int, buffers: list[bytes], offset: int) -> int:
        os.pwrite(descriptor, buffers[0], offset)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwritev", interrupted)
        with pytest.raises(KeyboardInterrupt):
            store.append(entry(200))
    assert (tmp_path / "s.part").stat().st_size == whole.size
    store.append(entry(300))
    seal(store)
    with tarfile.open(tmp_path / "s.part", "r:") as archive:
        assert not any("/200/" in name for name in archive.getnames())


def test_a_key_that_is_too_long_changes_nothing(tmp_path: Path) -> None:
    store = TarStore.create(tmp_path / "s.part")
    whole = store.append([*new_groups(store, "lidars/lidar/frames"), *entry(100)])
    with pytest.raises(ValueError, match="too long"):
        store.append([("lidars/lidar/frames/200/" + "x" * 200, b""), *entry(200)])
    assert store.append(entry(300)).size + whole.size == (tmp_path / "s.part").stat().st_size
    store.release()


@pytest.mark.parametrize("attached", [False, True])
def test_a_full_disk_takes_back_the_frame_from_a_directory(
    tmp_path: Path, attached: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = DirectoryStore.create(tmp_path / "s.part")
    store.append([*new_groups(store, "radars/radar/frames"), *entry(100, sensor="radars/radar")])
    before = sorted(path.as_posix() for path in tmp_path.rglob("*") if path.is_file())
    records = entry(200, sensor="radars/radar")
    if attached:
        base = "radars/radar/frames/100/generic_data"
        records = [(f"{base}/radar_cube/0", b"abc"), (f"{base}/.zattrs", b"{}")]
    plain = directory._write

    def full(path: Path, payload: bytes) -> None:
        if path.name == ".zattrs":
            raise OSError(28, "No space left on device")
        plain(path, payload)

    monkeypatch.setattr(directory, "_write", full)
    with pytest.raises(WriteError, match="No space left"):
        store.append(records)
    after = sorted(path.as_posix() for path in tmp_path.rglob("*") if path.is_file())
    assert after == before


def test_short_writes_are_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = TarStore.create(tmp_path / "s.part")
    real = os.pwritev
    monkeypatch.setattr(
        os, "pwritev", lambda fd, buffers, offset: real(fd, [b"".join(buffers)[:700]], offset)
    )
    monkeypatch.setattr(os, "pwrite", lambda fd, data, offset, real=os.pwrite: real(fd, data[:500], offset))
    store.append([*new_groups(store, "lidars/lidar/frames"), *entry(100)])
    monkeypatch.undo()
    seal(store)
    with tarfile.open(tmp_path / "s.part", "r:") as archive:
        data = archive.extractfile("lidars/lidar/frames/100/data/0")
        assert data is not None
        assert data.read() == b"x" * 700


def test_an_entry_of_many_records_is_one_entry(tmp_path: Path) -> None:
    store = TarStore.create(tmp_path / "s.part")
    many = [(f"lidars/lidar/frames/100/d{i}/0", bytes([i % 256]) * (i % 700)) for i in range(1500)]
    store.append([*many, *entry(100)])
    store.seal()
    with tarfile.open(tmp_path / "s.part", "r:") as archive:
        assert len(archive.getnames()) == 1504


@pytest.mark.parametrize("kind", [TarStore, DirectoryStore])
def test_groups_are_written_once(tmp_path: Path, kind: type[TarStore | DirectoryStore]) -> None:
    store: Store = kind.create(tmp_path / "s.part")
    first = new_groups(store, "cameras/front/frames")
    assert [key for key, _ in first] == [
        ".zgroup", "cameras/.zgroup", "cameras/front/.zgroup", "cameras/front/frames/.zgroup"
    ]  # fmt: skip
    store.append(first)
    assert [key for key, _ in new_groups(store, "cameras/rear/frames")] == [
        "cameras/rear/.zgroup", "cameras/rear/frames/.zgroup"
    ]  # fmt: skip
    store.release()


@pytest.mark.parametrize("damage", ["missing", "short", "zeros", "link", "fifo"])
def test_a_directory_keeps_batches_up_to_the_first_that_is_not_whole(tmp_path: Path, damage: str) -> None:
    store = DirectoryStore.create(tmp_path / "s.part")
    batches = begun(store, 1000, 2000, 3000)
    data = tmp_path / "s.part/lidars/lidar/frames/2000/data/0"
    if damage in {"missing", "fifo"}:
        data.unlink()
    if damage == "fifo":
        os.mkfifo(data)
    if damage in {"short", "zeros"}:
        data.write_bytes(bytes(700 if damage == "zeros" else 699))
    if damage == "link":
        data.rename(tmp_path / "elsewhere")
        data.symlink_to(tmp_path / "elsewhere")
        with pytest.raises(DatasetError, match="data/0: is a symbolic link"):
            DirectoryStore(tmp_path / "s.part")
        return
    recovered, dropped = reopened(DirectoryStore, tmp_path / "s.part", batches)
    assert ends_of(recovered) == [1000]
    assert sorted(path.name for path in (tmp_path / "s.part/lidars/lidar/frames").iterdir()) == [
        ".zgroup",
        "1000",
    ]
    left = {"missing": 0, "fifo": 0, "short": 699, "zeros": 700}[damage]
    assert dropped == batches[1].size + batches[2].size - 700 + left


@pytest.mark.parametrize("kind", [TarStore, DirectoryStore])
def test_nothing_is_written_through_a_link(tmp_path: Path, kind: type[TarStore | DirectoryStore]) -> None:
    store: Store = kind.create(tmp_path / "elsewhere")
    begun(store, 100)
    store.release()
    (tmp_path / "s.part").symlink_to(tmp_path / "elsewhere")
    with pytest.raises((DatasetError, OSError)):
        kind(tmp_path / "s.part")
    fresh: Store = kind.create(tmp_path / "s.part")
    fresh.release()
    assert not (tmp_path / "s.part").is_symlink()
    recovered, _ = reopened(kind, tmp_path / "elsewhere", [])
    recovered.release()


def test_a_directory_drops_groups_whose_first_entry_was_torn(tmp_path: Path) -> None:
    store = DirectoryStore.create(tmp_path / "s.part")
    batches = begun(store, 100)
    store.append([("lidars/other/.zgroup", b""), ("cameras/.zgroup", b""), ("cameras/front/.zgroup", b"{")])
    recovered, dropped = reopened(DirectoryStore, tmp_path / "s.part", batches)
    assert dropped == 1
    assert recovered.has("lidars/.zgroup")
    assert not recovered.has("lidars/other/.zgroup")
    assert sorted(path.name for path in (tmp_path / "s.part").iterdir()) == [".zgroup", "lidars"]


def test_entries_come_back_in_the_order_in_which_they_were_committed(tmp_path: Path) -> None:
    store = DirectoryStore.create(tmp_path / "s.part")
    batches = begun(store, 900, 1000, 11000)
    recovered, _ = reopened(DirectoryStore, tmp_path / "s.part", batches)
    assert ends_of(recovered) == [900, 1000, 11000]


@pytest.mark.parametrize("kind", [TarStore, DirectoryStore])
def test_a_cube_that_is_not_committed_is_dropped_and_its_scan_kept(
    tmp_path: Path, kind: type[TarStore | DirectoryStore]
) -> None:
    base = "radars/radar/frames/100"
    mark = (f"{base}/.zattrs", b'{"timestamps_us":[100,100]}')
    cube = [(f"{base}/generic_data/radar_cube/.zarray", b"{}"), (f"{base}/generic_data/radar_cube/0", b"abc")]
    done = (f"{base}/generic_data/.zattrs", b'{"radar_cube":{"timestamp_us":99}}')
    store: Store = kind.create(tmp_path / "s.part")
    scan = store.append([*group(base), *group(f"{base}/generic_data"), mark])
    store.append([*cube, done])
    store.release()
    recovered, dropped = reopened(kind, tmp_path / "s.part", [scan])
    assert ends_of(recovered, ("radars", "radar")) == [100]
    assert recovered.contents.cubes == {}
    assert dropped > 0
    attached = recovered.append([*cube, done])
    recovered.release()
    again, dropped = reopened(kind, tmp_path / "s.part", [scan, attached])
    again.release()
    assert dropped == 0
    assert again.contents.cubes == {"radar": (100, 99)}


@pytest.mark.parametrize(
    ("tail", "message"),
    [
        (b"", "no itar trailer"),
        (bytes(512), "no itar trailer"),
        (struct.pack("<4sIQI", b"itar", 2, 512, 4).ljust(512, b"\0"), "index type 2"),
        (struct.pack("<4sIQI", b"itar", 1, 100, 4).ljust(512, b"\0"), "index type 1 at 100"),
        (struct.pack("<4sIQI", b"itar", 1, 512, 4).ljust(512, b"\0"), "not xz-compressed CBOR"),
    ],
)
def test_a_damaged_tail_is_named(tmp_path: Path, tail: bytes, message: str) -> None:
    (tmp_path / "s").write_bytes(bytes(1024) + tail)
    descriptor = os.open(tmp_path / "s", os.O_RDONLY)
    try:
        with pytest.raises(ValueError, match=message):
            read_index(descriptor)
    finally:
        os.close(descriptor)


def test_an_index_of_uneven_columns_is_named(tmp_path: Path) -> None:
    packed = lzma.compress(cbor2.dumps({"items": ["a"], "offset_datas": [], "sizes": []}))
    trailer = struct.pack("<4sIQI", b"itar", 1, 512, len(packed)).ljust(512, b"\0")
    (tmp_path / "s").write_bytes(bytes(512) + packed.ljust(512, b"\0") + trailer)
    descriptor = os.open(tmp_path / "s", os.O_RDONLY)
    try:
        with pytest.raises(ValueError, match="columns of"):
            read_index(descriptor)
    finally:
        os.close(descriptor)


def test_what_unpacks_to_more_than_it_may_is_refused() -> None:
    with pytest.raises(ValueError, match="more than 65536 bytes"):
        unxz(lzma.compress(bytes(1 << 24)), 1 << 16, 100)


@pytest.mark.parametrize("data", [b"\x9b" + b"\xff" * 8, b"\x81" * 100_000, b"\x62\xff\xff", b""])
def test_damaged_cbor_is_named(data: bytes) -> None:
    with pytest.raises(ValueError, match="are not xz-compressed CBOR"):
        unxz(lzma.compress(data), 1 << 20, 100)


@pytest.mark.parametrize(
    "table",
    [
        {"items": 3, "offset_datas": [], "sizes": []},
        {"items": [["a"]], "offset_datas": [1], "sizes": [1]},
        {"items": ["a", "a"], "offset_datas": [1, 2], "sizes": [1, 2]},
        {"items": ["a"], "offset_datas": ["1"], "sizes": [1]},
    ],
)
def test_an_index_of_other_things_is_named(tmp_path: Path, table: object) -> None:
    packed = lzma.compress(cbor2.dumps(table))
    trailer = struct.pack("<4sIQI", b"itar", 1, 512, len(packed)).ljust(512, b"\0")
    (tmp_path / "s").write_bytes(bytes(512) + packed.ljust(512, b"\0") + trailer)
    with pytest.raises(ValueError, match="the itar index has"):
        FinishedTar(tmp_path / "s")


def test_members_stop_at_the_end_of_the_archive(tmp_path: Path) -> None:
    with tarfile.open(tmp_path / "t.tar", "w", format=tarfile.USTAR_FORMAT) as archive:
        for name in ("a", "b/c"):
            info = tarfile.TarInfo(name)
            info.size = 3
            archive.addfile(info, io.BytesIO(b"xyz"))
    descriptor = os.open(tmp_path / "t.tar", os.O_RDONLY)
    try:
        assert [(member.name, member.size) for member in members(descriptor)] == [("a", 3), ("b/c", 3)]
    finally:
        os.close(descriptor)


@pytest.mark.parametrize("count", [0, 1, 23, 24, 255, 256, 65_535, 65_536, 2**32])
@pytest.mark.parametrize(("major", "empty"), [(4, []), (5, {})])
def test_cbor_heads_are_those_of_cbor2(count: int, major: int, empty: object) -> None:
    if count == 0:
        assert cbor_head(major, 0) == cbor2.dumps(empty)
    elif count <= 256 and major == 4:
        assert cbor_head(major, count) == cbor2.dumps(list(range(count)))[: len(cbor_head(major, count))]
    else:
        integer = cbor2.dumps(count)
        assert cbor_head(major, count) == bytes([integer[0] | major << 5]) + integer[1:]


@given(st.lists(st.integers(0, 2**64 - 1), max_size=300))
@example([0, 23, 24, 255, 256, 65535, 65536, 2**32 - 1, 2**32, 2**64 - 1])
def test_integers_in_pieces_are_those_of_cbor2(items: list[int]) -> None:
    assert b"".join(cbor_uints(np.array(items, np.uint64))) == cbor2.dumps(items)


def test_many_integers_are_one_array() -> None:
    items = (np.arange(150_000, dtype=np.uint64) * np.uint64(70_001)) % np.uint64(2**33)
    assert cbor2.loads(b"".join(cbor_uints(items))) == items.tolist()


def test_consolidated_metadata_keeps_large_and_small_records() -> None:
    records = [("a/.zattrs", b'{"x":1}'), ("b/.zattrs", json.dumps(list(range(5000))).encode()), ("c", b"{}")]
    found = unxz(consolidate(records), 1 << 20, 10_000)
    assert found == {
        "zarr_consolidated_format": 1,
        "metadata": {"a/.zattrs": {"x": 1}, "b/.zattrs": list(range(5000)), "c": {}},
    }
