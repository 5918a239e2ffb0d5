"""Several datasets as one: lists, a fleet's folder, slices, class numbers."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from readable import NAME, copied, dataset, digests

import edgefirst_ros
from edgefirst_ros.formats.edgefirst import many
from edgefirst_ros.formats.edgefirst.many import Corpus
from edgefirst_ros.model.errors import ConfigError, DatasetError, DatasetNotFound

DRIVES = ("monday", "tuesday", "wednesday")
COUNT = 15


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A fleet's output: three drives, the last one as a folder of files."""
    sets = tmp_path_factory.mktemp("fleet") / "sets"
    for drive in DRIVES:
        copied(sets / drive / "edgefirst", container="folder" if drive == DRIVES[-1] else "zip")
    return sets


@pytest.fixture
def opened(fleet: Path) -> Corpus:
    found = edgefirst_ros.open(fleet)
    assert isinstance(found, Corpus)
    return found


def places(fleet: Path) -> list[str]:
    return [str(fleet / drive / "edgefirst" / NAME) for drive in DRIVES]


def test_a_fleets_folder_is_one_dataset(fleet: Path, opened: Corpus) -> None:
    assert len(opened) == 3 * COUNT
    assert list(opened.datasets) == places(fleet)
    expected = digests(edgefirst_ros.open(dataset()), range(COUNT))
    assert digests(opened, range(3 * COUNT)) == 3 * expected
    for index in (0, COUNT - 1, COUNT, 3 * COUNT - 1, -1):
        assert opened[index]["dataset"] == opened.dataset_of(index) == places(fleet)[index // COUNT]
    assert [each["name"] for each in opened.with_keys([])] == 3 * [
        each["name"] for each in edgefirst_ros.open(dataset(), keys=[])
    ]
    picture = opened.file(COUNT + 2, "camera.jpeg")
    assert picture == edgefirst_ros.open(dataset()).file(2, "camera.jpeg")
    with pytest.raises(IndexError, match="sample 45 of 45"):
        opened[3 * COUNT]


def test_a_list_of_places_is_in_its_order(fleet: Path) -> None:
    first, second, third = places(fleet)
    opened = edgefirst_ros.open([Path(third), f"{first}/{NAME}.zip"], keys=["time_ns"])
    assert isinstance(opened, Corpus)
    assert opened.datasets == (third, first)
    assert "image" not in opened[0]
    assert len(edgefirst_ros.open([fleet / "monday", second, third])) == 3 * COUNT
    one = edgefirst_ros.open([first])
    assert isinstance(one, Corpus)
    assert len(one) == COUNT
    with pytest.raises(DatasetNotFound, match="friday: no such file"):
        edgefirst_ros.open([first, fleet / "friday"])
    with pytest.raises(DatasetNotFound, match="no dataset was named"):
        edgefirst_ros.open([])


def test_slices_are_datasets(opened: Corpus) -> None:
    for whole in (opened.with_keys(["time_ns"]), edgefirst_ros.open(dataset(), keys=["time_ns"])):
        part = whole[3 : len(whole) - 2 : 2]
        assert type(part) is type(whole)
        numbers = range(3, len(whole) - 2, 2)
        assert [each["time_ns"] for each in part] == [whole[number]["time_ns"] for number in numbers]
        assert part[-1]["time_ns"] == whole[numbers[-1]]["time_ns"]
        assert [each["time_ns"] for each in part[1:3]] == [whole[n]["time_ns"] for n in numbers[1:3]]
        assert len(whole[5:5]) == 0
        rows = part.to_polars()
        kept = {(whole[number]["sequence"], whole[number]["frame"]) for number in numbers}
        assert set(rows.select(pl.col("name").cast(pl.String), "frame").iter_rows()) == kept
        assert 0 < len(rows) < len(whole.to_polars())


def test_the_tables_are_one_with_the_name_of_the_dataset(fleet: Path, opened: Corpus) -> None:
    one = edgefirst_ros.open(dataset()).to_polars()
    rows = opened.to_polars()
    assert len(rows) == 3 * len(one)
    assert rows["dataset"].unique(maintain_order=True).to_list() == places(fleet)
    assert rows["box2d"].to_list() == 3 * one["box2d"].to_list()
    only = opened[: COUNT + 1].to_polars()
    assert only["dataset"].n_unique() == 2


def test_sequences_say_which_samples_follow_one_another(opened: Corpus) -> None:
    one = edgefirst_ros.open(dataset()).sequences
    found = opened.sequences
    assert [(each.start, each.stop) for each in found] == [(n * COUNT, (n + 1) * COUNT) for n in range(3)]
    assert {each.name for each in found} == {one[0].name}
    part = opened[COUNT - 2 : COUNT + 3]
    assert [(each.start, each.stop) for each in part.sequences] == [(0, 2), (2, 5)]


def test_classes_have_the_same_numbers_in_all(tmp_path: Path) -> None:
    copied(tmp_path / "a")
    other = copied(tmp_path / "b")
    renamed(other / f"{NAME}.arrow", {"car": "bus"})
    opened = edgefirst_ros.open(tmp_path, keys=["boxes2d"])
    mine, theirs = (edgefirst_ros.open(tmp_path / name, keys=["boxes2d"]) for name in "ab")
    assert opened.labels == tuple(sorted({*mine.labels, *theirs.labels}))
    assert {"bus", "car"} <= set(opened.labels)
    for index, sample in enumerate(opened):
        one = mine[index] if index < COUNT else theirs[index - COUNT]
        labels = mine.labels if index < COUNT else theirs.labels
        assert [opened.labels[n] for n in sample["labels2d"]] == [labels[n] for n in one["labels2d"]]
    given = [*reversed(opened.labels), "tram"]
    assert edgefirst_ros.open(tmp_path, labels=given).labels == tuple(given)
    with pytest.raises(ConfigError, match="also has bus"):
        edgefirst_ros.open(tmp_path, labels=mine.labels)


def renamed(path: Path, names: dict[str, str]) -> None:
    """Give classes other names in a table."""
    table = pa.ipc.open_file(path).read_all()
    column = table["label"].combine_chunks()
    texts = pa.array([names.get(each, each) for each in column.to_pylist()])
    if pa.types.is_dictionary(column.type):
        texts = texts.dictionary_encode().cast(column.type)
    table = table.set_column(table.schema.get_field_index("label"), "label", texts)
    with pa.ipc.new_file(path, table.schema) as writer:
        writer.write_table(table)


def test_groups_are_those_of_all(tmp_path: Path, opened: Corpus) -> None:
    train = edgefirst_ros.open(tmp_path_of(opened), group="train", keys=[])
    one = edgefirst_ros.open(dataset(), group="train", keys=[])
    assert len(train) == 3 * len(one) > 0
    assert opened.groups == ("test", "train", "val")
    assert {each["group"] for each in train} == {"train"}
    with pytest.raises(ConfigError, match="no dataset has a group other; there are test, train, val"):
        edgefirst_ros.open(tmp_path_of(opened), group="other")
    assert len(opened[:20].to_polars()) > 0


def tmp_path_of(opened: Corpus) -> Path:
    return opened.path.parents[2]


def test_it_can_be_pickled(opened: Corpus) -> None:
    again = pickle.loads(pickle.dumps(opened[::7]))
    assert digests(again, range(len(again))) == digests(opened[::7], range(len(again)))


def test_few_files_are_open_at_once(fleet: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened = edgefirst_ros.open(fleet, keys=["time_ns", "boxes2d"])
    monkeypatch.setattr(many, "_MOST_OPEN", 1)
    expected = [sample["time_ns"] for sample in edgefirst_ros.open(dataset(), keys=["time_ns"])]
    order = np.random.default_rng(1).permutation(3 * COUNT).tolist()
    for number in order:
        assert opened[number]["time_ns"] == expected[number % COUNT]
        held = {Path(path).parts[-4] for path in open_files() if str(fleet) in path}
        assert len(held) <= 1
    opened.release()
    assert not [path for path in open_files() if str(fleet) in path]


def open_files() -> list[str]:
    def paths() -> Iterator[str]:
        for each in Path("/proc/self/fd").iterdir():
            try:
                yield str(each.readlink())
            except FileNotFoundError:
                continue

    return list(paths())


def test_a_dataset_that_was_replaced_is_an_error(tmp_path: Path) -> None:
    for name in "ab":
        copied(tmp_path / name)
    opened = edgefirst_ros.open(tmp_path, keys=["image"])
    archive = tmp_path / "b" / NAME / f"{NAME}.zip"
    archive.rename(archive.with_suffix(".old"))
    shutil.copy(archive.with_suffix(".old"), archive)
    assert opened[0]["image"] is not None
    with pytest.raises(DatasetError, match="has changed since the dataset was opened"):
        opened[COUNT]
