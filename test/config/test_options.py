"""Options: each does what it says and says when to set it; those of earlier versions are still understood."""

from __future__ import annotations

import ast
import json
import os
import re
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from drives import simulate
from faulty import FaultyOptions
from places import REPOSITORY, tool
from pydantic import BaseModel
from written import Written

from edgefirst_ros.config.model import Config, TopicRule, build_config
from edgefirst_ros.formats.l5kit import ChunkedDataset
from edgefirst_ros.formats.l5kit.store.schema import AgentLabel
from edgefirst_ros.formats.registry import FORMATS
from edgefirst_ros.formats.zarr2 import read_array
from edgefirst_ros.offline.convert import Conversion, convert
from edgefirst_ros.pipeline.assembly import Pipeline

HERE = Path(__file__).relative_to(REPOSITORY / "test")
LIVE, OVERLOAD = "live/test_live_capture.py", "pipeline/test_overload.py"
NCORE, PREPARED = "formats/ncore/write/test_ncore_writer.py", "formats/ncore/prepare/test_ncore_prepare.py"
PROVENANCE = "formats/ncore/finish/test_ncore_provenance.py"
L5KIT, PLACED = "formats/l5kit/write/test_l5_writer.py", "formats/l5kit/write/test_l5_placement.py"
WRITER = "formats/edgefirst/test_edgefirst_writer.py"
TESTED: Mapping[str, str] = {
    "prefix": "config/test_topics.py::test_two_devices_are_ambiguous_until_one_is_chosen",
    "host": f"{HERE}::test_the_rig_and_the_host_are_what_they_are_called",
    "topics": "config/test_config.py::test_topics_overlay_the_maivins",
    "class_names": f"{HERE}::test_classes_are_called_in_every_format_as_was_asked_for",
    "reference": "config/test_topics.py::test_the_reference_is_found_by_topic_entry_or_role",
    "rig_frame": f"{HERE}::test_the_rig_and_the_host_are_what_they_are_called",
    "rate_hz": f"{HERE}::test_samples_and_frames_are_as_many_as_were_asked_for",
    "select.every": "offline/test_api.py::test_settings_are_taken_from_everywhere_and_keywords_win",
    "select.distance_m": "pipeline/test_motion_choice.py::test_samples_are_as_far_apart_as_asked",
    "select.moving": "pipeline/test_motion_choice.py::"
    "test_a_stop_is_one_sample_and_the_rest_is_skipped_with_its_reason",
    "edgefirst.split": "formats/edgefirst/finish/test_edgefirst_groups.py::"
    "test_convert_gives_a_drive_one_group_or_each_place_its_own",
    "select.keyframes": "pipeline/test_picture_size.py::test_frames_that_nobody_keeps_tell_the_size_too",
    "select.require": "config/test_completeness.py::test_what_a_sample_must_have",
    "lookahead_s": "live/test_split.py::test_a_session_before_a_seam_is_fed_as_long_as_its_last_sample_waits",
    "pictures": f"{HERE}::test_pictures_are_as_they_were_asked_for",
    "queue_mb": f"{LIVE}::test_a_full_queue_drops_and_counts_and_the_rest_is_sound",
    "min_free_mb": "live/test_live_space.py::test_what_is_kept_free_stays_free",
    "sync_s": f"{HERE}::test_data_are_synced_as_often_as_was_asked_for",
    "split_every": f"{LIVE}::test_sessions_split_by_what_is_written",
    "record": "live/test_live_lost.py::test_a_recording_that_goes_is_said_and_the_datasets_go_on",
    "workers": f"{HERE}::test_as_many_threads_encode_as_were_asked_for",
    "decoder": "video/test_backends.py::test_a_run_does_not_start_where_every_decoder_refuses",
    "formats": "config/test_completeness.py::test_what_a_sample_must_have",
    "ego.smoothing": "offline/test_drive_ego.py::test_lag_reads_once_and_whole_twice",
    "ego.non_holonomic": f"{HERE}::test_rolling_makes_other_positions",
    "ego.wait_s": "live/test_split.py::test_a_session_before_a_seam_is_fed_as_long_as_its_last_sample_waits",
    "overload.latency_s": f"{OVERLOAD}::test_the_configuration_decides",
    "edgefirst.schema_version": f"{WRITER}::test_a_dataset_of_two_sequences",
    "edgefirst.container": f"{WRITER}::test_a_dataset_of_two_sequences",
    "edgefirst.val_ratio": f"{HERE}::test_groups_are_as_large_as_they_are_asked_for",
    "edgefirst.lidar_image_size": f"{WRITER}::test_lidar_images_have_the_size_that_is_asked_for",
    "edgefirst.degradation": f"{WRITER}::test_the_pose_is_the_cameras",
    "edgefirst.exif_camera": f"{WRITER}::test_exif_names_the_maker_that_is_known",
    "ncore.store": f"{HERE}::test_a_sequence_is_laid_out_as_was_asked_for",
    "ncore.profile": f"{HERE}::test_a_sequence_is_laid_out_as_was_asked_for",
    "ncore.ego_masks": f"{NCORE}::test_masks_are_there_for_every_camera",
    "ncore.camera_readout_ms": f"{PREPARED}::test_a_rolling_shutter_makes_a_frame_of_its_readout",
    **{
        f"vehicle.{name}": f"{HERE}::test_the_vehicle_is_the_one_that_is_configured"
        for name in ("length_m", "width_m", "height_m", "rear_axle_m", "rear_overhang_m", "platform")
    },
    "ncore.cuboids_of_boxes2d": "formats/ncore/finish/test_ncore_flat_cuboids.py::"
    "test_cuboids_are_not_guessed_where_better_is_known_or_nothing",
    "ncore.radar_speed_receding_positive": f"{PREPARED}::test_detections_have_their_fields_as_generic_data",
    "ncore.radar_cube": f"{PREPARED}::test_cubes_are_stored_only_when_asked",
    "ncore.unknown_pose": "offline/test_drive_ncore.py::test_what_is_measured_at_an_unknown_place_can_be_cut",
    "l5kit.rate_hz": f"{HERE}::test_samples_and_frames_are_as_many_as_were_asked_for",
    "l5kit.sources": f"{PLACED}::test_an_object_of_several_sources_is_taken_from_the_first",
    "l5kit.labels": f"{L5KIT}::test_labels_are_configurable",
}
"""By option the test that sets another value than its default, and fails where that changes nothing."""
IMPERATIVE = re.compile(
    r"(^|[.;] )(Set|Raise|Lower|Choose|Name|Give|Add|Take out|Turn) (?!.*\?)", re.IGNORECASE
)
"""How the sentence begins that says when to touch an option."""


def options(model: type[BaseModel], block: str = "") -> Iterator[tuple[str, str]]:
    """Every option and what it says."""
    for name, info in model.model_fields.items():
        if isinstance(info.annotation, type) and issubclass(info.annotation, BaseModel):
            yield from options(info.annotation, f"{block}{name}.")
        else:
            yield f"{block}{name}", f"{info.description}"


FOCAL_LENGTH = 0x920A
ALL = dict(options(Config)) | dict(options(TopicRule, "topics.NAME."))
DRIVE = FaultyOptions(
    seconds=6, fps=5, width=160, height=96, lidar_points=200, lidar_hz=5, radar_hz=0, imu_hz=50,
    gps_no_fix=0, silent={"gps": ((3.0, 6.0),)},
)  # fmt: skip


@pytest.fixture(scope="module")
def drive(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return simulate(tmp_path_factory.mktemp("drive"), DRIVE).mcap


class Runs:
    """Conversions of the drive, by folder."""

    def __init__(self, root: Path, drive: Path) -> None:
        self._root, self._drive = root, drive

    def run(self, name: str, **values: Any) -> tuple[Conversion, Path]:  # noqa: ANN401
        done = convert([self._drive], self._root / name, build_config(values), dataset="d")
        return done, self._root / name / "edgefirst" / "d"


@pytest.fixture(scope="module")
def runs(drive: Path, tmp_path_factory: pytest.TempPathFactory) -> Runs:
    return Runs(tmp_path_factory.mktemp("out"), drive)


@pytest.fixture(scope="module")
def plain(runs: Runs) -> tuple[Conversion, Path]:
    return runs.run("plain")


@pytest.fixture(scope="module")
def other(runs: Runs) -> tuple[Conversion, Path]:
    return runs.run("other", pictures="png", edgefirst={"val_ratio": 1.0})


@pytest.fixture(scope="module")
def more(runs: Runs) -> tuple[Conversion, Path]:
    return runs.run(
        "more",
        pictures="jpeg20",
        ego={"non_holonomic": False},
    )


@pytest.fixture(scope="module")
def poor(runs: Runs) -> tuple[Conversion, Path]:
    formats, l5kit = ["edgefirst", "l5kit"], {"rate_hz": 2.0}
    return runs.run("poor", formats=formats, rate_hz=5 / 3, l5kit=l5kit)


def test_samples_and_frames_are_as_many_as_were_asked_for(poor: tuple[Conversion, Path]) -> None:
    """Of five pictures a second, a third; no pose is known in the second half."""
    done, folder = poor
    assert done.report["samples"] == 10
    times = ChunkedDataset(folder.parents[1] / "l5kit" / "d.zarr").open().frames[:]["timestamp"]
    assert len(times) > 3
    assert not any((after - before) % 500_000_000 for before, after in pairwise(times.tolist()))


def test_data_are_synced_as_often_as_was_asked_for(runs: Runs, monkeypatch: pytest.MonkeyPatch) -> None:
    synced = []
    for name in ("fsync", "fdatasync"):
        own = getattr(os, name)
        monkeypatch.setattr(os, name, lambda file, own=own: (synced.append(file), own(file))[1])
    counts = []
    for sync_s in ("off", 0.0):
        synced.clear()
        runs.run(f"sync {sync_s}", sync_s=sync_s, select={"keyframes": True})
        counts.append(len(synced))
    assert counts[1] > counts[0]


def test_as_many_threads_encode_as_were_asked_for() -> None:
    pipeline = Pipeline(build_config({"workers": 3}), [])
    assert pipeline.workers.count == pipeline.workers.pool._max_workers == 3
    pipeline.abort()


@pytest.mark.parametrize(("store", "profile"), [("directory", "separate-sensors"), ("itar", "single")])
def test_a_sequence_is_laid_out_as_was_asked_for(runs: Runs, store: str, profile: str) -> None:
    values = {"store": store, "profile": profile}
    _, folder = runs.run(f"{store} {profile}", formats=["ncore"], ncore=values, select={"keyframes": True})
    stores = list((folder.parents[1] / "ncore").glob("*/*.ncore4*"))
    assert {path.is_dir() for path in stores} == {store == "directory"}
    assert (len(stores) == 1) == (profile == "single")


def test_pictures_are_as_they_were_asked_for(
    plain: tuple[Conversion, Path], other: tuple[Conversion, Path], more: tuple[Conversion, Path]
) -> None:
    sizes = []
    for (_, folder), kind in ((plain, "jpeg"), (more, "jpeg"), (other, "png")):
        pictures = {name: data for name, data in Written(folder).files().items() if ".camera." in name}
        assert {name.rpartition(".")[2] for name in pictures} == {kind}
        sizes.append(sum(map(len, pictures.values())))
    assert sizes[1] < sizes[0] / 1.5 < sizes[2]


def test_groups_are_as_large_as_they_are_asked_for(
    plain: tuple[Conversion, Path], other: tuple[Conversion, Path]
) -> None:
    found = [list(map(str, Written(folder).table["group"])) for _, folder in (plain, other)]
    assert 0.1 < found[0].count("val") / len(found[0]) < 0.3
    assert set(found[1]) == {"val"}


def test_rolling_makes_other_positions(plain: tuple[Conversion, Path], more: tuple[Conversion, Path]) -> None:
    """The receiver is silent for the second half."""
    rolling, free = (Written(folder).table["location"].to_list() for _, folder in (plain, more))
    assert rolling != free


def test_the_rig_and_the_host_are_what_they_are_called(runs: Runs) -> None:
    done, folder = runs.run(
        "rig", formats=["ncore", "l5kit"], rig_frame="chassis", host="bob", select={"keyframes": True}
    )
    assert sum("publish one from chassis" in text for text in done.report["warnings"]) == 2
    assert done.report["topics"]["/lidar/points"]["written_to"].keys() == {"ncore"}
    scenes = ChunkedDataset(folder.parents[1] / "l5kit" / "d.zarr").open().scenes
    assert set(scenes["host"]) == {"bob"}


def test_the_vehicle_is_the_one_that_is_configured(runs: Runs) -> None:
    told = {
        "length_m": 4.5,
        "width_m": 1.8,
        "height_m": 1.6,
        "platform": "van",
        "rear_axle_m": [-1.3, 0.0, -0.4],
        "rear_overhang_m": 0.9,
    }
    _, folder = runs.run("van", formats=["ncore"], vehicle=told, select={"every": 3})
    (path,) = (folder.parents[1] / "ncore").glob("*/*.json")
    found = json.loads(path.read_text(encoding="utf-8"))
    meta, (store, *_) = found["generic_meta_data"], found["component_stores"]
    assert meta["platform_class"] == "van"
    assert meta["vehicle-bbox"]["centroid"] == [1.35, 0.0, 0.8]
    assert meta["vehicle-bbox"]["dim"] == [4.5, 1.8, 1.6]
    assert meta["pictures"] == "one of 3"
    poses = store["components"]["poses"]["default"]["generic_meta_data"]
    assert poses["rig_origin"] == "middle of the rear axle on the ground"


def test_classes_are_called_in_every_format_as_was_asked_for(runs: Runs) -> None:
    names, formats = {"car": "motorcycle"}, ["edgefirst", "ncore", "l5kit"]
    _, folder = runs.run("classes", formats=formats, class_names=names)
    written = Written(folder).table
    found = set(map(str, written["label"].drop_nulls()))
    assert "motorcycle" in found
    assert "car" not in found
    (sequence,) = (folder.parents[1] / "ncore").iterdir()
    boxed = {
        str(label)
        for store in FORMATS["ncore"].read(sequence).values()
        for key in store
        if key.endswith("/boxes2d_label/.zarray")
        for label in read_array(store.get, key.removesuffix("/.zarray")).tolist()
    }
    assert "motorcycle" in boxed
    assert "car" not in boxed
    agents = ChunkedDataset(folder.parents[1] / "l5kit" / "d.zarr").open().agents[:]
    labels = set(agents["label_probabilities"].argmax(axis=1).tolist())
    assert AgentLabel.MOTORCYCLE.index in labels
    assert AgentLabel.CAR.index not in labels


def test_every_option_has_a_test() -> None:
    assert {name for name in ALL if not name.startswith("topics.")} == TESTED.keys()
    for option, place in TESTED.items():
        file, _, test = place.partition("::")
        text = (REPOSITORY / "test" / file).read_text(encoding="utf-8")
        assert test in {each.name for each in ast.walk(ast.parse(text)) if isinstance(each, ast.FunctionDef)}
        assert re.search(rf"\b{option.rpartition('.')[2]}\b", text), f"{file} does not set {option}"


@pytest.mark.parametrize("option", ALL)
def test_every_option_says_when_to_touch_it(option: str) -> None:
    assert IMPERATIVE.search(ALL[option]), ALL[option]


def test_every_option_is_on_a_page_that_a_person_wrote() -> None:
    pages = [
        page
        for page in (REPOSITORY / "docs").glob("*.md")
        if page.name not in {"configuration.md", "simulator.md"}
    ]
    text = "\n".join(page.read_text(encoding="utf-8") for page in pages)
    code = "\n".join(re.findall(r"```.*?```|`[^`\n]+`", text, re.DOTALL))
    names = {option.rpartition(".")[2] for option in ALL}
    assert not {name for name in names if not re.search(rf"(?<![\w-]){name}(?!\w)", code)}


def test_what_the_models_say_is_what_the_command_line_and_launch_are_given() -> None:
    told = tool("told")
    assert told.TOLD.read_text(encoding="utf-8") == told.told(), "run: make reference"
    said = json.loads(told.TOLD.read_text(encoding="utf-8"))
    assert said["config"]["rate_hz"]["is"] == ALL["rate_hz"]
    for file in ("capture", "replay"):
        launch = (REPOSITORY / "launch" / f"{file}.launch.py").read_text(encoding="utf-8")
        (names,) = re.findall(r"^OWN = (\(.+\))$", launch, re.MULTILINE)
        assert all(name in said[file] or name in said["config"] for name in ast.literal_eval(names))
