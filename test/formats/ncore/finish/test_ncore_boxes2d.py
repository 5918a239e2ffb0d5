"""2-D boxes in the generic data of their picture, and what becomes of those without one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from ncoremade import CALIBRATION, HEIGHT, SEQUENCE, START_NS, WIDTH, camera, observation
from ncoreread import Sequence, recover_all
from places import contents

from edgefirst_ros.formats.datasets import check
from edgefirst_ros.formats.ncore.finish import sequence as finish
from edgefirst_ros.formats.ncore.options import NCoreOptions
from edgefirst_ros.formats.ncore.write.writer import SPLIT_US, NCoreWriter
from edgefirst_ros.model.detection import Box, Detections, Mask, ModelInfo
from edgefirst_ros.model.sample import Observation, Role

MS = 1_000_000
START_US = START_NS // 1000
CLASSES = replace(CALIBRATION, model_info=ModelInfo("m", ("person", "car", "lorry")))
COLUMNS = ("", "_class_id", "_label", "_score", "_track_id", "_distance_m", "_speed_m_s")


def flat(x: float, y: float, label: str = "car", track: str = "8f3a") -> Box:
    """A box around (x, y), shares of the picture, a quarter of it wide and half of it high."""
    return Box(x, y, 0.25, 0.5, label, 0.75, 12.5, -3.0, track, 1, 0)


def model(ms: float, *boxes: Box, topic: str = "/model/output", masks: int = 0) -> Observation:
    drawn = tuple(Mask(np.zeros((2, 2, 1), np.uint8), boxed=False) for _ in range(masks))
    at = START_NS + round(ms * MS)
    datum = Detections(boxes, drawn)
    return observation(Role.MODEL, topic, at, datum, "camera_optical", calibration=CLASSES)


def pictures(*ms: int) -> list[Observation]:
    return [camera(START_NS + at * MS) for at in ms]


def write(
    root: Path,
    steps: Iterable[Observation],
    *,
    kill: bool = False,
    split_us: int = SPLIT_US,
    **options: object,
) -> NCoreWriter:
    writer = NCoreWriter(root, NCoreOptions(**options), split_us=split_us)  # type: ignore[arg-type]
    writer.begin(SEQUENCE)
    for step in steps:
        written = writer.write(writer.prepare(step))
        assert (written.topics, written.refused) == ((step.measurement.topic,), ())
    writer.abort() if kill else writer.close()
    return writer


def read(root: Path) -> Sequence:
    return Sequence(root / SEQUENCE.name)


def arrays(
    sequence: Sequence, ms: int, name: str = "boxes2d", camera_: str = "camera_optical"
) -> dict[str, Any]:
    """Every array of the boxes of a frame; empty where it has none."""
    group = f"cameras/{camera_}/frames/{START_US + ms * 1000}/generic_data"
    return {
        column: sequence.array(f"{group}/{name}{column}")
        for column in COLUMNS
        if f"{group}/{name}{column}/.zarray" in sequence.records
    }


def test_a_frame_has_the_boxes_that_were_seen_in_it(tmp_path: Path) -> None:
    first, second = flat(0.5, 0.5), flat(0.125, 0.25, "2", "")
    steps = [
        *pictures(0),
        model(0, first, second),
        model(50, flat(0.0, 0.0, "dragon")),
        *pictures(50, 100, 150),
    ]
    steps.append(model(100))
    writer = write(tmp_path, steps)
    sequence = read(tmp_path)
    found = arrays(sequence, 0)
    assert found[""].tolist() == [[24, 12, 40, 36], [0, 0, 16, 24]]
    assert found["_class_id"].tolist() == [1, 2]
    assert found["_label"].tolist() == ["car", "lorry"]
    assert found["_score"].tolist() == [0.75, 0.75]
    assert found["_track_id"].tolist() == ["8f3a", ""]
    assert found["_distance_m"].tolist() == [12.5, 12.5]
    assert found["_speed_m_s"].tolist() == [-3.0, -3.0]
    early = arrays(sequence, 50)
    assert (early["_class_id"].tolist(), early["_label"].tolist()) == ([-1], ["dragon"])
    assert early[""].tolist() == [[-8, -12, 8, 12]], "a box may reach beyond the picture"
    nothing, unseen = arrays(sequence, 100), arrays(sequence, 150)
    assert set(nothing) == set(COLUMNS)
    assert nothing[""].shape == (0, 4)
    assert unseen == {}
    group = f"cameras/camera_optical/frames/{START_US}/generic_data"
    assert sequence.attributes(group)["boxes2d"]["timestamp_us"] == START_US
    meta = sequence.attributes("cameras/camera_optical")["generic_meta_data"]["boxes2d"]
    assert (meta["topics"], meta["classes"]) == ({"boxes2d": "/model/output"}, ["person", "car", "lorry"])
    assert writer.notes == ()
    (checked,) = check(tmp_path)
    assert checked.ok, checked.text


def test_the_nearest_picture_within_the_tolerance_and_one_message_a_picture(tmp_path: Path) -> None:
    """Of two messages near one picture the nearer has it; one out of reach is kept without a picture."""
    steps = [
        *pictures(0, 33, 66),
        model(3, flat(0.5, 0.5)),
        model(30, flat(0.25, 0.5)),
        model(36.5, flat(0.75, 0.5)),
    ]
    writer = write(tmp_path, [*steps, model(200, flat(0.5, 0.5, "person")), model(300)])
    sequence = read(tmp_path)
    assert arrays(sequence, 0)[""][0].tolist() == [24, 12, 40, 36]
    assert arrays(sequence, 33)[""][0].tolist() == [8, 12, 24, 36]
    assert arrays(sequence, 66) == {}
    base = "cuboids/default/generic_data/boxes2d_unpaired"
    assert sequence.array(base).tolist() == [[0.625, 0.25, 0.875, 0.75], [0.375, 0.25, 0.625, 0.75]]
    times = [START_US + 36_500, START_US + 200_000]
    assert sequence.array(f"{base}_timestamps_us").tolist() == times
    assert sequence.array(f"{base}_messages_us").tolist() == [*times, START_US + 300_000]
    assert sequence.array(f"{base}_label").tolist() == ["car", "person"]
    (note,) = writer.notes
    assert "3 of 5 messages of /model/output have no picture within 16 ms" in note


def test_boxes_that_never_meet_a_picture_are_a_warning(tmp_path: Path) -> None:
    writer = write(tmp_path, [*pictures(0), model(90, flat(0.5, 0.5))])
    assert any("1 of 1 messages of /model/output" in warning for warning in writer.warnings)
    alone = write(tmp_path / "alone", [model(0, flat(0.5, 0.5))])
    assert any("1 of 1 messages" in warning for warning in alone.warnings)
    assert len(read(tmp_path / "alone").array("cuboids/default/generic_data/boxes2d_unpaired")) == 1


def test_pictures_that_come_late_are_in_the_sequence_of_their_time(tmp_path: Path) -> None:
    """Pairing holds pictures back: those from before a split come after it, their boxes before it."""
    late = [
        step for ms in range(0, 400, 50) for step in (model(ms, flat(0.5, 0.5)), *pictures(ms - 100)) if ms
    ]
    writer = write(tmp_path, [*late, *pictures(300, 350)], split_us=200_000)
    assert writer.notes == ()
    first, second = (Sequence(tmp_path / name) for name in (SEQUENCE.name, f"{SEQUENCE.name}-001"))
    for sequence, times in ((first, (-50, 0, 50, 100, 150, 200)), (second, (250, 300, 350))):
        frames = [end_us for _, end_us in sequence.frames("cameras/camera_optical")]
        assert frames == [START_US + ms * 1000 for ms in times]
        for ms in times:
            assert bool(arrays(sequence, ms)) == (ms > 0), ms


def test_a_model_of_masks_alone_has_not_looked_for_boxes(tmp_path: Path) -> None:
    steps = [*pictures(0, 50), model(0, masks=1), model(50, masks=1)]
    write(tmp_path / "masks", steps)
    assert arrays(read(tmp_path / "masks"), 0) == {}
    write(tmp_path / "both", [*pictures(0, 50), model(0, masks=1), model(50, flat(0.5, 0.5), masks=1)])
    assert arrays(read(tmp_path / "both"), 0)[""].shape == (0, 4)


def test_two_models_are_told_apart(tmp_path: Path) -> None:
    steps = [*pictures(0), model(0, flat(0.5, 0.5)), model(1, flat(0.25, 0.5), topic="/model/boxes2d")]
    write(tmp_path, steps)
    sequence = read(tmp_path)
    assert arrays(sequence, 0)[""][0].tolist() == [24, 12, 40, 36]
    assert arrays(sequence, 0, "boxes2d_model_boxes2d")[""][0].tolist() == [8, 12, 24, 36]
    (checked,) = check(tmp_path)
    assert checked.ok, checked.text


def test_the_tiles_of_a_picture_have_what_reaches_into_them(tmp_path: Path) -> None:
    """The model looks at the whole picture; each tile is a quarter of it."""

    def tile(name: str, topic: str) -> Observation:
        found = camera(START_NS)
        return replace(found, measurement=found.measurement._replace(topic=topic, frame_id=name))

    names = {tile: f"camera_optical_{tile}" for tile in ("topleft", "topright", "bottomleft", "bottomright")}
    steps = [tile(name, f"/camera/{short}") for short, name in names.items()]
    write(tmp_path, [*steps, model(0, flat(0.5, 0.25, "car"), flat(0.875, 0.75, "person"))])
    sequence = read(tmp_path)
    found = {short: arrays(sequence, 0, camera_=name) for short, name in names.items()}
    assert {short: each["_label"].tolist() for short, each in found.items()} == {
        "topleft": ["car"], "topright": ["car"], "bottomleft": [], "bottomright": ["person"],
    }  # fmt: skip
    assert found["topleft"][""].tolist() == [[2 * WIDTH * 0.375, 0, 2 * WIDTH * 0.625, HEIGHT]]
    assert found["topright"][""].tolist() == [[-WIDTH * 0.25, 0, WIDTH * 0.25, HEIGHT]]
    assert found["bottomright"][""].tolist() == [[WIDTH * 0.5, 0, WIDTH, HEIGHT]]


@pytest.mark.parametrize("store", ["itar", "directory"])
@pytest.mark.parametrize("profile", ["separate-sensors", "single"])
def test_boxes_outlive_the_writer_wherever_it_is_killed(
    store: str, profile: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps = [*pictures(0), model(0, flat(0.5, 0.5)), *pictures(50), model(50), model(400, flat(0.25, 0.5))]
    options = {"store": store, "profile": profile}
    write(tmp_path / "closed", steps, **options)
    write(tmp_path / "killed", steps, kill=True, **options)
    torn = NCoreWriter(tmp_path / "torn", NCoreOptions(**options))  # type: ignore[arg-type]
    torn.begin(SEQUENCE)
    for step in steps:
        torn.write(torn.prepare(step))
    with monkeypatch.context() as patch:
        patch.setattr(finish, "_close_defaults", _die)
        with pytest.raises(KeyboardInterrupt):
            torn.close()
    closed = contents(tmp_path / "closed")
    for name in ("killed", "torn"):
        (kept,) = recover_all(tmp_path / name)
        assert kept.kept["cameras/camera_optical"] == 2
        assert contents(tmp_path / name) == closed


def _die(*_: object) -> npt.NDArray[Any]:
    raise KeyboardInterrupt
