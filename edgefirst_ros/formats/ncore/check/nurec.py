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
from edgefirst_ros.formats.ncore.check.frames import Edge, Instance, known_poses, read_edges
from edgefirst_ros.formats.ncore.finish.components import BASIS, DEFAULT
from edgefirst_ros.formats.ncore.finish.provenance import RIG_ORIGIN, STEREO_PAIRS, VEHICLE_BOX
from edgefirst_ros.formats.ncore.poses import GLOBAL_DTYPE, POSE_DTYPE, RIG, WORLD, WORLD_GLOBAL
from edgefirst_ros.formats.ncore.store.files import MOST_RAY_BYTES
from edgefirst_ros.formats.zarr2.metadata import ARRAY_KEY
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
_SPELLED = {
    **{name.lower(): name for name in DYNAMIC},
    **dict.fromkeys(("people", "human", "man", "woman", "child", "walker"), "person"),
    **dict.fromkeys(("bike", "pedalcycle"), "bicycle"),
    **dict.fromkeys(("motorbike", "motorcyclist", "moped", "scooter"), "motorcycle"),
    **dict.fromkeys(("bicyclist", "cyclist"), "CYCLIST"),
}
"""What labels of the same things are in those words."""
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
_SWEEPS = 16
"""Sweeps of each lidar whose rays are looked at."""
_SPREAD = 0.5
"""Rays of a spinning lidar take nearly the whole period; over less than half of it nothing spins."""
_START_US = 2_000
"""How much later than its frame the first ray of a sweep may be."""

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
        return {
            each.path: np.array(each.attributes("frames").get("frames_timestamps_us", []), np.int64).reshape(
                -1, 2
            )
            for each in sensors
        }


def points(sequence: Judged) -> Iterator[Point]:
    """Every point, in the order in which one would mend them."""
    yield _ego_masks(sequence)
    yield _rig_origin(sequence)
    yield from _calibration(sequence)
    yield _egomotion(sequence)
    yield _coverage(sequence)
    yield _pose_types(sequence)
    yield _pictures(sequence)
    yield _lidar(sequence)
    yield from _cuboids(sequence)
    yield _stereo(sequence)
    yield _provenance(sequence)


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
    for name, asked, advice in (
        ("extrinsics", "0.5° and 2 cm", "publish transforms, or give xyz_m and rpy_deg in topics"),
        ("intrinsics", "1 px", "publish a camera_info for each camera"),
    ):
        key = "poses" if name == "extrinsics" else "intrinsics"
        meta = sequence.meta_of(key)
        assumed = sorted(meta.get("assumed_extrinsics" if key == "poses" else "assumed", ()))
        found = (
            f"assumed: {', '.join(assumed)}"
            if assumed
            else f"given; their error, at most {asked}, is not seen"
        )
        told = advice if assumed else "look at lidar points in the pictures"
        yield Point(name, "not fulfilled" if assumed else "unknown", found, told, {"assumed": assumed})


def _egomotion(sequence: Judged) -> Point:
    poses, times_us = sequence.edges.get((RIG, WORLD), (np.zeros((0, 4, 4)), None))
    advice = "record IMU and GPS, or odometry; look at the trajectory's warnings"
    if times_us is None:
        return Point("egomotion", "not fulfilled", "the rig does not move: its pose is static", advice)
    instance = sequence.default("poses")
    moving, turning = (
        np.arange(len(times_us)) if instance is None else known_poses(instance, part, len(times_us))
        for part in ("position", "rotation")
    )
    share = min(len(moving), len(turning)) / max(len(times_us), 1)
    frame_s = _frame_s(sequence)
    move_cm = _jump(times_us[moving], poses[moving, :3, 3].astype(np.float64), frame_s) * 100
    turn_deg = np.degrees(_turn(times_us[turning], poses[turning, :3, :3].astype(np.float64), frame_s))
    figures = {
        "rotation_p95_deg": float(turn_deg), "translation_p95_cm": float(move_cm),
        "frame_s": frame_s, "known": share,
    }  # fmt: skip
    if not np.isfinite([move_cm, turn_deg]).all():
        found = f"poses are known for {share:.0%} of the time, too little to say"
        return Point("egomotion", "not fulfilled" if share < 1 else "unknown", found, advice, figures)
    found = f"p95 off smooth motion in {frame_s:.2f} s: {turn_deg:.2f}°, {move_cm:.1f} cm; {share:.0%} known"
    fits = turn_deg < MOST_TURN_DEG and move_cm < MOST_MOVE_CM and share == 1
    return Point("egomotion", _verdict(fits), found, "" if fits else advice, figures)


def _frame_s(sequence: Judged) -> float:
    """Usual time from a frame of the fastest camera to the next."""
    steps = [
        float(np.median(np.diff(times[:, 0]))) / 1e6
        for path, times in sequence.frames.items()
        if path.startswith("cameras/") and len(times) > 1
    ]
    return max(min(steps), _STEP_S) if steps else _FRAME_S


def _off_smooth(values: Floats) -> Floats:
    """What a cubic over the second around each row (M, 3) of regular ones does not describe."""
    at = np.arange(-_HALF_WINDOW, _HALF_WINDOW + 1) / _HALF_WINDOW
    weights = np.linalg.pinv(np.vander(at, 4))[-1]  # of the constant term, the value in the middle
    windows = np.lib.stride_tricks.sliding_window_view(values, len(at), axis=0)
    off: Floats = values[_HALF_WINDOW:-_HALF_WINDOW] - windows @ weights
    return off


def _runs(times_us: Times) -> Iterator[slice]:
    """Stretches without a gap, of a window and more."""
    cuts = np.flatnonzero(np.diff(times_us) > 4 * MOST_GAP_MS * 1000) + 1
    for first, last in zip([0, *cuts.tolist()], [*cuts.tolist(), len(times_us)], strict=True):
        if last - first > 1 and times_us[last - 1] - times_us[first] > 2 * _HALF_WINDOW * _STEP_S * 1e6:
            yield slice(first, last)


def _p95(steps: Sequence[Floats]) -> float:
    lengths = np.concatenate([np.linalg.norm(each, axis=1) for each in steps]) if steps else np.zeros(0)
    return float(np.percentile(lengths, 95)) if len(lengths) else np.nan


def _grid(times_us: Times) -> tuple[Floats, Floats]:
    """Seconds since the first, and regular ones between."""
    seconds = (times_us - times_us[0]) / 1e6
    return seconds, np.arange(0.0, seconds[-1], _STEP_S)


def _steps(off: Floats, frame_s: float) -> Floats:
    apart = max(1, round(frame_s / _STEP_S))
    return off[apart:] - off[:-apart]


def _jump(times_us: Times, places_m: Floats, frame_s: float) -> float:
    """Of the errors of motion from frame to frame the one that 95 % are below, in metres."""
    found = []
    for run in _runs(times_us):
        seconds, wanted = _grid(times_us[run])
        regular = np.stack([np.interp(wanted, seconds, axis) for axis in places_m[run].T], axis=1)
        found.append(_steps(_off_smooth(regular), frame_s))
    return _p95(found)


def _turn(times_us: Times, rotations: Floats, frame_s: float) -> float:
    """Likewise of rotations, in radians: their turns from one to the next, summed along the body's axes."""
    found = []
    for run in _runs(times_us):
        seconds, wanted = _grid(times_us[run])
        turned = interpolated(seconds, quaternion_of(rotations[run]), wanted)
        steps = product(turned[:-1] * (-1, -1, -1, 1), turned[1:])
        angles = 2 * steps[:, :3] * np.sign(steps[:, 3:])  # small ones
        found.append(_steps(_off_smooth(np.cumsum(angles, axis=0)), frame_s))
    return _p95(found)


def _coverage(sequence: Judged) -> Point:
    _, times_us = sequence.edges.get((RIG, WORLD), (None, None))
    frames = [times for times in sequence.frames.values() if len(times)]
    if times_us is None or not frames:
        what = "no frames" if times_us is not None else "the rig's pose is static"
        return Point("pose_coverage", _verdict(None if times_us is not None else False), what)
    ends = np.concatenate([times.ravel() for times in frames])
    outside = int(np.count_nonzero((ends < times_us[0]) | (ends > times_us[-1])))
    gap_ms = float(np.diff(times_us).max(initial=0)) / 1000
    found = (
        f"{outside} of {len(ends)} begins and ends of frames outside the poses; largest gap {gap_ms:.0f} ms"
    )
    fits = not outside and gap_ms <= MOST_GAP_MS
    return Point(
        "pose_coverage", _verdict(fits), found,
        "" if fits else f"record navigation without gaps of more than {MOST_GAP_MS:g} ms",
        {"outside": outside, "largest_gap_ms": gap_ms},
    )  # fmt: skip


def _pose_types(sequence: Judged) -> Point:
    wrong = [
        f"{source} to {target} {poses.dtype}"
        for (source, target), (poses, _) in sequence.edges.items()
        if poses.dtype != (GLOBAL_DTYPE if (source, target) == (WORLD, WORLD_GLOBAL) else POSE_DTYPE)
    ]
    found = f"{len(sequence.edges) - len(wrong)} of {len(sequence.edges)} poses as asked"
    told = f"{found}: {', '.join(wrong)}" if wrong else found
    advice = (
        f"write the sequence anew: all but ({WORLD}, {WORLD_GLOBAL}) must be {POSE_DTYPE}" if wrong else ""
    )
    return Point("pose_types", _verdict(not wrong and bool(sequence.edges)), told, advice, {"wrong": wrong})


def _pictures(sequence: Judged) -> Point:
    selected = sequence.meta.get("pictures")
    derived = sequence.meta_of("intrinsics").get("derived", {})
    said, figures, lacking = [], {}, False
    for each in sequence.of("cameras"):
        starts = sequence.frames[each.path][:, 0]
        steps = np.diff(starts)
        usual_s = float(np.median(steps)) / 1e6 if len(steps) else 0.0
        missed = int(
            (np.rint(steps / max(usual_s * 1e6, 1.0)) - 1).clip(min=0)[steps > _MISSED * 1e6 * usual_s].sum()
        )
        rate_hz = 1 / usual_s if usual_s else 0.0
        figures[each.name] = {"rate_hz": rate_hz, "pictures": len(starts), "missed": missed}
        scaled = f", {derived[each.name]}" if each.name in derived else ""
        said.append(f"{each.name} {len(starts)} at {rate_hz:.1f} Hz, {missed} missing{scaled}")
        lacking |= missed > 0
    if not figures:
        return Point("pictures", "unknown", "no camera")
    found = "; ".join(said) + (f"; {selected}" if selected else "")
    if selected not in {None, "all"}:
        advice = "convert without rate_hz, every_n and keyframes"
        return Point("pictures", "not fulfilled", found, advice, figures)
    advice = "look in the report where pictures were lost" if lacking else ""
    if selected is None and not lacking:
        advice = "nothing says whether these are all pictures of the camera"
    return Point(
        "pictures", _verdict(False if lacking else None if selected is None else True), found, advice, figures
    )


def _lidar(sequence: Judged) -> Point:
    intrinsics = sequence.default("intrinsics")
    said, figures, fits = [], {}, True
    for each in sequence.of("lidars"):
        times = sequence.frames[each.path]
        period_us = float(np.median(np.diff(times[:, 0]))) if len(times) > 1 else 0.0
        spread_us, late_us, elements = _rays(each, times)
        model = intrinsics is not None and bool(intrinsics.attributes(f"lidars/{each.name}"))
        figures[each.name] = {
            "row_model": model, "elements": elements, "spread_ms": spread_us / 1000,
            "first_ray_late_ms": late_us / 1000, "period_ms": period_us / 1000,
        }  # fmt: skip
        said.append(
            f"{each.name} {'row' if model else 'no row'} model, elements in {elements:.0%} of sweeps, rays "
            f"over {spread_us / 1000:.0f} of {period_us / 1000:.0f} ms, the first {late_us / 1000:+.1f} ms"
        )
        fits &= model and elements > 0 and spread_us >= _SPREAD * period_us and late_us <= _START_US
    if not figures:
        return Point("lidar", "unknown", "no lidar")
    advice = (
        ""
        if fits
        else "have the driver send organised clouds with a time field, or set ncore.lidar_spread_ms"
    )
    return Point("lidar", _verdict(fits), "; ".join(said), advice, figures)


def _rays(lidar: Instance, times: Times) -> tuple[float, float, float]:
    """How long rays take, how late the first is, medians in microseconds; share of sweeps with elements."""
    wanted = np.linspace(0, len(times) - 1, min(_SWEEPS, len(times))).astype(int)
    spreads, lates = [], []
    for start_us, end_us in times[wanted].tolist():
        at_us = lidar.array(f"frames/{end_us}/ray_bundle/timestamp_us", "iu", MOST_RAY_BYTES).astype(np.int64)
        if len(at_us):
            spreads.append(int(at_us.max() - at_us.min()))
            lates.append(int(at_us.min()) - start_us)
    has = [
        f"{lidar.path}/frames/{end}/ray_bundle/model_element/{ARRAY_KEY}" in lidar.metadata
        for _, end in times.tolist()
    ]
    return (
        float(np.median(spreads)) if spreads else 0.0,
        float(np.median(lates)) if lates else 0.0,
        float(np.mean(has)) if has else 0.0,
    )


def _cuboids(sequence: Judged) -> Iterator[Point]:
    instance = sequence.default("cuboids")
    seen = [] if instance is None else instance.attributes("cuboids").get("cuboid_track_observations", [])
    tracks: dict[str, list[Mapping[str, Any]]] = {}
    for each in seen:
        tracks.setdefault(str(each["track_id"]), []).append(each)
    sources = Counter(str(each.get("source")) for each in seen)
    single = sum(len(each) == 1 for each in tracks.values())
    near = sum(_rig_distance_m(sequence, each) < NEAR_RIG_M for each in seen)
    found = f"{len(seen)} in {len(tracks)} tracks, {single} seen once, {near} nearer than {NEAR_RIG_M:g} m"
    if basis := sequence.meta_of("cuboids").get(BASIS):
        found = f"{found}; {basis}"
    figures = {"cuboids": len(seen), "tracks": len(tracks), "seen_once": single, "near": near}
    fits = bool(tracks) and single < len(tracks) and set(sources) == {LOADED_SOURCE}
    advice = "" if fits else "record a model's 3-D boxes with tracks"
    if tracks and set(sources) != {LOADED_SOURCE}:
        advice = f"the loader takes {LOADED_SOURCE}; tell it {', '.join(sorted(sources))}"
    yield Point("cuboids", _verdict(fits), found, advice, figures)
    classes = Counter(str(each[0]["class_id"]) for each in tracks.values())
    known = sorted(set(classes) & DYNAMIC)
    meant = {
        name: _SPELLED[name.lower()] for name in sorted(set(classes) - DYNAMIC) if name.lower() in _SPELLED
    }
    nameless = sorted(name for name in classes if name.isdecimal())
    others = sorted(set(classes) - {*known, *meant, *nameless})
    parts = [
        f"{what}: {', '.join(f'{name} {classes[name]}' for name in names)}"
        for what, names in (
            ("dynamic", known), ("meant so", sorted(meant)), ("numbers", nameless),
            (f"dynamic beyond {MOVED_M:g} m", others),
        )
        if names
    ]  # fmt: skip
    told = "; ".join(parts) or "no tracks"
    advice = ""
    if meant:
        advice = f"class_names: {{{', '.join(f'{name}: {right}' for name, right in meant.items())}}}"
    elif nameless:
        advice = "class_names gives each number a name"
    fits_all = None if not classes else not (meant or nameless)
    yield Point(
        "classes", _verdict(fits_all), told, advice, {"dynamic": known, "others": others, "meant": meant}
    )


def _rig_distance_m(sequence: Judged, cuboid: Mapping[str, Any]) -> float:
    """How far a cuboid's middle is from the rig's origin; of a frame that moves, from that frame's."""
    poses, times_us = sequence.edges.get((cuboid["reference_frame_id"], RIG), (np.eye(4)[None], None))
    pose = poses[0] if times_us is None else np.eye(4)
    return float(np.linalg.norm(pose[:3, :3] @ cuboid["bbox3"]["centroid"] + pose[:3, 3]))


def _stereo(sequence: Judged) -> Point:
    cameras = {each.name for each in sequence.of("cameras")}
    pairs = sequence.meta.get(STEREO_PAIRS) or []
    unknown = sorted({str(pair.get(side)) for pair in pairs for side in ("left", "right")} - cameras)
    figures = {"pairs": len(pairs), "unknown": unknown}
    if unknown:
        advice = f"name cameras of the sequence in ncore.stereo_pairs: {', '.join(sorted(cameras))}"
        return Point("stereo_pairs", "not fulfilled", f"no camera {', '.join(unknown)}", advice, figures)
    if pairs:
        said = ", ".join(f"{pair['left']} and {pair['right']}" for pair in pairs)
        return Point("stereo_pairs", "fulfilled", said, figures=figures)
    advice = "name pairs in ncore.stereo_pairs, if there are any" if len(cameras) > 1 else ""
    return Point("stereo_pairs", "unknown", f"none; {len(cameras)} cameras", advice, figures)


def _provenance(sequence: Judged) -> Point:
    meta = {**sequence.meta_of("poses"), **sequence.meta}
    keys = ("calibration_type", "egomotion_type", "source")
    told = {key: meta[key] for key in keys if key in meta}
    missing = [key for key in keys if key not in told]
    said = ", ".join(f"{key} {told.get(key, 'missing')}" for key in keys)
    advice = "write the sequence anew with this version" if missing else ""
    return Point("provenance", _verdict(not missing), said, advice, told)
