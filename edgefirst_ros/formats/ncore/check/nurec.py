"""What NuRec asks of a sequence, point by point: fulfilled, not fulfilled, or nothing that data can tell.

Sources: NVIDIA's conventions of NCore, its guide to NuRec's data quality, and instant-nurec's loader.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from edgefirst_ros.formats.format import Findings, Point, Verdict
from edgefirst_ros.formats.ncore.check.instances import Edge, Instance, read_edges
from edgefirst_ros.formats.ncore.finish.components import BASIS, DEFAULT
from edgefirst_ros.formats.ncore.finish.facts import RIG_ORIGIN, VEHICLE_BOX
from edgefirst_ros.formats.ncore.poses import ASSUMED, RIG, WORLD
from edgefirst_ros.model.pictures import open_picture
from edgefirst_ros.model.transform import interpolated, product, quaternion_of

MOST_TURN_DEG, MOST_MOVE_CM = 0.5, 2.5
"""Of the motion from one frame to the next: what NVIDIA's guide to data quality allows."""
MOST_GAP_MS = 50.0
"""Between poses: half a sweep of the usual lidar of 10 Hz, and never more than a sweep."""
NEAR_RIG_M = 3.0
"""A cuboid whose middle is nearer to the rig's origin is taken for the own vehicle."""
MOVED_M = 1.5
"""What travels farther is dynamic, whatever its class."""
DYNAMIC = frozenset({
    *("pedestrian", "stroller", "person", "person_group", "rider", "bicycle_with_rider", "bicycle"),
    *("CYCLIST", "motorcycle", "motorcycle_with_rider", "cycle"),
})  # fmt: skip
"""Classes that are dynamic at rest, too, as they must be spelled."""
LOADED_SOURCE = "AUTOLABEL"
"""The label source that the loader takes unless it is told another one."""
_MOST_MASKED = 0.5
"""A vehicle that hides more of a picture has an inverted mask more likely than a camera inside."""
_ON_GROUND_M = 0.1
"""How far the bottom of the vehicle's box may be from the rig's origin, which is on the ground."""
_STEP_S, _HALF_WINDOW = 0.05, 10
"""Motion is smooth that a cubic describes over a second: its fourth derivative of 10 m/s⁴ leaves 5 mm."""
_FRAME_S = 0.1
"""From frame to frame where no picture says how far apart frames are."""
_MISSED = 1.5
"""A gap of so many usual ones lacks a picture."""
Floats = npt.NDArray[np.float64]
Times = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Judged:
    """A sequence to be judged: its instances, and the metadata that all stores share."""

    instances: Sequence[Instance]
    meta: Mapping[str, Any]

    def of(self, component: str) -> list[Instance]:
        """All instances of a component."""
        return [each for each in self.instances if each.component == component]

    def default(self, component: str) -> Instance | None:
        """The instance that every sequence has once."""
        return next((each for each in self.of(component) if each.name == DEFAULT), None)

    def meta_of(self, component: str) -> Mapping[str, Any]:
        """Metadata of that instance."""
        found = self.default(component)
        meta = {} if found is None else found.attributes().get("generic_meta_data", {})
        return meta if isinstance(meta, dict) else {}

    @cached_property
    def edges(self) -> Mapping[Edge, tuple[npt.NDArray[Any], Times | None]]:
        """Poses, and times of those that move, by source and target."""
        found = self.default("poses")
        read = () if found is None else read_edges(found, Findings())
        return {edge: (poses, times_us) for edge, poses, times_us in read}

    @cached_property
    def frames(self) -> Mapping[str, Times]:
        """Start and end (N, 2) of every sensor's frames, by path."""
        sensors = (each for name in ("cameras", "lidars", "radars") for each in self.of(name))
        return {each.path: each.frames() for each in sensors}


def points(sequence: Judged) -> Iterator[Point]:
    """Every point, in the order in which one would mend them."""
    yield _ego_masks(sequence)
    yield _rig_origin(sequence)
    yield from _calibration(sequence)
    yield _egomotion(sequence)
    yield _coverage(sequence)
    yield _pictures(sequence)
    yield from _cuboids(sequence)


def _verdict(fulfilled: bool | None) -> Verdict:
    return "unknown" if fulfilled is None else "fulfilled" if fulfilled else "not fulfilled"


def _ego_masks(sequence: Judged) -> Point:
    masks = sequence.default("masks")
    shares: dict[str, float | None] = {
        each.name: None if masks is None else _masked(masks, each.name) for each in sequence.of("cameras")
    }
    said = [f"{name} {'none' if share is None else f'{share:.1%} masked'}" for name, share in shares.items()]
    missing = [name for name, share in shares.items() if share is None]
    most = [name for name, share in shares.items() if share is not None and share > _MOST_MASKED]
    advice = ""
    if missing:
        advice = f"give ncore.ego_masks a mask called ego for {', '.join(missing)}"
    elif most:
        advice = f"look at the mask of {', '.join(most)}: what is not 0 is the vehicle, the rest is seen"
    return Point(
        "ego_masks", _verdict(not (missing or most) if shares else None), ", ".join(said) or "no camera",
        advice, {"masked": shares},
    )  # fmt: skip


def _masked(masks: Instance, camera: str) -> float | None:
    """Share of a camera's picture that its ego mask hides, None without one."""
    group = f"cameras/{camera}"
    if "ego" not in masks.attributes(group).get("mask_names", []):
        return None
    with open_picture(masks.array(f"{group}/ego").item()) as image:
        return float(np.count_nonzero(np.asarray(image.convert("L")))) / (image.width * image.height)


def _rig_origin(sequence: Judged) -> Point:
    advice = "set vehicle.rear_axle_m: the rig's origin is the middle of the rear axle on the ground"
    if told := sequence.meta_of("poses").get(RIG_ORIGIN):
        return Point("rig_origin", "fulfilled", f"given: {told}", figures={RIG_ORIGIN: told})
    box: Any = sequence.meta.get(VEHICLE_BOX)
    if box is None or "rear_axle_m" in sequence.meta.get("vehicle_assumed", ()):
        return Point("rig_origin", "unknown", "assumed: nothing says where the origin is", advice)
    (x, y, z), (length, width, height) = box["centroid"], box["dim"]
    bottom_m = z - height / 2
    inside = abs(x) <= length / 2 and abs(y) <= width / 2
    fits = inside and abs(bottom_m) <= _ON_GROUND_M
    found = (
        f"the vehicle's box reaches from {x - length / 2:.2f} to {x + length / 2:.2f} m, {bottom_m:+.2f} m up"
    )
    return Point("rig_origin", _verdict(fits), found, "" if fits else advice, {"vehicle_bottom_m": bottom_m})


def _calibration(sequence: Judged) -> Iterator[Point]:
    transforms = "publish transforms, or give mount: {xyz_m, rpy_deg} in topics"
    infos = "publish a camera_info for each camera"
    for name, component, key, asked, advice in (
        ("extrinsics", "poses", "assumed_extrinsics", "0.5° and 2 cm", transforms),
        ("intrinsics", "intrinsics", "assumed", "1 px", infos),
    ):
        assumed = sorted(sequence.meta_of(component).get(key, ()))
        if assumed:
            found = f"assumed: {', '.join(assumed)}"
            yield Point(name, "not fulfilled", found, advice, {"assumed": assumed})
        else:
            found = f"given; their error, at most {asked}, is not seen"
            yield Point(name, "unknown", found, "look at lidar points in the pictures", {"assumed": []})


def _egomotion(sequence: Judged) -> Point:
    poses, times_us = sequence.edges.get((RIG, WORLD), (np.zeros((0, 4, 4)), None))
    advice = "record IMU and GPS, or odometry; look at the trajectory's warnings"
    if times_us is None:
        return Point("egomotion", "not fulfilled", "the rig does not move: its pose is static", advice)
    known = np.all([_known(sequence, part, len(times_us)) for part in ("position", "rotation")], axis=0)
    share = float(known.mean()) if len(known) else 0.0
    frame_s = _frame_s(sequence)
    turn_deg, move_cm = _off_smooth(times_us[known], poses[known].astype(np.float64), frame_s)
    figures = {"rotation_p95_deg": turn_deg, "translation_p95_cm": move_cm}
    figures |= {"frame_s": frame_s, "known": share}
    if not np.isfinite([move_cm, turn_deg]).all():
        found = f"poses are known for {share:.0%} of the time, too little to say"
        return Point("egomotion", "not fulfilled" if share < 1 else "unknown", found, advice, figures)
    found = f"p95 off smooth motion in {frame_s:.2f} s: {turn_deg:.2f}°, {move_cm:.1f} cm; {share:.0%} known"
    fits = turn_deg < MOST_TURN_DEG and move_cm < MOST_MOVE_CM and share == 1
    return Point("egomotion", _verdict(fits), found, "" if fits else advice, figures)


def _known(sequence: Judged, part: str, count: int) -> npt.NDArray[np.bool_]:
    """Which poses' position or rotation is not assumed; poses of other writers do not say."""
    poses = sequence.default("poses")
    try:
        basis = None if poses is None else poses.array(f"generic_data/{RIG}_{WORLD}_{part}_basis")
    except (KeyError, ValueError):
        basis = None
    return np.ones(count, np.bool_) if basis is None or basis.shape != (count,) else basis != ASSUMED


def _frame_s(sequence: Judged) -> float:
    """Usual time from a frame of the fastest camera to the next."""
    cameras = [times[:, 0] for path, times in sequence.frames.items() if path.startswith("cameras/")]
    steps = [float(np.median(np.diff(starts))) / 1e6 for starts in cameras if len(starts) > 1]
    return max(min(steps), _STEP_S) if steps else _FRAME_S


def _off_smooth(times_us: Times, poses: Floats, frame_s: float) -> tuple[float, float]:
    """What a cubic over the second around does not describe of turn and way from frame to frame.

    Of each what 95 % are below, in degrees and centimetres; NaN where too little is known.
    """
    at = np.arange(-_HALF_WINDOW, _HALF_WINDOW + 1) / _HALF_WINDOW
    weights = np.linalg.pinv(np.vander(at, 4))[-1]  # of the constant term, the value in the middle
    apart = max(1, round(frame_s / _STEP_S))
    cuts = np.flatnonzero(np.diff(times_us) > 4 * MOST_GAP_MS * 1000) + 1
    found: tuple[list[Floats], list[Floats]] = ([], [])
    for run in np.split(np.arange(len(times_us)), cuts):
        seconds = (times_us[run] - times_us[run[:1]]) / 1e6
        if len(run) < 2 or seconds[-1] <= 2 * _HALF_WINDOW * _STEP_S:
            continue
        wanted = np.arange(0.0, seconds[-1], _STEP_S)
        turned = interpolated(seconds, quaternion_of(poses[run, :3, :3]), wanted)
        steps = product(turned[:-1] * (-1, -1, -1, 1), turned[1:])
        angles = np.cumsum(np.degrees(2 * steps[:, :3] * np.sign(steps[:, 3:])), axis=0)  # small ones
        way = np.stack([np.interp(wanted, seconds, axis) for axis in poses[run, :3, 3].T], axis=1) * 100
        for values, kept in zip((angles, way), found, strict=True):
            windows = np.lib.stride_tricks.sliding_window_view(values, len(at), axis=0)
            off = values[_HALF_WINDOW:-_HALF_WINDOW] - windows @ weights
            kept.append(np.linalg.norm(off[apart:] - off[:-apart], axis=1))
    lengths = [np.concatenate([*each, np.zeros(0)]) for each in found]
    turn_deg, move_cm = (float(np.percentile(each, 95)) if len(each) else np.nan for each in lengths)
    return turn_deg, move_cm


def _coverage(sequence: Judged) -> Point:
    _, times_us = sequence.edges.get((RIG, WORLD), (None, None))
    if times_us is None:
        return Point("pose_coverage", "not fulfilled", "the rig's pose is static")
    gap_ms = float(np.diff(times_us).max(initial=0)) / 1000
    fits = gap_ms <= MOST_GAP_MS
    advice = "" if fits else f"record navigation without gaps of more than {MOST_GAP_MS:g} ms"
    found = f"largest gap between poses {gap_ms:.0f} ms"
    return Point("pose_coverage", _verdict(fits), found, advice, {"largest_gap_ms": gap_ms})


def _pictures(sequence: Judged) -> Point:
    selected = sequence.meta.get("pictures")
    said, figures = [], {}
    for each in sequence.of("cameras"):
        steps = np.diff(sequence.frames[each.path][:, 0])
        usual_us = max(float(np.median(steps)), 1.0) if len(steps) else 1.0
        late = steps[steps > _MISSED * usual_us]
        missed = int((np.rint(late / usual_us) - 1).sum())
        rate_hz = 1e6 / usual_us if len(steps) else 0.0
        figures[each.name] = {"rate_hz": rate_hz, "pictures": len(steps) + 1, "missed": missed}
        said.append(f"{each.name} {len(steps) + 1} at {rate_hz:.1f} Hz, {missed} missing")
    if not figures:
        return Point("pictures", "unknown", "no camera")
    found = "; ".join(said) + (f"; {selected}" if selected else "")
    if selected not in {None, "all"}:
        return Point("pictures", "not fulfilled", found, "convert every picture", figures)
    if any(each["missed"] for each in figures.values()):
        advice = "look in the report where pictures were lost"
        return Point("pictures", "not fulfilled", found, advice, figures)
    return Point("pictures", _verdict(True if selected else None), found, figures=figures)


def _cuboids(sequence: Judged) -> Iterator[Point]:
    instance = sequence.default("cuboids")
    seen = [] if instance is None else instance.attributes("cuboids").get("cuboid_track_observations", [])
    lengths, classes = Counter(str(each["track_id"]) for each in seen), dict[str, str]()
    for each in seen:
        classes.setdefault(str(each["track_id"]), str(each["class_id"]))
    sources = {str(each.get("source")) for each in seen}
    single = sum(count == 1 for count in lengths.values())
    near = sum(_rig_distance_m(sequence, each) < NEAR_RIG_M for each in seen)
    found = f"{len(seen)} in {len(lengths)} tracks, {single} seen once, {near} nearer than {NEAR_RIG_M:g} m"
    if basis := sequence.meta_of("cuboids").get(BASIS):
        found = f"{found}; {basis}"
    figures = {"cuboids": len(seen), "tracks": len(lengths), "seen_once": single, "near": near}
    fits = single < len(lengths) and sources == {LOADED_SOURCE}
    advice = "" if fits else "record a model's 3-D boxes with tracks"
    if lengths and sources != {LOADED_SOURCE}:
        advice = f"the loader takes {LOADED_SOURCE}; tell it {', '.join(sorted(sources))}"
    yield Point("cuboids", _verdict(fits), found, advice, figures)
    known = sorted({*classes.values()} & DYNAMIC)
    others = sorted({*classes.values()} - DYNAMIC)
    named = ", ".join(known) or "none"
    told = f"dynamic at rest, too: {named}; beyond {MOVED_M:g} m: {', '.join(others) or 'none'}"
    advice = f"class_names gives others one of the names that NuRec knows: {', '.join(sorted(DYNAMIC))}"
    yield Point("classes", "unknown", told, advice if others else "", {"dynamic": known, "others": others})


def _rig_distance_m(sequence: Judged, cuboid: Mapping[str, Any]) -> float:
    """How far a cuboid's middle is from the rig's origin; of a frame that moves, from that frame's."""
    poses, times_us = sequence.edges.get((cuboid["reference_frame_id"], RIG), (np.eye(4)[None], None))
    pose = poses[0] if times_us is None else np.eye(4)
    return float(np.linalg.norm(pose[:3, :3] @ cuboid["bbox3"]["centroid"] + pose[:3, 3]))
