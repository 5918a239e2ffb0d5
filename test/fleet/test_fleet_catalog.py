"""A fleet's run leaves a catalogue of its samples, and reads nothing for it that it knows."""

from __future__ import annotations

from pathlib import Path

import polars as pl
import pytest
from fleets import CUT, GARBAGE, make_drives, run
from s3server import S3Server

import edgefirst_ros
from edgefirst_ros.formats.edgefirst import catalog as catalogues


@pytest.fixture(scope="module")
def drives(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_drives(tmp_path_factory.mktemp("fleet") / "drives")


def test_it_grows_with_the_fleet(drives: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sets = tmp_path / "sets"
    some = [drives / "drive00.mcap"]
    code, out, err = run("convert", *some, "-o", sets, "--jobs", "1")
    assert code == 0, err
    assert f"{sets}/catalog.parquet" in out
    read: list[str] = []
    rows_of = catalogues.rows_of
    monkeypatch.setattr(catalogues, "rows_of", lambda each: (read.append(each.name), rows_of(each))[1])
    run("convert", *some, drives / f"{CUT}.mcap", drives / f"{GARBAGE}.mcap", "-o", sets, "--jobs", "1")
    assert len(read) == 1, "what was there is not read again, and garbage is no dataset"
    rows = pl.read_parquet(sets / "catalog.parquet")
    found = {path: len(edgefirst_ros.open(sets / path)) for path in rows["dataset"].unique()}
    assert dict(rows["dataset"].value_counts().iter_rows()) == found
    assert {path.split("/")[0] for path in found} == {"drive00", CUT}
    # A drive that is converted anew is described anew.
    read.clear()
    run("convert", some[0], "-o", sets, "--rate", "1", "--jobs", "1")
    assert len(read) == 1
    again = pl.read_parquet(sets / "catalog.parquet")
    fewer = again.filter(pl.col("dataset").str.starts_with("drive00/"))
    assert 0 < len(fewer) < rows["dataset"].str.starts_with("drive00/").sum()
    assert again.filter(~pl.col("dataset").str.starts_with("drive00/")).equals(
        rows.filter(~pl.col("dataset").str.starts_with("drive00/"))
    )


@pytest.mark.long
def test_what_is_in_its_place_is_kept_and_said(drives: Path, tmp_path: Path) -> None:
    sets = tmp_path / "sets"
    sets.mkdir()
    (sets / "catalog.parquet").write_text("mine")
    code, _, err = run("convert", drives / "drive00.mcap", "-o", sets, "--jobs", "1")
    assert code == 0
    assert "is no catalogue" in err
    assert (sets / "catalog.parquet").read_text() == "mine"


@pytest.mark.long
def test_in_a_bucket_its_rows_have_urls(bucket: str, s3: S3Server, drives: Path, tmp_path: Path) -> None:
    obstore = pytest.importorskip("obstore", reason="no client of object stores: pip install obstore")
    for count in (1, 2):
        some = [drives / f"drive{number:02}.mcap" for number in range(count)]
        s3.log.clear()
        code, out, err = run("convert", *some, "-o", f"{bucket}/sets", "--jobs", "1")
        assert code == 0, err
        assert f"{bucket}/sets/catalog.parquet" in out
    got = [r.path for r in s3.log.of("GET") if r.path.endswith(".arrow")]
    assert len([path for path in got if "drive01" in path]) == 1
    assert not [path for path in got if "drive00" in path]
    store = obstore.store.from_url(f"{bucket}/sets")
    (tmp_path / "c.parquet").write_bytes(bytes(obstore.get(store, "catalog.parquet").bytes()))
    rows = pl.read_parquet(tmp_path / "c.parquet")
    assert set(rows["dataset"].str.extract(r"(.*/sets/drive\d\d)/")) == {
        f"{bucket}/sets/drive00",
        f"{bucket}/sets/drive01",
    }
