from __future__ import annotations

import hashlib
import io
import json
import lzma
import os
import struct
import tarfile
from pathlib import Path

import cbor2
import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from edgefirst_ros.errors import WriteError
from edgefirst_ros.formats.ncore.store.base import Store, new_groups
from edgefirst_ros.formats.ncore.store.directory import DirectoryStore
from edgefirst_ros.formats.ncore.store.itar import RecordIndex, header, members, parse_header, read_index
from edgefirst_ros.formats.ncore.store.packed import cbor_head, cbor_uints, consolidate, unxz
from edgefirst_ros.formats.ncore.store.tarfile import TarStore
from edgefirst_ros.formats.zarr2.metadata import Record, group, is_metadata

NAMES = st.text(st.characters(codec="utf-8", exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1)


def entry(end_us: int, payload: bytes = b"x" * 700, sensor: str = "lidars/lidar") -> list[Record]:
    base = f"{sensor}/frames/{end_us}"
    mark = json.dumps({"timestamps_us": [end_us - 5, end_us]}).encode()
    return [*group(base), (f"{base}/data/0", payload), (f"{base}/.zattrs", mark)]


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
    ends = [store.append([*new_groups(store, "lidars/lidar/frames"), *entry(100)])]
    for end_us in (200, 300):
        ends.append(ends[-1] + store.append(entry(end_us, b"y" * data.draw(st.integers(0, 2000)))))
    store.release()
    cut = data.draw(st.integers(0, ends[-1]))
    os.truncate(path, cut)
    recovered, dropped = TarStore.recover(path)
    whole = [end for end in ends if end <= cut]
    times = recovered.contents.instances.get(("lidars", "lidar"))
    assert (list(times.ends) if times else []) == [100, 200, 300][: len(whole)]
    assert dropped == cut - (whole[-1] if whole else 0)
    recovered.append([*new_groups(recovered, "lidars/lidar/frames"), *entry(400)])
    recovered.release()
    with tarfile.open(path, "r:", ignore_zeros=True) as archive:
        names = archive.getnames()
    assert len(set(names)) == len(names)
    assert names[-1] == "lidars/lidar/frames/400/.zattrs"


def test_garbage_behind_a_mark_is_cut_off(tmp_path: Path) -> None:
    store = TarStore.create(tmp_path / "s.part")
    size = store.append([*new_groups(store, "lidars/lidar/frames"), *entry(100)])
    store.release()
    with (tmp_path / "s.part").open("ab") as file:
        file.write(bytes(range(250)) * 12)
    recovered, dropped = TarStore.recover(tmp_path / "s.part")
    recovered.release()
    assert dropped == 3000
    assert (tmp_path / "s.part").stat().st_size == size


@pytest.mark.parametrize("sync", [False, True])
def test_what_is_made_on_the_way_is_of_the_whole_file(tmp_path: Path, sync: bool) -> None:
    store = TarStore.create(tmp_path / "s.part", sync=sync)
    store.append([*new_groups(store, "lidars/lidar/frames"), *entry(100)])
    for number in range(2, 40):
        store.append(entry(100 * number, bytes([number]) * 70 * number))
    seal(store)


def test_what_is_made_on_the_way_is_right_after_a_kill(tmp_path: Path) -> None:
    store = TarStore.create(tmp_path / "s.part")
    store.append([*new_groups(store, "lidars/lidar/frames"), *entry(100), *entry(200)])
    store.append(entry(300)[:-1])
    store.release()
    recovered, dropped = TarStore.recover(tmp_path / "s.part")
    assert dropped > 0
    recovered.append(entry(400))
    seal(recovered)


def test_a_mark_that_is_no_json_commits_nothing(tmp_path: Path) -> None:
    store = TarStore.create(tmp_path / "s.part")
    store.append([*new_groups(store, "lidars/lidar/frames"), *entry(100)])
    store.append(entry(200)[:-1])
    store.release()
    with (tmp_path / "s.part").open("ab") as file:
        file.write(header(b"lidars/lidar/frames/200/.zattrs", 4) + b"{tor".ljust(512, b"\0"))
    recovered, dropped = TarStore.recover(tmp_path / "s.part")
    recovered.release()
    assert len(recovered.contents) == 1
    assert dropped > 0


def test_a_full_disk_takes_back_the_frame(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = TarStore.create(tmp_path / "s.part")
    size = store.append([*new_groups(store, "lidars/lidar/frames"), *entry(100)])
    real = os.pwritev

    def full(descriptor: int, buffers: list[bytes], offset: int) -> int:
        real(descriptor, [buffers[0]], offset)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "pwritev", full)
    with pytest.raises(WriteError, match="No space left"):
        store.append(entry(200))
    monkeypatch.undo()
    assert (tmp_path / "s.part").stat().st_size == size
    store.append(entry(300))
    seal(store)
    with tarfile.open(tmp_path / "s.part", "r:") as archive:
        assert not any("/200/" in name for name in archive.getnames())


def test_an_interrupt_takes_back_the_frame(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = TarStore.create(tmp_path / "s.part")
    size = store.append([*new_groups(store, "lidars/lidar/frames"), *entry(100)])

    def interrupted(descriptor: int, buffers: list[bytes], offset: int) -> int:
        os.pwrite(descriptor, buffers[0], offset)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(os, "pwritev", interrupted)
        with pytest.raises(KeyboardInterrupt):
            store.append(entry(200))
    assert (tmp_path / "s.part").stat().st_size == size
    store.append(entry(300))
    seal(store)
    with tarfile.open(tmp_path / "s.part", "r:") as archive:
        assert not any("/200/" in name for name in archive.getnames())


def test_a_key_that_is_too_long_changes_nothing(tmp_path: Path) -> None:
    store = TarStore.create(tmp_path / "s.part")
    size = store.append([*new_groups(store, "lidars/lidar/frames"), *entry(100)])
    with pytest.raises(ValueError, match="too long"):
        store.append([("lidars/lidar/frames/200/" + "x" * 200, b""), *entry(200)])
    assert store.append(entry(300)) + size == (tmp_path / "s.part").stat().st_size
    store.release()


@pytest.mark.parametrize("attached", [False, True])
def test_a_full_disk_takes_back_the_frame_from_a_directory(
    tmp_path: Path, attached: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = DirectoryStore.create(tmp_path / "s.part")
    store.append([*new_groups(store, "radars/radar/frames"), *entry(100, sensor="radars/radar")])
    before = sorted(path.as_posix() for path in tmp_path.rglob("*"))
    records = entry(200, sensor="radars/radar")
    if attached:
        base = "radars/radar/frames/100/generic_data"
        records = [(f"{base}/radar_cube/0", b"abc"), (f"{base}/.zattrs", b"{}")]
    plain = Path.write_bytes

    def full(self: Path, data: bytes) -> int:
        if self.name == ".zattrs":
            raise OSError(28, "No space left on device")
        return plain(self, data)

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(WriteError, match="No space left"):
        store.append(records)
    after = sorted(path.as_posix() for path in tmp_path.rglob("*") if path.name != "generic_data")
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


def test_a_directory_drops_entries_without_a_whole_mark(tmp_path: Path) -> None:
    store = DirectoryStore.create(tmp_path / "s.part")
    store.append([*new_groups(store, "lidars/lidar/frames"), *entry(1000)])
    store.append(entry(200)[:-1])
    store.append([*entry(300)[:-1], ("lidars/lidar/frames/300/.zattrs", b"")])
    recovered, dropped = DirectoryStore.recover(tmp_path / "s.part")
    assert list(recovered.contents.instances["lidars", "lidar"].ends) == [1000]
    assert sorted(path.name for path in (tmp_path / "s.part/lidars/lidar/frames").iterdir()) == [
        ".zgroup",
        "1000",
    ]
    assert dropped == 2 * (700 + len(group("")[0][1]))


def test_a_directory_drops_groups_whose_first_entry_was_torn(tmp_path: Path) -> None:
    store = DirectoryStore.create(tmp_path / "s.part")
    store.append([*new_groups(store, "lidars/lidar/frames"), *entry(100)])
    store.append([("lidars/other/.zgroup", b""), ("cameras/.zgroup", b""), ("cameras/front/.zgroup", b"{")])
    recovered, dropped = DirectoryStore.recover(tmp_path / "s.part")
    assert dropped == 1
    assert recovered.has("lidars/.zgroup")
    assert not recovered.has("lidars/other/.zgroup")
    assert sorted(path.name for path in (tmp_path / "s.part").iterdir()) == [".zgroup", "lidars"]


def test_directory_entries_come_back_in_order_of_number(tmp_path: Path) -> None:
    store = DirectoryStore.create(tmp_path / "s.part")
    for end_us in (900, 1000, 11000):
        store.append(entry(end_us))
    recovered, _ = DirectoryStore.recover(tmp_path / "s.part")
    assert list(recovered.contents.instances["lidars", "lidar"].ends) == [900, 1000, 11000]


@pytest.mark.parametrize("kind", [TarStore, DirectoryStore])
def test_a_cube_without_its_attributes_is_dropped_and_its_scan_kept(
    tmp_path: Path, kind: type[TarStore | DirectoryStore]
) -> None:
    base = "radars/radar/frames/100"
    mark = (f"{base}/.zattrs", b'{"timestamps_us":[100,100]}')
    cube = [(f"{base}/generic_data/radar_cube/.zarray", b"{}"), (f"{base}/generic_data/radar_cube/0", b"abc")]
    store: Store = kind.create(tmp_path / "s.part")
    store.append([*group(base), *group(f"{base}/generic_data"), mark])
    store.append(cube)
    store.release()
    recovered, dropped = kind.recover(tmp_path / "s.part")
    assert list(recovered.contents.instances["radars", "radar"].ends) == [100]
    assert recovered.contents.cubes == {}
    assert dropped > 0
    done = (f"{base}/generic_data/.zattrs", b'{"radar_cube":{"timestamp_us":99}}')
    recovered.append([*cube, done])
    recovered.release()
    again, dropped = kind.recover(tmp_path / "s.part")
    again.release()
    assert dropped == 0
    assert again.contents.cubes == {"radar": (100, 99)}


def test_the_index_forgets_what_is_taken_back() -> None:
    index = RecordIndex()
    index.add(b"a/b", 512, 3)
    mark = index.mark()
    index.add(b"c", 2048, 9)
    index.rewind(mark)
    index.add(b"\xc3\xa9", 4096, 1)
    assert list(index) == [("a/b", 512, 3), ("é", 4096, 1)]
    assert len(index) == 2


@pytest.mark.parametrize(
    ("tail", "message"),
    [
        (b"", "no itar trailer"),
        (bytes(512), "no itar trailer"),
        (struct.pack("<4sIQI", b"itar", 2, 512, 4).ljust(512, b"\0"), "index type 2"),
        (struct.pack("<4sIQI", b"itar", 1, 100, 4).ljust(512, b"\0"), "index type 1 at 100"),
        (struct.pack("<4sIQI", b"itar", 1, 512, 4).ljust(512, b"\0"), "no xz of CBOR"),
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
    found = unxz(consolidate(records))
    assert found == {
        "zarr_consolidated_format": 1,
        "metadata": {"a/.zattrs": {"x": 1}, "b/.zattrs": list(range(5000)), "c": {}},
    }
