"""Stores whose metadata name other codecs than ours: none of them is looked up, whatever is installed.

numcodecs up to 0.16.5 has a codec that unpickles, so each version that setup.py allows is tried: those in
``.numcodecs-VERSION``, which make test fills, and the installed one.
"""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from drives import simulated
from places import REPOSITORY

from edgefirst_ros.config.model import build_config
from edgefirst_ros.formats.l5kit.store.chunks import Files
from edgefirst_ros.formats.zarr2 import (
    ArrayHeader,
    Blosc,
    array_records,
    dtype_json,
    dtype_of,
    fill_of,
    json_bytes,
    read_array,
)
from edgefirst_ros.model.errors import DatasetError
from edgefirst_ros.offline.convert import convert
from edgefirst_ros.simulation import DriveOptions

CODECS = [
    "pickle",
    "json2",
    "msgpack2",
    "bz2",
    "gzip",
    "zlib",
    "lzma",
    "zstd",
    "lz4",
    "base64",
    "crc32",
    "zfpy",
]
INSTALLED = "installed"


class Trap:
    """Unpickling it makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str, str]]:
        return open, (str(self.path), "w")


@pytest.fixture(scope="module")
def datasets(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``l5kit/ds.zarr`` and ``ncore/ds_…`` in a folder, each with a directory for a store."""
    drive = simulated(
        DriveOptions(seconds=2, fps=5, width=160, height=90, lidar_points=64, cube_hz=0, imu_hz=20)
    )
    folder = tmp_path_factory.mktemp("datasets")
    config = build_config({"formats": ["l5kit", "ncore"], "ncore": {"store": "directory"}, "workers": 1})
    convert([drive.mcap], folder, config, dataset="ds")
    return folder


@pytest.fixture(params=[INSTALLED, "0.13.0", "0.16.5"])
def python_path(request: pytest.FixtureRequest) -> str:
    if request.param == INSTALLED:
        return str(REPOSITORY)
    folder = REPOSITORY / f".numcodecs-{request.param}"
    if not (folder / "ready").exists():
        pytest.skip(f"no {folder.name}: make test makes it")
    return os.pathsep.join((str(folder), str(REPOSITORY)))


COMMANDS = """
import json, os, sys
from typer.testing import CliRunner
from edgefirst_ros.cli.app import app
sprung, *commands = json.loads(sys.argv[1])
for command in commands:
    done = CliRunner().invoke(app, command)
    print(json.dumps([command, done.exit_code, done.output, repr(done.exception), os.path.exists(sprung)]))
"""
"""Runs each in one process, as each start imports all of the package; says what became of it."""


def python(path: str, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": path}
    command = [sys.executable, *map(str, arguments)]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=120)


def rigged(store: Path, codec: str, chunk: bytes) -> list[Path]:
    """Give every compressed array in a folder another codec, and each of its chunks the same bytes."""
    changed = []
    for metadata in store.rglob("*.zarray"):
        meta = json.loads(metadata.read_bytes())
        if meta["compressor"] is None:
            continue
        meta["compressor"] = {"id": codec}
        metadata.write_bytes(json_bytes(meta))
        first = metadata.name.removesuffix(".zarray")
        chunks = [
            p for p in metadata.parent.iterdir() if p.name.removeprefix(first).replace(".", "").isdigit()
        ]
        for path in chunks:
            path.write_bytes(chunk)
            changed.append(path)
    return changed


def test_older_versions_would_unpickle(python_path: str, tmp_path: Path) -> None:
    # Else the next test could not fail.
    sprung, chunk = tmp_path / "sprung", tmp_path / "chunk"
    chunk.write_bytes(pickle.dumps(Trap(sprung)))
    decode = f"numcodecs.get_codec(dict(id='pickle')).decode(open({str(chunk)!r}, 'rb').read())"
    said = python(python_path, "-c", f"import numcodecs; print(numcodecs.__version__); {decode}").stdout
    version = tuple(map(int, said.strip().split(".")))
    assert sprung.exists() == (version < (0, 16, 6))


@pytest.mark.long(cases=1)
def test_no_command_runs_what_a_chunk_holds(datasets: Path, python_path: str, tmp_path: Path) -> None:
    sprung = tmp_path / "sprung"
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-r", datasets, copy], check=True)
    changed = rigged(copy, "pickle", pickle.dumps(Trap(sprung)))
    assert {"l5kit", "ncore"} == {path.relative_to(copy).parts[0] for path in changed}
    scenes = copy / "l5kit" / "ds.zarr"
    sequence = next((copy / "ncore").iterdir())
    commands = [
        ["check", datasets],
        ["check", scenes],
        ["check", sequence],
        ["report", scenes, "-o", tmp_path / "l.html"],
        ["report", sequence, "-o", tmp_path / "n.html"],
        ["report", scenes, "--picture", tmp_path / "sheet.png"],
        ["recover", copy],
        ["check", scenes],
    ]
    done = python(python_path, "-c", COMMANDS, json.dumps([sprung, *commands], default=str))
    assert "Traceback" not in done.stderr
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(lines) == len(commands), done.stderr
    for command, code, output, error, is_sprung in lines:
        assert not is_sprung, command
        assert "Traceback" not in output, command
        assert error in {"None", f"SystemExit({code})"}, command
    assert lines[0][1] == 0, "what is sound reads with each version"
    _, code, output, _, _ = lines[-1]
    assert code == 1
    assert "compressor 'pickle' is not read here; the formats use blosc, or none" in output


@pytest.mark.parametrize("codec", CODECS)
def test_other_codecs_are_refused_before_their_chunk_is_read(codec: str, tmp_path: Path) -> None:
    records = dict(array_records("a", np.arange(4, dtype="<i4"), Blosc()))
    metadata = json.loads(records["a/.zarray"]) | {"compressor": {"id": codec}}
    asked = []

    def get(key: str) -> bytes:
        asked.append(key)
        return {**records, "a/.zarray": json_bytes(metadata)}[key]

    with pytest.raises(ValueError, match=f"compressor '{codec}' is not read here"):
        read_array(get, "a")
    assert asked == ["a/.zarray"]
    (tmp_path / "scenes").mkdir()
    (tmp_path / "scenes" / ".zarray").write_bytes(json_bytes(metadata))
    with pytest.raises(DatasetError, match="is not read here"):
        Files(tmp_path, "scenes").header()


@pytest.mark.parametrize("compressor", ["blosc", 7, [], {}, {"id": ["blosc"]}, {"cname": "lz4"}])
def test_what_names_no_compressor_is_refused(compressor: object) -> None:
    with pytest.raises(ValueError, match="is not read here"):
        ArrayHeader.parse(json_bytes(metadata_of("<i4") | {"compressor": compressor}))


def metadata_of(dtype: object) -> dict[str, object]:
    return {
        "zarr_format": 2, "shape": [4], "chunks": [4], "dtype": dtype, "compressor": None, "fill_value": 0,
        "order": "C", "filters": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    "dtype",
    ["O", "|O", "|O8", "object", "<M8[ns]", "|V8", "f", "i4,f8", "(3,)f4", "<f3", "", 4, None, [], [["a"]],
     [["a", "|O"]], [["a", "<f4"], ["a", "<f4"]], [["a", "<f4", [1 << 40]]], [["a", "<f4", ["x"]]], [[7, {}]],
     [["a", [["b", [["c", [["d", [["e", "u1"]]]]]]]]]], [[str(n), "|u1"] for n in range(65)]],
)  # fmt: skip
def test_types_that_no_format_has_are_refused(dtype: object) -> None:
    with pytest.raises(ValueError, match="is not read here"):
        dtype_of(dtype)
    with pytest.raises(ValueError, match="is not read here"):
        ArrayHeader.parse(json_bytes(metadata_of(dtype)))


def test_structures_of_64_fields_and_4_levels_are_read() -> None:
    assert len(dtype_of([[str(n), "|u1"] for n in range(64)])) == 64
    deep = np.dtype([("a", [("b", [("c", [("d", "u1")])])])])
    assert dtype_of(dtype_json(deep)) == deep


@pytest.mark.parametrize(
    ("dtype", "fill"),
    [
        ("<i4", "x"),
        ("<i4", []),
        ("<i4", {}),
        ("|u1", 1e300),
        ("<f4", "x"),
        ("<f4", 1e300),
        ("|S4", "!"),
        ("|S4", []),
    ],
)
def test_fills_that_are_no_element_are_refused(dtype: str, fill: object) -> None:
    with pytest.raises(ValueError, match="fill value"):
        fill_of(np.dtype(dtype), fill)


@pytest.mark.parametrize(
    "text", [b"", b"[]", b"7", b"null", b"{}", b"{", b"\xff", b"[" * 100_000, b'{"zarr_format": 2}']
)
def test_metadata_of_another_shape_is_refused(text: bytes) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - json has words of its own
        ArrayHeader.parse(text)


@pytest.mark.parametrize("size", [True, 2.0, "2", None, -1, 1 << 63])
def test_sizes_that_are_none_are_refused(size: object) -> None:
    for name in ("shape", "chunks"):
        with pytest.raises(ValueError):  # noqa: PT011 - of either check
            ArrayHeader.parse(json_bytes(metadata_of("<i4") | {name: [size]}))


@pytest.mark.parametrize("filters", [[{"id": "pickle"}], [{"id": "delta", "dtype": "<i4"}]])
def test_filters_are_refused(filters: object) -> None:
    with pytest.raises(ValueError, match="no filters"):
        ArrayHeader.parse(json_bytes(metadata_of("<i4") | {"filters": filters}))


class TestMemory:
    """An array takes no more of it than what is stored of it warrants."""

    def test_few_bytes_do_not_become_an_array_of_a_quarter_of_a_gigabyte(self) -> None:
        records = dict(array_records("a", np.zeros(1 << 27, "|u1"), Blosc()))
        with pytest.raises(ValueError, match="134,217,728 bytes of uint8 are in"):
            read_array(records.__getitem__, "a")

    @pytest.mark.parametrize("dtype", ["|S999999999", "<U99999999", [["a", "<f8", [1 << 26]]]])
    def test_nor_does_one_element(self, dtype: object) -> None:
        with pytest.raises(ValueError, match="are larger than any array here"):
            ArrayHeader.parse(json_bytes(metadata_of(dtype)))

    def test_neither_do_chunks_that_are_not_there(self) -> None:
        metadata = metadata_of("<f8") | {"shape": [1 << 24], "chunks": [1 << 10]}
        with pytest.raises(ValueError, match="are in 0 bytes of chunks"):
            read_array({"a/.zarray": json_bytes(metadata)}.__getitem__, "a")

    def test_a_header_that_declares_another_size_is_not_believed(self) -> None:
        records = dict(array_records("a", np.zeros(1 << 10, "|u1"), Blosc()))
        records["a/0"] = records["a/0"][:4] + (1 << 30).to_bytes(4, "little") + records["a/0"][8:]
        with pytest.raises(ValueError, match="does not declare 1,024 bytes"):
            read_array(records.__getitem__, "a")
