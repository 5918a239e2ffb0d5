"""The cache of what was fetched: bounded, sound, of several processes."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from edgefirst_ros.corpus.cache import MEGABYTES, Cache, default_cache
from edgefirst_ros.model.errors import ConfigError

KEYS = [f"{number:064x}"[::-1] for number in range(100)]


def held(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def test_what_was_put_is_there_in_another_process_too(tmp_path: Path) -> None:
    Cache(tmp_path / "c", 10**6).put(KEYS[1], b"content")
    other = Cache(tmp_path / "c", 10**6)
    assert other.has(KEYS[1])
    assert other.get(KEYS[1]) == b"content"
    assert not other.has(KEYS[2])
    assert other.get(KEYS[2]) is None


def test_what_is_damaged_is_not_there(tmp_path: Path) -> None:
    cache = Cache(tmp_path, 10**6)
    cache.put(KEYS[1], b"content")
    (path,) = (each for each in tmp_path.rglob("*") if each.is_file() and each.name != "lock")
    for damaged in (b"", b"con", b"\0" * 11):
        path.write_bytes(damaged)
        assert cache.get(KEYS[1]) is None
        assert not path.exists()


def test_it_never_holds_more_than_its_bound(tmp_path: Path) -> None:
    cache = Cache(tmp_path, 100_000)
    for number, key in enumerate(KEYS):
        cache.put(key, bytes(5000))
        for path in tmp_path.rglob(key[2:]):
            os.utime(path, (number, number))
        assert held(tmp_path) <= 100_000
    assert cache.get(KEYS[-1]) is not None
    assert cache.get(KEYS[0]) is None, "what was not used for longest went first"
    assert held(tmp_path) > 50_000


def test_processes_at_once_stay_below_it_together(tmp_path: Path) -> None:
    script = """
import sys
from pathlib import Path
from edgefirst_ros.corpus.cache import Cache
cache = Cache(Path(sys.argv[1]), 1_000_000)
for number in range(300):
    key = f"{(number * 7 + int(sys.argv[2])) % 400:064d}"[::-1]
    data = cache.get(key)
    assert data in (None, key.encode() * 100)
    cache.put(key, key.encode() * 100)
"""
    command = [sys.executable, "-c", script, str(tmp_path)]
    several = [subprocess.Popen([*command, str(number)]) for number in range(3)]
    most = 0
    while any(each.poll() is None for each in several):
        try:
            most = max(most, held(tmp_path))
        except FileNotFoundError:
            continue
        time.sleep(0.01)
    assert [each.wait() for each in several] == [0, 0, 0]
    assert max(most, held(tmp_path)) <= 1_000_000


def test_leftovers_of_a_kill_are_removed(tmp_path: Path) -> None:
    cache = Cache(tmp_path, 10**6)
    cache.put(KEYS[1], b"content")
    left, new = tmp_path / "aa" / "x.part", tmp_path / "aa" / "y.part"
    left.parent.mkdir()
    for path in (left, new):
        path.write_bytes(b"half")
    os.utime(left, (0, 0))
    cache.shrink()
    assert (left.exists(), new.exists()) == (False, True)


def test_without_room_it_keeps_nothing_and_tables_last_as_long_as_the_process(tmp_path: Path) -> None:
    for cache in (Cache(tmp_path / "c", 0), Cache(Path("/proc/no-folder"), 10**6)):
        cache.put(KEYS[1], b"content")
        assert cache.get(KEYS[1]) is None
        path = cache.put_table(KEYS[1], b"table")
        assert path.read_bytes() == b"table"
    assert not (tmp_path / "c").exists()


def test_folders_are_made_once_and_go_as_a_whole(tmp_path: Path) -> None:
    cache, made = Cache(tmp_path, 100_000), []

    def make(folder: Path) -> None:
        made.append(folder)
        (folder / "inside").mkdir()
        (folder / "inside" / "file").write_bytes(bytes(30_000))

    first, again, second = (cache.folder(key, "drive", 30_000, make) for key in (KEYS[1], KEYS[1], KEYS[2]))
    assert first == again != second
    assert len(made) == 2
    os.utime(first.parent, (0, 0))
    cache.put(KEYS[5], bytes(30_000))
    assert second.is_dir()
    assert not first.parent.exists(), "what was not used for longest went first"
    assert held(tmp_path) <= 75_000
    large = cache.folder(KEYS[9], "drive", 80_000, make)
    assert (large / "inside" / "file").is_file()
    assert not large.is_relative_to(tmp_path)

    def fail(folder: Path) -> None:
        make(folder)
        raise KeyError("half")

    with pytest.raises(KeyError):
        cache.folder(KEYS[10], "drive", 30_000, fail)
    assert not list(tmp_path.rglob("*.part"))
    assert not (tmp_path / KEYS[10][:2] / KEYS[10][2:]).exists()


def test_its_bound_and_place_are_those_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setenv(MEGABYTES, "1")
    cache = default_cache()
    for key in KEYS:
        cache.put(key, bytes(30_000))
    assert 0 < held(tmp_path / "edgefirst_ros") <= 10**6
    monkeypatch.setenv(MEGABYTES, "many")
    with pytest.raises(ConfigError, match=f"{MEGABYTES}: expected a number of megabytes"):
        default_cache()
