"""A configuration from what is there: which topic can be used as what, by its type, names, frames and rate.

Types say what a message can be, names and frames whose it is, rates and stamps how it is to be paired.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, combinations, count
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from edgefirst_ros.config.hints import (
    OF_CAMERAS,
    ExistingTopic,
    devices_of,
    first_part,
    likely_role,
    packet_advice,
)
from edgefirst_ros.config.model import MAIVIN_TOPICS, build_config
from edgefirst_ros.config.names import is_pattern
from edgefirst_ros.config.topics import (
    TEXT,
    TF,
    TYPES,
    TopicMap,
    choose_reference,
    find_prefix,
    full_type,
    is_any_text,
)
from edgefirst_ros.model.errors import ConfigError
from edgefirst_ros.model.sample import RawMessage, Role
from edgefirst_ros.model.sensors import CALIBRATION, COMPANION
from edgefirst_ros.model.transform import bare, frame_in_base, prefixed, quaternion_of, with_prefix
from edgefirst_ros.model.untrusted import visible
from edgefirst_ros.sources.recording import Recording
from edgefirst_ros.sources.seen import ENCODING, SeenTopic

OTHER_TURN_DEG_S, OTHER_PLACE_M = 6.0, 50.0
"""Gyroscopes of a vehicle differ by their biases, its receivers by its length and their errors."""
PACKED_MS = 10.0
"""From the end of a sweep to its message, as field/lidar_boot_time has it."""
LOOK_S, LONGEST_LOOK_S = 10.0, 60.0
"""Read of each recording: enough for rates, and for what a robot sends once it has started."""
OTHER_CLOCK_NS = 500_000_000
"""No network delays every message by so much: such stamps are of another clock."""
WORLD = frozenset({"map", "odom", "world", "earth", "global"})
"""Frames that do not move with the robot (REP 105): what is in them was made of sensors' data."""
RIGS = ("base_link", "base_footprint")
FRONT = frozenset({"front", "forward", "centre", "center", "main", "fc"})
ASIDE = frozenset({"rear", "back", "left", "right", "side", "down", "bottom", "infra1", "infra2", "ir"})
PLACED = frozenset({Role.CAMERA, Role.LIDAR_POINTS, Role.RADAR_TARGETS})
"""Roles of what is mounted somewhere."""
NOISE = re.compile(
    f"{ENCODING.pattern}|cam(era)?s?|lidars?|radars?|points?|cloud|pointcloud2?|sensing|sensors?|data|drivers?|"
    "topic|ros|rt|scan|perception|targets|fix|gnss|gps|imu|detections|ex|output"
)
"""Words of names that tell no sensor from another of its kind."""
SHORT = {"lidar_points": "lidar", "radar_targets": "radar"}
REGISTERED = re.compile(r"aligned|registered|depth_to_")
"""What names of depth have that was moved to the view of another camera."""
DERIVED = re.compile(
    r"filter|ground|obstacle|crop|downsampl|voxel|map\b|cluster|elevation|segment|aggregat|merged|concat|fused|"
    r"deskew|undistort|registered|transformed|debug|costmap|local_map|accumulat|outlier"
)
"""What names of clouds have that were made of a sensor's."""
GOAL = re.compile(r"goal|target|setpoint|initial|marker|object|tag\b")
"""What names of poses have that are no robot's."""
FUSED = re.compile(r"filter|ekf|ukf|fuse|fusion|kinematic|lio|slam|localiz|localis|gps|gnss|ins\b|vio|global")
_SENSING = re.compile(r"(Image|Video|Cloud2?|Scan|Packets?(Msg)?|UdpFrame|CustomMsg)$")
"""How types end of what a camera, lidar or radar sends, whether they can be read or not."""
_PICTURES = re.compile(r"image|video|ffmpeg|theora")


@dataclass(frozen=True, slots=True)
class Suggestion:
    """A configuration, and what was taken and left out for which reason.

    Attributes:
        values: plain values of the configuration.
        used: role by topic.
        left_out: why, by topic.
        unusable: those of them of which a sensor is lost, as no other topic has it.
        said: of each choice, a line each; the first says what it is of.
    """

    values: Mapping[str, Any]
    used: Mapping[str, Role]
    left_out: Mapping[str, str]
    unusable: Mapping[str, str]
    said: Sequence[str]

    @property
    def text(self) -> str:
        """The values as a file, with a comment on each choice."""
        reasons = [f"{topic}: {why}" for topic, why in sorted(self.left_out.items())]
        lines = [*self.said, *["left out:"] * bool(reasons), *reasons]
        return "".join(f"# {visible(line)}\n" for line in lines) + yaml.safe_dump(
            dict(self.values), default_flow_style=None, sort_keys=False, width=1 << 20
        )

    @property
    def parameters(self) -> str:
        """The same as a parameter file of ROS."""
        return replace(self, values={"/**": {"ros__parameters": dict(self.values)}}).text

    @property
    def note(self) -> str:
        """That it was made because none was given, in one line."""
        return f"no --config, and topics are not named as a Maivin's: {len(self.used)} topics are guessed"

    def keep(self, folder: Path, dataset: str) -> Path:
        """Write it beside a dataset; where it is."""
        path = folder / f"{dataset}.yaml"
        path.write_text(self.text, encoding="utf-8")
        return path


Rank = Callable[[SeenTopic], tuple[Any, ...]]


@dataclass(slots=True)
class _Entry:
    name: str
    seen: SeenTopic
    rule: dict[str, Any]
    comment: str


class Look:
    """Takes messages of a robot, and suggests a configuration for it.

    Args:
        topics: (topic, type) of those that are known to exist.
    """

    def __init__(self, topics: Iterable[tuple[str, str]] = ()) -> None:
        self.topics: dict[str, SeenTopic] = {t: SeenTopic(t, full_type(kind)) for t, kind in topics}

    def feed(self, message: RawMessage) -> None:
        """Take a message, in order of receipt."""
        if message.topic not in self.topics:
            self.expect(message.topic, message.schema)
        self.topics[message.topic].add(message)

    def expect(self, topic: str, kind: str) -> None:
        """A topic of this type exists."""
        self.topics.setdefault(topic, SeenTopic(topic, full_type(kind)))

    @property
    def is_complete(self) -> bool:
        """Whether something came of every topic that can be used."""
        return all(each.sound or not each.can_be_decoded for each in self.topics.values())

    def suggestion(self, source: str, prefix: str | None = None) -> Suggestion:
        """A configuration for what was seen.

        Args:
            source: what it is of, for the comments.
            prefix: of one robot's topics; transforms may be without it.

        Raises:
            ConfigError: nothing can be the reference, no topic has the prefix, or it is of several robots;
                says what is there.
        """
        own = (f"{prefix.strip('/')}/", "tf", "tf_static") if prefix else ("",)
        topics = {name: t for name, t in self.topics.items() if name.strip("/").startswith(own)}
        if prefix and not any(name.strip("/").startswith(own[0]) for name in topics):
            raise ConfigError([f"{source}: no topic begins with {own[0]}; leave --prefix out"])
        return _Chooser(topics, source).suggestion()


def look_at(recordings: Iterable[Recording]) -> Look:
    """What is in the beginning of recordings, until something came of every topic that can be used.

    Raises:
        RecordingError: a file cannot be read.
    """
    opened = [*recordings]
    look = Look(topic for recording in opened for topic in recording.topics())
    for recording in opened:
        first_ns, taken = 0, 0
        for message in recording.messages():
            look.feed(message)
            first_ns, taken = first_ns or message.receive_ns, taken + len(message.data)
            seconds = (message.receive_ns - first_ns) / 1e9
            if seconds > (LOOK_S if look.is_complete else LONGEST_LOOK_S) or taken > 1 << 30:
                break
    return look


class _Chooser:
    def __init__(self, topics: Mapping[str, SeenTopic], source: str) -> None:
        self._devices = devices_of((t.topic, t.type) for t in topics.values())
        self._prefixes = _prefixes([*topics.values()], self._devices)
        topics = {
            name: _with_prefix(t, self._prefixes.get(first_part(name), "")) for name, t in topics.items()
        }
        self._topics, self._source = topics, source
        self._entries: list[_Entry] = []
        self._left_out: dict[str, str] = {}
        self._reference = ""
        # Transforms count before the robot's description; those on /tf that keep their values are mountings.
        said = sorted(topics.values(), key=lambda each: each.type != TEXT)
        self._transforms = {c: t for each in said for c, t in each.pairs.items() if c not in each.moving}
        self._parents = {child: bare(t.parent) for child, t in self._transforms.items()}
        self._moving = {
            child: (bare(each.pairs[child].parent), each.topic)
            for each in topics.values()
            for child in each.moving
            if child not in self._parents
        }
        self._rig = ""
        self._mounts: set[str] = set()
        """Of what moves what is on the rig."""
        self._views: dict[str, str] = {}
        """By topic of depth: whose view it is, and how that is known."""

    def _refuse_several(self) -> None:
        """Devices on one vehicle turn alike, and are near each other."""
        turns, places = dict[str, float](), dict[str, tuple[float, float]]()
        for seen in self._topics.values():
            if (device := self._device_of(seen)) and seen.turns_rad_s:
                turns[device] = sum(seen.turns_rad_s) / len(seen.turns_rad_s)
            if device and seen.place_deg:
                places[device] = seen.place_deg
        for one, other in combinations(sorted(self._devices), 2):
            turn_deg_s = apart_m = 0.0
            if {one, other} <= turns.keys():
                turn_deg_s = math.degrees(abs(turns[one] - turns[other]))
            if {one, other} <= places.keys():
                (north, east), (north_2, east_2) = places[one], places[other]
                narrowed = math.cos(math.radians(north))
                apart_m = 111_000 * math.hypot(north - north_2, (east - east_2) * narrowed)
            if turn_deg_s > OTHER_TURN_DEG_S or apart_m > OTHER_PLACE_M:
                found = f"{apart_m:,.0f} m apart, whose turning differs by {turn_deg_s:.0f}°/s"
                ways = f"convert each by itself: --prefix {one}, then --prefix {other}"
                raise ConfigError([f"{one} and {other} are two robots, {found}; {ways}"])

    def suggestion(self) -> Suggestion:
        self._refuse_several()
        own = {} if self._devices else self._own_routes()
        by_role = self._roles()
        others = {seen.topic for found in by_role.values() for seen in found if seen.type != TF} - own.keys()
        if own and not others:
            said = (
                f"suggested of {self._source}: a Maivin's or Raivin's names, so nothing is to be configured"
            )
            return self._made({}, own, [said])
        infos = by_role.pop(Role.CAMERA_INFO, [])
        cameras = self._cameras(by_role.pop(Role.CAMERA, []))
        clouds = self._clouds(by_role.pop(Role.LIDAR_POINTS, []), by_role)
        calibrations = _calibrations(cameras, infos, by_role.get(Role.DEPTH, []))
        cameras.sort(key=lambda each: self._camera_rank(each, is_known=each.topic in calibrations))
        depths = self._depth_cameras(by_role.pop(Role.DEPTH, []), cameras, by_role)
        known = {info.topic for several in calibrations.values() for info in several}
        calibrations |= _calibrations(depths, [i for i in infos if i.topic not in known], cameras)
        colour, cameras = cameras, [*cameras, *depths]
        lead = next(iter([*cameras, *clouds]), None)
        if lead is None:
            why: dict[str, list[str]] = defaultdict(list)
            for each in sorted(self._topics.values(), key=lambda seen: not seen.fault)[:12]:
                why[self._left_out.get(each.topic, "neither")].append(f"{each.topic} ({each.type})")
            said = "; ".join(f"{', '.join(topics)}: {reason}" for reason, topics in why.items())
            head = f"{self._source}: no camera and no lidar that samples could begin with"
            raise ConfigError([f"{head}: {said}"])
        self._rig = self._rig_frame(lead, [*cameras, *clouds])
        self._hang()
        names = _Names()
        for camera in cameras:
            kind, alike = ("depth_camera", depths) if camera in depths else ("camera", colour)
            name = names.of(camera, kind, many=len(alike) > 1)
            self._add_camera(camera, name, calibrations.get(camera.topic, []))
        for info in infos:
            if info.topic not in self._used:
                self._left_out.setdefault(info.topic, "the calibration of no camera that is used")
        by_role[Role.LIDAR_POINTS] = clouds
        self._motion(by_role, self._device_of(lead))
        for role, found in by_role.items():
            for seen in found:
                self._add(names.of(seen, role.value, many=len(found) > 1), seen, role)
        self._reference = next(each.name for each in self._entries if each.seen is lead)
        return self._finished()

    def _roles(self) -> dict[Role, list[SeenTopic]]:
        """What can be used, by role."""
        found: dict[Role, list[SeenTopic]] = defaultdict(list)
        for name, seen in sorted(self._topics.items()):
            role, why = _role(seen)
            if role is None:
                self._left_out[name] = why
            else:
                found[role].append(seen)
        return found

    # ------------------------------------------------------------------ what the device's own names give
    def _own_routes(self) -> dict[str, Role]:
        """Roles of topics that the default configuration uses, if it fits."""
        config, known = build_config({}), [(t.topic, t.type) for t in self._topics.values()]
        names = [topic for topic, _ in known]
        try:
            routes = TopicMap(config, find_prefix(names, config), known)
            choose_reference(config, names, routes)
        except ConfigError:
            return {}
        found = ((name, kind, routes.route(name)) for name, kind in known)
        return {n: r.rule.role for n, kind, r in found if r is not None and kind in TYPES[r.rule.role]}

    # ------------------------------------------------------------------ cameras
    def _cameras(self, topics: Sequence[SeenTopic]) -> list[SeenTopic]:
        """One topic of every camera; the others are left out."""
        chosen: dict[tuple[str, str, str], SeenTopic] = {}
        for seen in sorted(topics, key=_encoding_rank):
            best = chosen.setdefault((seen.space, seen.stem, seen.frame), seen)
            if best is not seen:
                self._left_out[seen.topic] = f"the same camera as {best.topic}, in another encoding"
        return sorted(chosen.values(), key=lambda seen: seen.topic)

    def _depth_cameras(
        self, topics: Sequence[SeenTopic], cameras: Sequence[SeenTopic], by_role: dict[Role, list[SeenTopic]]
    ) -> list[SeenTopic]:
        """Depth that is not of a camera's view, of each camera one topic; the rest keeps its role."""
        alone: list[SeenTopic] = []
        for seen in topics:
            of = [each.topic for each in cameras if seen.frame and each.frame == seen.frame]
            if of:
                why = f"of the view of {of[0]}, as it is in its frame"
            elif cameras and (not seen.frame or REGISTERED.search(seen.topic.lower())):
                why = "of a camera's view, as its name says, or as it names no frame"
            else:
                why = "of a camera of its own, as no other is in its frame"
                alone.append(seen)
            self._views[seen.topic] = why
        if labels := [seen for seen in topics if seen not in alone]:
            by_role[Role.DEPTH] = labels
        return self._cameras(alone)

    @staticmethod
    def _camera_rank(camera: SeenTopic, *, is_known: bool) -> tuple[Any, ...]:
        """Which camera samples begin with: calibrated, ahead, in colour, fast, large."""
        words = set(re.split(r"[^a-z0-9]+", f"{camera.topic} {camera.frame}".lower()))
        width, height = camera.size or (0, 0)
        is_grey = camera.form.startswith(("mono", "16UC"))
        told = not is_known, words.isdisjoint(FRONT), not words.isdisjoint(ASIDE), is_grey
        return *told, -round(camera.hz), -width * height, camera.topic

    def _add_camera(self, camera: SeenTopic, name: str, own: Sequence[SeenTopic]) -> None:
        self._add(name, camera, Role.CAMERA)
        entry = self._entries[-1]
        if camera.topic in self._views:
            entry.rule["sixteen_bits"] = "depth"
        elif _is_thermal(camera):
            entry.rule["sixteen_bits"] = "as_sent"
            entry.comment += "; thermal: values are kept, not scaled to 8 bits"
        if not own:
            entry.comment += "; no CameraInfo: its intrinsics are unknown"
            return
        info_name = "camera_info" if name == "camera" else f"{name}_info"
        rule = self._rule(own[0], Role.CAMERA_INFO, sensor=name)
        self._entries.append(_Entry(info_name, own[0], rule, f"calibration of {name}"))
        for other in own[1:]:
            self._left_out[other.topic] = f"another calibration of {name}, which takes {own[0].topic}"

    # ------------------------------------------------------------------ clouds
    def _clouds(
        self, topics: Sequence[SeenTopic], by_role: Mapping[Role, list[SeenTopic]]
    ) -> list[SeenTopic]:
        """One topic of every lidar: the one with most points that nothing was left out of."""
        views = [seen for role in (Role.CAMERA, Role.DEPTH) for seen in by_role.get(role, [])]
        pictures, frames = {seen.space for seen in views}, {seen.frame for seen in views} - {"", *RIGS}
        chosen: list[SeenTopic] = []
        spare: list[SeenTopic] = []
        for seen in sorted(
            topics, key=lambda s: (s.frame in RIGS, _is_derived(s), -s.points * s.hz, s.topic)
        ):
            # Two devices may call their frames alike.
            same = (o for o in chosen if o.frame == seen.frame)
            of = next((o for o in same if _is_derived(seen) or _is_within(o.space, seen.space)), None)
            is_view = seen.frame in frames or "optical" in seen.frame or seen.space in pictures
            if seen.frame in WORLD:
                why = f"a map, as it is in the frame {seen.frame}"
            elif is_view or "depth" in seen.topic.lower():
                why = "points of a depth camera"
                spare += [seen] * (not by_role.get(Role.DEPTH))  # which says as much
            elif of is not None:
                why = f"the same lidar as {of.topic}"
            elif seen.frame in RIGS and any(other.frame not in RIGS for other in chosen):
                why = f"made of other lidars' points, as it is in {seen.frame}"
            else:
                chosen.append(seen)
                continue
            self._left_out[seen.topic] = why
        return sorted(chosen, key=lambda seen: (-seen.points * seen.hz, seen.topic)) or spare[:1]

    # ------------------------------------------------------------------ motion
    def _device_of(self, seen: SeenTopic) -> str:
        return first if (first := first_part(seen.topic)) in self._devices else ""

    def _motion(self, by_role: dict[Role, list[SeenTopic]], lead: str) -> None:
        imus, fixes = by_role.pop(Role.IMU, []), by_role.pop(Role.GPS, [])
        imu = None
        for device in dict.fromkeys([lead, *map(self._device_of, imus)]):
            there = [seen for seen in imus if self._device_of(seen) == device]
            of_it = self._one(there, "imu" if device == lead else f"{device}_imu", Role.IMU, _imu_rank)
            imu = imu or of_it
        fix = self._one(
            fixes, "gps", Role.GPS, lambda s: (self._device_of(s) != lead, not s.has_sigma, -s.hz)
        )
        self._heed(imu, fix)
        self._odometry(by_role.pop(Role.ODOMETRY, []), imu, None if fix is None or fix.form else fix)
        self._tf(by_role.pop(Role.TF, []), lead)

    def _tf(self, topics: Iterable[SeenTopic], lead: str) -> None:
        """Of each device the topics that say where something on the rig is, each what no other says."""
        placed: set[str] = set()
        for seen in sorted(
            topics, key=lambda each: (not each.topic.rstrip("/").endswith("static"), each.topic)
        ):
            fixed = {c for c, t in seen.pairs.items() if bare(t.parent) not in WORLD and c not in seen.moving}
            if not (more := (fixed | (self._mounts & seen.moving)) - placed):
                self._left_out[seen.topic] = (
                    "its transforms are of no sensor, or are taken from another topic"
                )
            elif seen.topic not in self._used:
                device = self._device_of(seen)
                usual = "tf" if device in {lead, ""} else f"{device}_tf"
                names = chain([usual, f"{usual}_of_mounts"], (f"{usual}_of_mounts{n}" for n in count(2)))
                self._add(next(n for n in names if all(n != e.name for e in self._entries)), seen, Role.TF)
            placed |= more

    def _heed(self, imu: SeenTopic | None, fix: SeenTopic | None) -> None:
        """Where transforms say that the antenna is, and how the IMU is turned, as poses rest on both."""
        for entry in self._entries:
            T_sensor_rig = frame_in_base(self._transforms, entry.seen.frame, self._rig)
            if T_sensor_rig is None:
                continue
            at_m = T_sensor_rig[:3, 3].round(3).tolist()
            turn = T_sensor_rig[:3, :3]
            if entry.seen in (fix, imu) and any(at_m):
                entry.rule["mount"] = {"xyz_m": at_m}
            if entry.seen is imu and not np.allclose(turn, np.eye(3), atol=1e-3):
                entry.rule.setdefault("mount", {})["xyzw"] = quaternion_of(turn).round(6).tolist()
            if "mount" in entry.rule:
                entry.comment += ", where transforms say"

    def _one(self, topics: Sequence[SeenTopic], entry: str, role: Role, rank: Rank) -> SeenTopic | None:
        """Use the best of several, as the rig has one motion."""
        if not topics:
            return None
        best, *others = sorted(topics, key=lambda seen: (*rank(seen), seen.topic))
        self._add(entry, best, role)
        self._left_out |= {other.topic: f"{entry} is taken from {best.topic}" for other in others}
        return best

    def _odometry(self, topics: Sequence[SeenTopic], imu: SeenTopic | None, fix: SeenTopic | None) -> None:
        """Odometry that says how it was fused is believed before GPS and IMU, wheels' only without these."""

        def rank(seen: SeenTopic) -> tuple[Any, ...]:
            return "/Pose" in seen.type, not FUSED.search(seen.topic.lower()), not seen.has_sigma, -seen.hz

        has_both = imu is not None and fix is not None
        if has_both and not any(FUSED.search(seen.topic.lower()) for seen in topics):
            for seen in topics:
                self._left_out[seen.topic] = "GPS and IMU are there, which do not drift as wheels do"
        elif self._one(topics, "odometry", Role.ODOMETRY, rank) is None and not has_both:
            every = ((t, t.pairs[child]) for t in self._topics.values() for child in t.moving)
            moves = [each for each in every if bare(each[1].parent) in WORLD]
            for seen, made in sorted(moves, key=lambda each: bare(each[1].parent) != "odom")[:1]:
                self._add("tf_odometry", seen, Role.ODOMETRY)
                self._entries[-1].rule |= {"parent_frame": made.parent, "child_frame": made.child}

    # ------------------------------------------------------------------ entries
    @property
    def _used(self) -> set[str]:
        return {each.seen.topic for each in self._entries}

    def _add(self, name: str, seen: SeenTopic, role: Role) -> None:
        rule = self._rule(seen, role)
        said = [f"{seen.hz:.3g} Hz"] if seen.hz else []
        if seen.form:
            said.append(seen.form if seen.size is None else f"{seen.form} {seen.size[0]}x{seen.size[1]}")
        if seen.points:
            said.append(f"{seen.points:,} points")
        if seen.frame and role not in {Role.TF, Role.GPS}:
            said.append(f"frame {seen.frame}")
        if moving := [each for each in self._ancestors(seen.frame) if each in self._mounts]:
            parent, topic = self._moving[moving[0]]
            said.append(f"on a mount that moves ({moving[0]} in {parent}, {topic})")
        if role.sensor.kind is not CALIBRATION and abs(min(seen.lags_ns, default=0)) >= OTHER_CLOCK_NS:
            # Stamped by its first column (Ouster, Velodyne) a sweep comes a turn later, by its last at once.
            turn_ms = 800 / seen.hz if role is Role.LIDAR_POINTS and seen.hz else 0.0
            guess_ms = max(
                [turn_ms, *(r.latency_ms or 0.0 for r in MAIVIN_TOPICS.values() if r.role is role)]
            )
            rule["latency_ms"] = round(guess_ms if seen.ends_ns is None else seen.ends_ns / 1e6 + PACKED_MS)
            said.append("stamps of another clock; its latency is a guess")
        elif role.sensor.kind is not CALIBRATION and seen.sound and not seen.lags_ns:
            rule["latency_ms"] = 0
            said.append("no stamps; its latency is taken to be none")
        if seen.topic in self._views:
            said.append(f"depth {self._views[seen.topic]}")
        rule |= _pairing(seen, role)
        self._entries.append(_Entry(name, seen, rule, ", ".join(said)))

    def _rule(self, seen: SeenTopic, role: Role, **more: str) -> dict[str, Any]:
        """What an entry begins with: role and topic, and of which device it is."""
        rule: dict[str, Any] = {"role": role, "topic": seen.topic, **more}
        if (device := self._device_of(seen)) and role is not Role.TF:
            rule["device"] = device
        if prefix := self._prefixes.get(device):
            rule["frame_prefix"] = prefix
        return rule

    def _unplaced(self) -> Iterator[str]:
        """A line for each sensor of which nothing says where it is."""
        for entry in self._entries:
            role, frame = entry.rule["role"], entry.seen.frame
            if role in PLACED and set(self._ancestors(frame)).isdisjoint(self._ancestors(self._rig)):
                looking = ", looking ahead" if role == Role.CAMERA else ""
                named = f"frame {visible(frame)}" if frame else "no frame"
                yield f"{entry.name} ({named}): at the rig's origin{looking}"

    def _ancestors(self, frame: str, *, moving: bool = False) -> list[str]:
        parents = {child: parent for child, (parent, _) in self._moving.items()} if moving else {}
        parents |= self._parents
        found = [frame]
        while found[-1] in parents and parents[found[-1]] not in found:
            found.append(parents[found[-1]])
        return found

    def _hang(self) -> None:
        """Count what moves in the rig as connected with it; what carries the rig is odometry's."""
        chains = {child: self._ancestors(child, moving=True)[1:] for child in self._moving}
        self._mounts |= {child for child, above in chains.items() if self._rig in above}
        self._parents |= {child: self._moving[child][0] for child in self._mounts}

    def _rig_frame(self, lead: SeenTopic, sensors: Iterable[SeenTopic]) -> str:
        """base_link if it is above a sensor, else what most of them hang on, which no transform moves."""
        frames = [seen.frame for seen in sensors if seen.frame]
        above = {f for frame in frames for f in self._ancestors(frame, moving=True)[1:]}
        prefix = self._prefixes.get(self._device_of(lead), "")
        if usual := [rig for rig in (prefixed(rig, prefix) for rig in RIGS) if rig in above]:
            return usual[0]
        below = Counter(f for frame in frames for f in self._ancestors(frame)[1:] if f not in WORLD)
        most = max(below.values(), default=0)
        return next((f for f in reversed(self._ancestors(lead.frame)) if below[f] == most > 0), RIGS[0])

    # ------------------------------------------------------------------ the text
    def _finished(self) -> Suggestion:
        topics = {each.name: {**each.rule, "role": each.rule["role"].value} for each in self._entries}
        topics |= {name: {"topic": ""} for name in self._turned_off(topics)}
        values = self._settings() | {"topics": topics}
        build_config(values)
        said = [f"made of {self._source}: correct what is wrong"]
        said += [f"{entry.name}: {entry.comment}" for entry in self._entries]
        if unplaced := [*self._unplaced()]:
            said += [f"no transform leads to {self._rig}, so it is assumed of:", *unplaced]
        used = {entry.seen.topic: entry.rule["role"] for entry in self._entries}
        return self._made(values, used, said)

    def _made(self, values: Mapping[str, Any], used: Mapping[str, Role], said: list[str]) -> Suggestion:
        left_out = {name: why for name, why in self._left_out.items() if name not in used}
        taken = [self._topics[name] for name in used]
        lost = {name: why for name in left_out if (why := lost_sensor(self._topics[name], taken))}
        return Suggestion(values, used, left_out, lost, said)

    def _settings(self) -> dict[str, Any]:
        """Values besides topics."""
        # A car skids at times.
        is_free = any(seen.sideways > 0.2 * seen.sound for seen in self._topics.values())
        return {
            "prefix": "",
            "host": "robot",
            **({"reference": self._reference} if self._reference != "camera" else {}),
            **({"rig_frame": self._rig} if self._rig != RIGS[0] else {}),
            **({"ego": {"non_holonomic": False}} if is_free else {}),
        }

    def _turned_off(self, topics: Mapping[str, object]) -> list[str]:
        """Default entries that would take a topic which another entry takes, or nothing is to take."""
        there = {name.strip("/") for name in self._topics}
        return [
            name
            for name, rule in MAIVIN_TOPICS.items()
            if name not in topics and any(n.strip("/") in there for n in rule.plain_names)
        ]


class _Names:
    """Names of entries: what tells a sensor from others of its kind."""

    def __init__(self) -> None:
        self._taken: set[str] = set()

    def of(self, seen: SeenTopic, usual: str, *, many: bool) -> str:
        """A name that is free; the usual one if there is one sensor of the kind."""
        words = [word for word in re.split(r"[^a-z0-9]+", seen.topic.lower()) if word]
        kind = SHORT.get(usual, usual)
        told = [word for word in words if not NOISE.fullmatch(word) and word not in kind.split("_")]
        own, every = ("_".join(dict.fromkeys(each))[:48] for each in (told, words))
        says_kind = usual == "camera" or any(re.fullmatch(rf"{kind}\d+", word) for word in told)
        short = own if own and says_kind else f"{own}_{kind}".strip("_")
        tried = chain([short, every], (f"{short}_{number}" for number in count(2))) if many else iter([usual])
        name = next(
            each
            for each in tried
            if each not in self._taken and not (many and each in MAIVIN_TOPICS and each != usual)
        )
        self._taken.add(name)
        return name


def _role(seen: SeenTopic) -> tuple[Role | None, str]:
    """What a topic can be used as, or why it cannot be used."""
    reasons = {
        f"it cannot be decoded: {seen.fault}": not seen.sound and bool(seen.fault),
        packet_advice(seen.type): bool(packet_advice(seen.type)),
        f"{seen.type} is not used": is_any_text(seen.topic, seen.type)
        or not any(seen.type in kinds for kinds in TYPES.values()),
        "no name that ROS allows": is_pattern(seen.topic),
        "no pose of the robot, by its name or as it comes too seldom": "/Pose" in seen.type
        and (seen.hz < 2 or GOAL.search(seen.topic.lower()) is not None),
        "nothing came of it": not seen.count,
    }
    if why := next((reason for reason, holds in reasons.items() if holds), ""):
        return None, why
    role = likely_role(ExistingTopic(seen.topic, seen.type)) or (Role.TF if seen.type == TF else None)
    moves = {"doppler", "radial_speed", "range_rate", "rcs", "velocity"}
    if role is Role.LIDAR_POINTS and moves & {name.lower() for name in seen.fields}:
        role = Role.RADAR_TARGETS
    if role is Role.CAMERA and seen.form in {"16UC1", "32FC1"} and not _is_thermal(seen):
        role = Role.DEPTH
    elif seen.form == "32FC1" and _is_thermal(seen):
        return None, "temperatures in 32FC1 are no picture: have the driver send mono16"
    return role, "" if role is not None else f"{seen.type} is not used"


def lost_sensor(seen: SeenTopic, used: Iterable[SeenTopic]) -> str:
    """Why a sensor that sent something cannot be read; empty if it can, or one that is used has the same."""
    role, why = _role(seen)
    if not seen.count or role is not None or not _SENSING.search(seen.type):
        return ""
    if _PICTURES.search(seen.type.lower()):
        is_there = any((one.space, one.stem) == (seen.space, seen.stem) for one in used)
    else:
        is_there = any(one.points and _is_within(one.space, seen.space) for one in used)
    return "" if is_there else why


def _is_thermal(seen: SeenTopic) -> bool:
    """Whether a gray camera of 16 bits measures temperatures, by its names."""
    named = re.search(r"(\b|_)(thermal|lwir|flir|boson|lepton)", f"{seen.topic} {seen.frame}".lower())
    return named is not None and seen.form in {"mono16", "16UC1", "32FC1"}


def _prefixes(topics: Collection[SeenTopic], devices: Collection[str]) -> dict[str, str]:
    """By device, what its frames' names are to begin with; empty unless several call frames alike."""
    named: dict[str, set[str]] = defaultdict(set)
    for seen in topics:
        sensor = {seen.frame} if seen.form or seen.points else set()
        named[device if (device := first_part(seen.topic)) in devices else ""] |= {*seen.pairs} | sensor
    shared = named.pop("", set()) | {""}
    every = Counter(frame for frames in named.values() for frame in frames - shared)
    return {each: each for each in devices} if any(times > 1 for times in every.values()) else {}


def _with_prefix(seen: SeenTopic, prefix: str) -> SeenTopic:
    if not prefix:
        return seen
    pairs = {prefixed(child, prefix): with_prefix(made, prefix) for child, made in seen.pairs.items()}
    moving = {prefixed(child, prefix) for child in seen.moving}
    return replace(seen, frame=prefixed(seen.frame, prefix), pairs=pairs, moving=moving)


def _is_derived(seen: SeenTopic) -> bool:
    return bool(DERIVED.search(seen.topic.lower()))


def _is_within(one: str, other: str) -> bool:
    """Whether one of two namespaces is in the other."""
    a, b = one.split("/") if one else [], other.split("/") if other else []
    return a[: len(b)] == b or b[: len(a)] == a


def _pairing(seen: SeenTopic, role: Role) -> dict[str, Any]:
    """How near in time its messages are to be, and whether samples need one."""
    default = next((r for r in MAIVIN_TOPICS.values() if r.role is role), None)
    rule = {"required": default.required} if default is not None and default.required else {}
    if role is Role.CAMERA or role.sensor.kind is not COMPANION:
        return rule
    if 0 < seen.hz < 4:  # is not repeated from sample to sample
        return rule | {"policy": "once", "tolerance_ms": float(min(1000, round(500 / seen.hz)))}
    if default is not None and default.tolerance_ms != 50.0 and role is not Role.RADAR_CUBE:
        return rule | {"tolerance_ms": default.tolerance_ms}
    if 0 < seen.hz < 9:  # 50 ms are half of the usual 10 Hz, which are never exact
        return rule | {"tolerance_ms": float(math.ceil(500 / seen.hz))}
    return rule


def _calibrations(
    cameras: Sequence[SeenTopic], infos: Sequence[SeenTopic], depths: Sequence[SeenTopic]
) -> dict[str, list[SeenTopic]]:
    """CameraInfo by camera: of its namespace, else in its frame and no other's namespace, or the only one."""
    spaces = {each.space for each in (*cameras, *depths)}
    found: dict[str, list[SeenTopic]] = defaultdict(list)
    for info in sorted(infos, key=lambda each: (each.space not in spaces, each.topic)):
        there = [camera for camera in cameras if camera.space == info.space]
        if not there and info.space not in spaces:
            there = [camera for camera in cameras if camera.frame and camera.frame == info.frame]
        if not there and len(cameras) == len(infos) == 1:
            there = [*cameras]
        if there:
            is_other = [camera.frame != info.frame for camera in there]
            found[there[is_other.index(min(is_other))].topic].append(info)
    return found


def _imu_rank(seen: SeenTopic) -> tuple[Any, ...]:
    return bool(OF_CAMERAS.search(seen.topic.lower())), not seen.has_turn, "raw" in seen.topic, -seen.hz


def _encoding_rank(seen: SeenTopic) -> tuple[Any, ...]:
    """Encoded pictures before raw ones, colour before grey, as taken before rectified, large before small."""
    words = set(re.split(r"[_/-]", seen.topic.lower()))
    width, height = seen.size or (0, 0)
    kinds = ("JPEG", "H.264", "H.265", "PNG")
    kind = kinds.index(seen.form) if seen.form in kinds else len(kinds)
    is_grey = bool({"mono", "gray", "grey"} & words) or seen.form.startswith("mono")
    return is_grey, "rect" in words, bool({"resized", "scaled"} & words), kind, -width * height, seen.topic
