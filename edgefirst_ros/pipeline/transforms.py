"""Transforms by time, as tf2's buffer has them: those in force, and where frames on mounts that move are.

A transform is heard before its clock is known; then it holds for what was measured before any of its frame
was said. It arrives with its time, but before its place in time: messages wait there for the look-ahead, so
that a measurement in its place finds transforms on either side of its time. In its place it comes into force.

Frames whose transform changes: how far they moved, and which sensors are on them.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import itemgetter
from typing import Any

import numpy as np

from edgefirst_ros.config.model import Config
from edgefirst_ros.config.topics import motion_entries, motion_place, rig_from_imu, sensor_of
from edgefirst_ros.model.sample import NOT_MOVING, Measurement
from edgefirst_ros.model.sensors import Role
from edgefirst_ros.model.transform import (
    RobotDescription,
    Transform,
    Transforms,
    bare,
    between,
    change_of,
    describe_change,
    frame_in_base,
    makes_cycle,
    quaternion_of,
)
from edgefirst_ros.timing.gaps import StreamStats

ON_MOUNTS = frozenset({"camera", "lidar_points", "radar_targets", "radar_cube", "depth"})
"""Roles of what measures from a place on the rig."""
PLACES = {role.value: role for role in (Role.GPS, Role.IMU)}
"""What poses depend on where it is."""
FAR_M, TURNED_DEG = 0.1, 2.0
"""An antenna or IMU that is off by less is off by no more than fixes and mountings are."""
OFTEN = 3
"""Changes that are no correction of a place, which comes once or twice, but a mount that moves."""


@dataclass(slots=True)
class MovedFrame:
    """A frame that moved.

    Attributes:
        first: where it was at first.
        text: what its first change was.
        changes: how many there were.
        moved_m: farthest from where it was at first; turned_deg likewise.
        held: measurements that were placed by a single message, see ``TransformBuffer``.
    """

    first: Transform
    text: str
    changes: int = 0
    moved_m: float = 0.0
    turned_deg: float = 0.0
    held: int = 0

    def follow(self, transform: Transform) -> None:
        """It is here now."""
        moved_m, turned_deg = change_of(self.first, transform)
        self.changes += 1
        self.moved_m = max(self.moved_m, moved_m)
        self.turned_deg = max(self.turned_deg, turned_deg)

    @property
    def said(self) -> str:
        """A sentence for the user."""
        if self.changes >= OFTEN:
            return (
                f"{self.first.child} moved by up to {self.moved_m:.3g} m and {self.turned_deg:.3g} degrees "
                f"in {self.first.parent}, in {self.changes:,} steps; each measurement is placed by where it "
                "was then"
            )
        return (
            f"{self.text}; the newest applies from then on, in formats with one place for it to the whole "
            "sequence"
        )


def without_rig(
    moved: Mapping[str, MovedFrame], transforms: Mapping[str, Transform], rig_frame: str
) -> dict[str, MovedFrame]:
    """What moves on the rig: a frame that carries the rig is odometry's, in whose frame the rig moves."""
    carrying = {*way_up(rig_frame, transforms)}
    return {child: each for child, each in moved.items() if bare(child) not in carrying}


def mounts(
    moved: Mapping[str, MovedFrame], transforms: Mapping[str, Transform], streams: Iterable[StreamStats]
) -> Iterator[dict[str, Any]]:
    """For the report: each frame that moves with sensors on it, how far, and these sensors' topics."""
    sensors = (each for each in streams if each.role in ON_MOUNTS and each.frame_id)
    ways = {each.topic: {*way_up(each.frame_id, transforms)} for each in sensors}
    for child, each in moved.items():
        topics = sorted(topic for topic, way in ways.items() if bare(child) in way)
        if topics and each.changes >= OFTEN:
            yield {
                "frame": bare(child),
                "parent": bare(each.first.parent),
                "moved_m": round(each.moved_m, 4),
                "turned_deg": round(each.turned_deg, 3),
                "held": each.held,
                "topics": topics,
            }


def unheeded(
    config: Config, transforms: Mapping[str, Transform], streams: Iterable[StreamStats]
) -> Iterator[str]:
    """Where transforms place what tells the motion elsewhere than the configuration does, which counts."""
    told_by = {sensor_of(entry, config.topics[entry]) for entry in motion_entries(config)}
    for each in streams:
        T_sensor_rig = frame_in_base(transforms, each.frame_id, config.rig_frame) if each.frame_id else None
        if T_sensor_rig is None or each.role not in PLACES or each.sensor not in told_by:
            continue
        at_m, believed_m = T_sensor_rig[:3, 3], motion_place(config, PLACES[each.role])[:3, 3]
        xyzw, turned = quaternion_of(T_sensor_rig[:3, :3]), rig_from_imu(config) or (0.0, 0.0, 0.0, 1.0)
        told = [f"xyz_m: {at_m.round(3).tolist()}"] * (float(np.linalg.norm(at_m - believed_m)) > FAR_M)
        apart_deg = 2 * math.degrees(math.acos(min(1.0, abs(float(xyzw @ turned)))))
        if each.role == Role.IMU and apart_deg > TURNED_DEG:
            told.append(f"xyzw: {xyzw.round(6).tolist()}")
        if told:
            yield (
                f"transforms place {each.topic} elsewhere in {config.rig_frame} than poses take it to be: "
                f"give its entry mount: {{{', '.join(told)}}}"
            )


def way_up(frame: str, transforms: Mapping[str, Transform]) -> list[str]:
    """A frame and those that it hangs on."""
    parents = {bare(child): bare(each.parent) for child, each in transforms.items()}
    found = [bare(frame)]
    while (above := parents.get(found[-1])) is not None and above not in found:
        found.append(above)
    return found


MOST_GAP_NS = 300_000_000
"""Transforms farther apart are not interpolated: where a mount speeds up by 45 degrees/s², the middle is half
a degree off, the most that NuRec takes."""
HELD_NS = 15_000_000
"""A transform is taken for that of another time so near: half a degree at 30 degrees/s."""


class TransformBuffer:
    """The transforms of one source.

    Args:
        rig_frame: what transforms call the rig.
        fixed: frames that the configuration places, whatever transforms say.

    Attributes:
        in_force: by child frame; another mapping after each change.
        moved: frames whose transform in force changed.
        held: measurements whose mount moved, and that were placed by a single message, by frame.
    """

    def __init__(self, rig_frame: str, fixed: Mapping[str, Transform]) -> None:
        self._rig, self._fixed = rig_frame, fixed
        self._heard: dict[str, Transform] = {}
        """The first of each child."""
        self.begin({})

    def begin(self, known: Mapping[str, Transform], *, goes_on: bool = False) -> None:
        """A sequence begins, with what is known from before it; times go on, or are others."""
        self.in_force: Mapping[str, Transform] = {**known, **self._fixed}
        self.moved: dict[str, MovedFrame] = {}
        self._described: set[str] = set()
        """Frames whose transform is the robot description's, as no other said one."""
        if not goes_on:
            self.held: Counter[str] = Counter()
            self._known: dict[str, list[tuple[int, Transform]]] = {}
            self._changes: Counter[str] = Counter()
            self._before_ns = -(1 << 63)
            self._sensors: set[str] = set()
            self._ways: dict[str, frozenset[str]] | None = {}
            """By frame of a sensor, those that move and that it hangs on; None if that is to be found."""
        said = set(map(bare, self.in_force))
        self._take(each for each in self._heard.values() if bare(each.child) not in said)

    def unheard(self, transforms: Iterable[Transform]) -> list[Transform]:
        """Those of frames of which none was heard before."""
        return [each for each in transforms if each.child not in self._heard]

    def hear(self, transforms: Iterable[Transform]) -> None:
        """Take what is heard first of frames, whenever it is of."""
        for each in transforms:
            self._heard.setdefault(each.child, each)

    @property
    def newest(self) -> Mapping[str, Transform]:
        """All that is known of where frames are, to be asked before measurements are in their places."""
        return {**self.in_force, **self._heard, **self._fixed}

    def is_news(self, measurement: Measurement, role: Role) -> bool:
        """Whether ``arrive`` has something to learn from a message."""
        if isinstance(measurement.datum, Transforms):
            return True
        return role in ON_MOUNTS and measurement.frame_id not in self._sensors

    def arrive(self, measurement: Measurement, role: Role) -> None:
        """Take a message that has arrived: transforms, or of a sensor on the rig."""
        datum = measurement.datum
        if isinstance(datum, Transforms):
            for stamp_ns, transform in zip(datum.stamps_ns, datum.transforms, strict=True):
                apart_ns = stamp_ns - measurement.stamp_ns
                self._date(measurement.time_ns + apart_ns * (abs(apart_ns) < MOST_GAP_NS), transform)
        elif role in ON_MOUNTS and measurement.frame_id not in self._sensors:
            self._sensors.add(measurement.frame_id)
            self._ways = None

    def _date(self, time_ns: int, transform: Transform) -> None:
        child = bare(transform.child)
        if child in self._fixed:
            return
        known = self._known.setdefault(child, [])
        place = bisect_right(known, time_ns, key=itemgetter(0))
        before = known[place - 1][1] if place else None
        if place and known[place - 1] == (time_ns, transform):
            return
        if before is None or bare(before.parent) != bare(transform.parent):
            self._ways = None
        elif before != transform:
            self._changes[child] += bool(describe_change(before, transform))
            if self._changes[child] == OFTEN:
                self._ways = None
        elif 1 < place == len(known) and known[-2][1] == before:
            known.pop()
        known.insert(min(place, len(known)), (time_ns, transform))
        while len(known) > 2 and known[1][0] <= self._before_ns:
            del known[0]

    def learn(self, datum: Transforms | RobotDescription) -> str | None:
        """Take a message in its place in time; the reason if it is refused, else None."""
        if isinstance(datum, Transforms):
            return self._take(datum.transforms)
        # What is fixed on the robot is where it says unless transforms do: those are of the real one.
        said = set(map(bare, self.in_force)) - self._described
        for transform in datum.transforms:
            if bare(transform.child) not in said and not makes_cycle(transform, self.in_force):
                self.in_force = {**self.in_force, transform.child: transform}
                self._described.add(bare(transform.child))
        return None

    def _take(self, transforms: Iterable[Transform]) -> str | None:
        placed, refusal = dict(self.in_force), None
        for transform in transforms:
            child = bare(transform.child)
            if child in self._fixed:
                continue
            if makes_cycle(transform, placed):
                refusal = "transform that makes a frame its own ancestor"
            elif (before := placed.get(transform.child)) != transform:
                placed[transform.child] = transform
                if before is not None and child not in self._described:
                    self._follow(before, transform)
            self._described.discard(child)
        if placed != self.in_force:
            self.in_force = placed
        return refusal

    def _follow(self, before: Transform, after: Transform) -> None:
        if after.child not in self.moved and (change := describe_change(before, after)):
            self.moved[after.child] = MovedFrame(before, change)
        if (found := self.moved.get(after.child)) is not None:
            found.follow(after)

    def at(self, time_ns: int, frame: str) -> Mapping[str, Transform]:
        """Transforms of all frames that move with sensors on them, by child.

        Args:
            time_ns: of a measurement.
            frame: that it is in; what holds there is counted.
        """
        if self._ways is None:
            self._ways = self._found()
        if not self._ways:
            return NOT_MOVING
        own = self._ways.get(frame, frozenset())
        placed = {}
        for child in sorted(frozenset[str]().union(*self._ways.values())):
            transform, is_held = _placed(self._known[child], time_ns)
            placed[transform.child] = transform
            if is_held and child in own:
                self.held[child] += 1
        return placed

    def forget(self, before_ns: int) -> None:
        """Nothing before this time will be requested any more."""
        self._before_ns = before_ns

    def _found(self) -> dict[str, frozenset[str]]:
        moving = {child for child, changes in self._changes.items() if changes >= OFTEN}
        if not moving:
            return {}
        newest = {child: known[-1][1] for child, known in self._known.items()}
        placed = {bare(child): each for child, each in self.in_force.items()} | newest | {**self._fixed}
        moving -= {*way_up(self._rig, placed)}
        ways = {frame: moving.intersection(way_up(frame, placed)) for frame in self._sensors}
        return {frame: frozenset(way) for frame, way in ways.items() if way}


def _placed(known: list[tuple[int, Transform]], time_ns: int) -> tuple[Transform, bool]:
    """A frame's transform, and whether it is that of another time, while the frame moved."""
    after = bisect_right(known, time_ns, key=itemgetter(0))
    (start_ns, start), (end_ns, end) = known[max(after - 1, 0)], known[min(after, len(known) - 1)]
    if start == end:
        near = known[max(after - 2, 0)], known[min(after + 1, len(known) - 1)]
        moves = not 0 < after < len(known) and any(each != start for _, each in near)
        return start, moves and abs(time_ns - start_ns) > HELD_NS
    if end_ns - start_ns > MOST_GAP_NS or bare(start.parent) != bare(end.parent):
        return start, time_ns - start_ns > HELD_NS
    share = (time_ns - start_ns) / (end_ns - start_ns)
    x, y, z = (a + share * (b - a) for a, b in zip(start.translation_m, end.translation_m, strict=True))
    i, j, k, w = between(np.array(start.rotation_xyzw), np.array(end.rotation_xyzw), share).tolist()
    return Transform(start.parent, start.child, (x, y, z), (i, j, k, w)), False
