"""What the vendor's present tools say of datasets, as the table of docs/exports.md has it."""

from __future__ import annotations

import json
import subprocess
from functools import cache
from pathlib import Path

import pyarrow as pa
import pytest
import yaml
from drives import simulated
from faulty import FaultyOptions
from places import REPOSITORY
from typer.testing import CliRunner

import edgefirst_ros
from edgefirst_ros.cli.app import app
from edgefirst_ros.formats.datasets import check
from edgefirst_ros.model.errors import ConfigError

CLIENT = REPOSITORY / ".venv-edgefirst" / "bin" / "edgefirst-client"
VALIDATOR = REPOSITORY / ".venv-validator" / "bin" / "python"
OPTIONS = FaultyOptions(
    seconds=4.0, fps=5, width=192, height=108, lidar_points=200, masks=True, mask_size=(64, 36)
)
READER = """
import json, sys
from types import SimpleNamespace as Values
from edgefirst.validator.datasets import instantiate_dataset
from edgefirst.validator.datasets.utils.fetch import classify_dataset

common = Values(with_masks=True, with_boxes=True)
given = Values(labels=None, label_offset=0, box_format="xywh", normalized=True, visualize=False,
               common=common, dataset_path=sys.argv[1])
dataset = instantiate_dataset(classify_dataset(sys.argv[1]), given, None, None)
samples = dataset.collect_samples()
found = sum(dataset.name(sample) in dataset.images_dict for sample in samples)
print(json.dumps([len(samples), found, sum(len(dataset.boxes(sample)) for sample in samples)]))
"""


@pytest.fixture(scope="module", params=["", "studio"], ids=["default", "studio"])
def dataset(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bool]:
    out = tmp_path_factory.mktemp("vendor")
    options = ["--for", request.param] if request.param else []
    command = [
        "convert",
        str(simulated(OPTIONS).mcap),
        "-o",
        str(out),
        "--name",
        "d",
        "--no-report",
        *options,
    ]
    done = CliRunner().invoke(app, command)
    assert done.exit_code == 0, done.output
    return out / "edgefirst" / "d", bool(request.param)


@cache
def client(*words: str | Path) -> subprocess.CompletedProcess[str]:
    if not CLIENT.exists():
        pytest.skip("needs the vendor's client: make oracles")
    return subprocess.run([CLIENT, *map(str, words)], capture_output=True, text=True, check=False)


def test_the_preset_is_a_sound_dataset_of_the_same_pictures(dataset: tuple[Path, bool]) -> None:
    folder, is_studio = dataset
    (result,) = check(folder)
    assert result.ok
    assert not result.warnings
    opened = edgefirst_ros.open(folder, keys=["time_ns"])
    assert opened.schema_version == ("2026.10" if is_studio else "2025.01")
    assert [sample["frame"] for sample in opened] == list(range(100 * is_studio, 100 * is_studio + 20))
    report = json.loads((folder / "capture_report.json").read_text())
    worst = {each["worst"]["frame"] for each in report["pairing"].values()}
    assert worst <= {sample["frame"] for sample in opened}


def test_the_validator_is_told_where_things_are(dataset: tuple[Path, bool]) -> None:
    folder, is_studio = dataset
    assert [path.name for path in folder.glob("*.arrow")] == ["d.arrow"]  # it takes the first one
    assert (folder / "dataset.yaml").exists() == is_studio
    if is_studio:
        listing = yaml.safe_load((folder / "dataset.yaml").read_text())
        notes = pa.ipc.open_file(folder / "d.arrow").schema.metadata
        assert listing["classes"] == json.loads(notes[b"labels"]) != []
        assert {*listing} == {"type", "classes", "train", "validation"}
        assert all(
            (folder / listing[part][of]).exists() for part in ("train", "validation") for of in listing[part]
        )


def test_options_given_win_over_the_preset(tmp_path: Path) -> None:
    command = ["convert", str(simulated(OPTIONS).mcap), "-o", str(tmp_path), "--name", "d", "--no-report"]
    done = CliRunner().invoke(app, [*command, "--for", "studio", "--container", "zip"])
    assert done.exit_code == 0, done.output
    assert (tmp_path / "edgefirst" / "d" / "d.zip").is_file()
    assert edgefirst_ros.open(tmp_path).schema_version == "2026.10"


def test_a_program_that_no_format_knows_is_named(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["convert", "x.mcap", "-o", str(tmp_path), "--for", "nobody"])
    assert done.exit_code == 2
    assert "--for: 'nobody' is not known\nhint: there are studio" in done.output
    with pytest.raises(ConfigError, match="'nobody' is not known"):
        edgefirst_ros.convert("x.mcap", tmp_path, for_="nobody")


def test_python_has_the_preset(dataset: tuple[Path, bool], tmp_path: Path) -> None:
    folder, is_studio = dataset
    for_ = "studio" if is_studio else ""
    edgefirst_ros.convert(simulated(OPTIONS).mcap, tmp_path, name="d", page=False, for_=for_)
    for path in filter(Path.is_file, folder.rglob("*")):
        if path.suffix != ".json":  # the report says where it was written
            assert (tmp_path / "edgefirst" / "d" / path.relative_to(folder)).read_bytes() == path.read_bytes()


def test_validate_snapshot_wants_the_folder(dataset: tuple[Path, bool]) -> None:
    folder, is_studio = dataset
    done = client("validate-snapshot", folder)
    assert (done.returncode == 0) == is_studio
    assert ("Missing sensor container directory" in done.stdout + done.stderr) == (not is_studio)
    assert ".camera.jpeg" not in done.stdout  # unreferenced are the files of other sensors only


def test_arrow_to_coco_knows_no_frames(dataset: tuple[Path, bool], tmp_path: Path) -> None:
    folder, is_studio = dataset
    client("arrow-to-coco", folder / "d.arrow", "-o", tmp_path / "theirs.json")
    theirs = json.loads((tmp_path / "theirs.json").read_text())
    assert len(theirs["images"]) == 1
    assert any(max(each["bbox"]) > 1 for each in theirs["annotations"]) == is_studio


def test_the_validator_finds_pictures_whose_numbers_have_no_zeros_in_front(
    dataset: tuple[Path, bool],
) -> None:
    if not VALIDATOR.exists():
        pytest.skip("edgefirst-validator is not installed: make test-studio has a venv with it, of 620 MB")
    folder, is_studio = dataset
    done = subprocess.run(
        [VALIDATOR, "-c", READER, folder / "dataset.yaml"], capture_output=True, text=True, check=False
    )
    if not is_studio:
        assert done.returncode  # the pictures are in the ZIP, and no file says where
        return
    assert done.returncode == 0, done.stderr
    opened = edgefirst_ros.open(folder, keys=["boxes2d"])
    boxes = sum(len(sample["boxes2d"]) for sample in opened if sample["boxes2d"] is not None)
    assert json.loads(done.stdout.splitlines()[-1]) == [len(opened), len(opened), boxes]
