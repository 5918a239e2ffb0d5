"""Which topic has which role: names of several device generations, prefixes, regular expressions, types."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import cache
from itertools import takewhile

import numpy as np
import numpy.typing as npt

from edgefirst_ros.config.model import MAIVIN_TOPICS, Config, Quaternion, TopicRule
from edgefirst_ros.config.names import fits, is_full, is_pattern
from edgefirst_ros.model.camera import CameraInfo
from edgefirst_ros.model.errors import ConfigError
from edgefirst_ros.model.sensors import SENSORS, Role, SensorKind, roles_of
from edgefirst_ros.model.transform import (
    Transform,
    frame_in_base,
    matrix_of,
    prefixed,
    quaternion_of,
    quaternion_of_angles,
    unit,
)

TF, TEXT = "tf2_msgs/msg/TFMessage", "std_msgs/msg/String"
OFTEN_OTHER: Mapping[str, tuple[Role, str]] = {
    TF: (Role.TF, "tf_static"), TEXT: (Role.ROBOT_DESCRIPTION, "robot_description"),
}  # fmt: skip
"""Types of which only topics with this ending have the role: transforms move, and texts say anything."""
TYPES: Mapping[Role, tuple[str, ...]] = {role: tuple(sensor.decoders) for role, sensor in SENSORS.items()}
"""Message types that a role may have; messages of other types are refused."""
CONTEXT_ROLES = roles_of(SensorKind.CALIBRATION)
"""Roles whose latest message describes other sensors."""
EGO_ROLES = roles_of(SensorKind.MOTION)
COMPANION_ROLES = roles_of(SensorKind.COMPANION)
LABEL_ROLES = frozenset({Role.MODEL, Role.MASK})
"""Roles whose messages say what is in a picture, be it nothing; boxes in space need none."""
OF_PICTURES = LABEL_ROLES | {Role.BOXES_3D, Role.DEPTH}
"""Roles whose messages are of one camera's pictures, and say nothing of another's."""
_RECTIFIED = re.compile(r"[/_]rect(ified)?([/_]|$)")
"""How image_proc, and drivers that rectify, name topics: image_rect, image_rect_color, left_rect/image."""
OPTICAL_AXES = np.array([[0.0, 0.0, 1.0], [-1.0, 0.0, 0.0], [0.0, -1.0, 0.0]])
"""Of a camera that looks along x: z ahead, x right (REP 103)."""
_OF_SENSOR: Mapping[Role, Role] = {
    Role.CAMERA_INFO: Role.CAMERA,
    Role.RADAR_INFO: Role.RADAR_TARGETS,
    Role.RADAR_CUBE: Role.RADAR_TARGETS,
}
"""Roles whose messages are of a sensor that another topic is named after."""
MAX_UNUSED = 64
"""Topics without a use that are counted one by one; the rest is counted as ``OTHER_TOPICS``."""
OTHER_TOPICS = "(other topics)"
SHOWN_TOPICS = 12
"""Messages to the user name at most this many topics."""


@cache
def full_type(schema: str) -> str:
    """``pkg/msg/Type`` for a type that is given as that or as ``pkg/Type``; recorders write either."""
    package, _, name = schema.partition("/")
    return schema if "/" in name or not name else f"{package}/msg/{name}"


def is_any_text(topic: str, kind: str) -> bool:
    """Whether a topic of texts is none whose texts can be used."""
    return kind == TEXT and not topic.endswith(OFTEN_OTHER[TEXT][1])


@dataclass(frozen=True, slots=True)
class Route:
    """What a topic is used for.

    Attributes:
        topic: the topic, as its source names it.
        name: the entry of ``config.topics`` that it matches.
        rule: role and rules of that entry.
        replaced_by: the topic that the entry takes instead of this one; empty if it takes this one.
        sensor: the sensor that it is of, or that it describes.
        frame: the frame of its messages if the configuration says where the sensor is; else they name it.
    """

    topic: str
    name: str
    rule: TopicRule
    replaced_by: str = ""
    sensor: str = ""
    frame: str = ""


def _prefix_of(topic: str, relative: str) -> str | None:
    bare, relative = topic.strip("/"), relative.strip("/")
    if bare == relative:
        return ""
    return bare.removesuffix("/" + relative) if bare.endswith("/" + relative) else None


def find_prefix(topics: Iterable[str], config: Config) -> str:
    """The prefix of the device's topics: the configured one, else that of most topics; empty for none.

    Names with the prefix ``rt`` and without prefix may be of the same device: one generation mixes them.

    Raises:
        ConfigError: two prefixes have equally many topics; the message names them.
    """
    if config.prefix is not None:
        return config.prefix.strip("/")
    known = list(topics)
    votes: Counter[str] = Counter()
    for rule in config.topics.values():
        for name in rule.plain_names:
            if not name.startswith("/"):
                votes.update({p for t in known if (p := _prefix_of(t, name)) is not None})
    if votes["rt"] and votes[""]:
        votes["rt"] += votes.pop("")
    ranked = votes.most_common()
    if not ranked:
        return ""
    tied = sorted(prefix for prefix, count in ranked if count == ranked[0][1])
    if len(tied) > 1:
        shown = ", ".join(repr(p) for p in tied[:SHOWN_TOPICS]) + ", …" * (len(tied) > SHOWN_TOPICS)
        raise ConfigError([f"topics of more than one device: prefixes {shown}; choose one with --prefix"])
    return tied[0]


@dataclass(frozen=True, slots=True)
class _Match:
    """An entry of ``config.topics`` that a topic matches, and the index of the name by which it does."""

    entry: str
    rule: TopicRule
    place: int


class TopicMap:
    """Finds the route of each topic.

    An entry of ``config.topics`` takes one topic. If it has several names or a regular expression, several
    topics may match. It then takes the first in this order, whichever is received first: topics of a type
    that the role may have, the reference, the order of the entry's names, alphabetical order. A topic that
    an entry names in full belongs to that entry, even if names under a prefix or regular expressions of other
    entries match.

    Args:
        config: the configuration.
        prefix: prefix of the device's topics.
        known: (topic, type) of all topics, if they are known; otherwise call ``choose``.

    Attributes:
        notes: a sentence for every entry that several topics match: the one taken, and why.
    """

    def __init__(self, config: Config, prefix: str, known: Iterable[tuple[str, str]] | None = None) -> None:
        self.prefix = prefix
        above, _, last = prefix.rpartition("/")
        # One generation has names with the prefix rt and without.
        self._roots = [f"{each}/" if each else "" for each in ([prefix, above] if last == "rt" else [prefix])]
        self.notes: list[str] = []
        self._reference = config.reference.strip("/")
        self._plain: dict[str, _Match] = {}
        self._patterns: list[tuple[str, _Match]] = []
        self._types: dict[str, str] = {}
        self._found: dict[tuple[str, str], _Match | None] = {}
        self._taken: dict[str, str] = {}
        placed = {entry: rule for entry, rule in config.topics.items() if rule.mount.is_given}
        self._placed = {sensor_of(n, rule) for n, rule in placed.items() if rule.role is not Role.TF}
        self._described = {
            role: [
                (sensor_of(entry, rule), MAIVIN_TOPICS.get(entry) == rule, name)
                for entry, rule in config.topics.items()
                for name in rule.names
                if rule.role is role
            ]
            for role in set(_OF_SENSOR.values())
        }
        every = [(n, e, r, place) for e, r in config.topics.items() for place, n in enumerate(r.names)]
        # Full names last: a name under the prefix does not take what another entry names in full; nor does a
        # default entry take what an entry of the user's names.
        every.sort(key=lambda each: (each[0].startswith("/"), MAIVIN_TOPICS.get(each[1]) != each[2]))
        for name, entry, rule, place in every:
            self._add(name, _Match(entry, rule, place))
        if known is not None:
            self.choose(known)

    def route(self, topic: str, schema: str = "") -> Route | None:
        """The route of a topic; None if it matches no entry.

        Regular expressions match topics of the role's types only; the type is remembered for later calls.
        """
        if schema:
            self._types[topic] = schema
        match = self._match(topic, schema or self._types.get(topic, ""))
        if match is None:
            return None
        taken = self._taken.get(match.entry, topic)
        replaced_by = "" if taken.strip("/") == topic.strip("/") else taken
        sensor = self._sensor(topic, match)
        frame = sensor if sensor in self._placed else ""
        return Route(topic, match.entry, match.rule, replaced_by, sensor, frame)

    def _sensor(self, topic: str, match: _Match) -> str:
        """Of a CameraInfo the camera whose name is most like its own; likewise of a RadarInfo and a cube.

        The device's own sensors, which other robots do not have, count for the device's own messages first.
        """
        rule = match.rule
        described = self._described.get(_OF_SENSOR.get(rule.role, rule.role), ())
        if rule.sensor or rule.mount.is_given or rule.role not in _OF_SENSOR or not described:
            return sensor_of(match.entry, rule)
        is_own = MAIVIN_TOPICS.get(match.entry) == rule
        name = topic if is_pattern(rule.names[match.place]) else rule.names[match.place]
        return max(described, key=lambda each: (each[1] == is_own, *_likeness(name, each[2])))[0]

    def is_named(self, topic: str, rule: TopicRule) -> bool:
        """Whether an entry names a topic, be it another one that takes it."""
        bare = topic.strip("/")
        under = bare.removeprefix(f"{self.prefix}/")
        return any(fits(name, bare if is_full(name) else under) for name in rule.plain_names)

    def has_chosen(self, entry: str) -> bool:
        """Whether an entry that several topics may match has taken one."""
        return entry in self._taken

    def choose(self, topics: Iterable[tuple[str, str]]) -> None:
        """Choose one of these (topic, type) for every entry that several topics may match, once for each."""
        fitting: dict[str, list[tuple[tuple[bool, bool, int, str], str]]] = {}
        rules: dict[str, TopicRule] = {}
        for topic, kind in dict.fromkeys(topics):
            schema = full_type(kind) or self._types.get(topic, "")
            if schema:
                self._types[topic] = schema
            match = self._match(topic, schema)
            if match is not None and match.rule.is_choice and match.entry not in self._taken:
                bare = topic.strip("/")
                is_wrong = bool(schema) and schema not in TYPES[match.rule.role]
                rank = (is_wrong, bare != self._reference, match.place, bare)
                fitting.setdefault(match.entry, []).append((rank, topic))
                rules[match.entry] = match.rule
        for entry, ranked in fitting.items():
            ranked.sort()
            (best, self._taken[entry]), *others = ranked
            if others:
                self.notes.append(choice_note(entry, [t for _, t in ranked], _reason(best, others[0][0])))

    def _add(self, name: str, match: _Match) -> None:
        if is_pattern(name):
            self._patterns.append((name, match))
            return
        for root in [""] if name.startswith("/") else self._roots:
            self._plain[root + name.strip("/")] = match

    def _match(self, topic: str, schema: str) -> _Match | None:
        key = (topic, schema)
        if key not in self._found:
            self._found[key] = self._plain.get(topic.strip("/")) or self._pattern(topic.strip("/"), schema)
        return self._found[key]

    def _pattern(self, bare: str, schema: str) -> _Match | None:
        relative = {bare.removeprefix(root) for root in self._roots if bare.startswith(root)}
        for name, match in self._patterns:
            names = {bare} if is_full(name) else relative
            if (not schema or schema in TYPES[match.rule.role]) and any(fits(name, each) for each in names):
                return match
        return None


def sensor_of(entry: str, rule: TopicRule) -> str:
    """Name of the sensor that an entry of ``config.topics`` is of."""
    return rule.sensor or entry


def leading_device(config: Config) -> str:
    """The device whose sensors tell the rig's motion: the reference's, else the first that has any."""
    wanted = config.reference.strip("/")
    rules = {name: rule for name, rule in config.topics.items() if rule.topic}
    moving = [each.device for each in _of_devices(r for r in rules.values() if r.role in EGO_ROLES)]
    first = _of_devices(rule for name, rule in rules.items() if refers_to(wanted, name, rule))[:1]
    return next((device for device in [*(r.device for r in first), *moving] if device in moving), "")


def motion_entries(config: Config) -> frozenset[str]:
    """Entries of ``topics`` that tell the rig's motion; those of other devices tell their clocks only."""
    lead, found = leading_device(config), set[str]()
    for role in EGO_ROLES:
        entries = {name: rule for name, rule in config.topics.items() if rule.topic and rule.role is role}
        devices = [rule.device for rule in _of_devices(entries.values())]
        device = lead if lead in devices else next(iter(devices), "")
        found.update(name for name, rule in entries.items() if rule.device == device)
    return frozenset(found)


def _of_devices(rules: Iterable[TopicRule]) -> list[TopicRule]:
    """Those that name their device; all of them if none does."""
    every = list(rules)
    return [rule for rule in every if rule.device] or every


def placed(config: Config) -> dict[str, Transform]:
    """Where sensors are by the configuration, by their frames."""
    found: dict[str, Transform] = {}
    for entry, rule in config.topics.items():
        if rule.mount.is_given:
            frame, parent = sensor_of(entry, rule), rule.mount.frame or config.rig_frame
            if rule.role is Role.TF:
                frame = prefixed(config.rig_frame.rpartition("/")[2], rule.frame_prefix)
            found[frame] = Transform(parent, frame, rule.mount.xyz_m or (0.0, 0.0, 0.0), _turn(rule))
    return found


def motion_place(config: Config, role: Role) -> npt.NDArray[np.float64]:
    """Where what tells the rig's motion is in it (4, 4), by the configuration; at its origin by default."""
    for entry in sorted(motion_entries(config)):
        rule = config.topics[entry]
        if rule.role is role and rule.mount.is_given:
            T_sensor_rig = frame_in_base(placed(config), sensor_of(entry, rule), config.rig_frame)
            if T_sensor_rig is not None:
                return T_sensor_rig
    return np.eye(4)


def rig_from_imu(config: Config) -> Quaternion | None:
    """How the IMU is turned in the rig, by the configuration; None if its axes are the rig's."""
    turn = motion_place(config, Role.IMU)[:3, :3]
    if np.array_equal(turn, np.eye(3)):
        return None
    x, y, z, w = quaternion_of(turn).tolist()
    return x, y, z, w


def camera_infos(config: Config) -> dict[str, CameraInfo]:
    """The calibration of cameras that the configuration has, by sensor."""
    rules = config.topics.items()
    return {sensor_of(entry, rule): info for entry, rule in rules if (info := rule.camera_info) is not None}


def rectified_cameras(config: Config) -> frozenset[str]:
    """Cameras whose pictures are rectified, as the names of their topics say."""
    cameras = ((entry, rule) for entry, rule in config.topics.items() if rule.role is Role.CAMERA)
    return frozenset(
        sensor_of(entry, rule)
        for entry, rule in cameras
        if rule.names and all(map(_RECTIFIED.search, rule.names))
    )


def _turn(rule: TopicRule) -> tuple[float, float, float, float]:
    """How a placed sensor is turned in the frame that it is mounted in."""
    if rule.mount.xyzw is not None and (given := unit(rule.mount.xyzw)) is not None:
        return given
    turn = matrix_of(quaternion_of_angles(np.radians(rule.mount.rpy_deg or (0.0, 0.0, 0.0))))
    axes = OPTICAL_AXES if rule.role is Role.CAMERA else np.eye(3)
    x, y, z, w = map(float, quaternion_of(turn @ axes))
    return x, y, z, w


def _likeness(one: str, other: str) -> tuple[int, float]:
    """How many parts of two names are the same from the first on, the last aside; then how alike they are."""
    a, b = one.strip("/"), other.strip("/")
    same = takewhile(lambda pair: pair[0] == pair[1], zip(a.split("/")[:-1], b.split("/")[:-1], strict=False))
    return len(list(same)), SequenceMatcher(None, a, b, autojunk=False).ratio()


def _reason(best: tuple[bool, bool, int, str], other: tuple[bool, bool, int, str]) -> str:
    if best[0] != other[0]:
        return "whose type fits"
    if best[1] != other[1]:
        return "which is the reference"
    return "which is named first" if best[2] != other[2] else "the first by name"


def choice_note(entry: str, topics: Sequence[str], reason: str) -> str:
    """The note about an entry that several topics match, of which it takes the first."""
    others = ", ".join(topics[1 : SHOWN_TOPICS + 1]) + ", …" * (len(topics) > SHOWN_TOPICS + 1)
    return (
        f"topics.{entry} takes {topics[0]}, {reason}; it fits {others} as well: "
        "give each that you want an entry of its own, with its role"
    )


def refers_to(wanted: str, entry: str, rule: TopicRule, topic: str = "") -> bool:
    """Whether ``wanted``, the name of a topic, an entry or a role, is this entry's or this topic's."""
    plain = [name.strip("/") for name in rule.names]
    if wanted in (topic.strip("/") or None, entry, rule.role, *plain):
        return True
    return not topic and any(fits(name, wanted) for name in rule.names if is_pattern(name))


def reference_role(config: Config) -> Role:
    """The role of the reference by the configuration alone, for a capture before its first message.

    Raises:
        ConfigError: ``config.reference`` names no entry that can be the reference; the message lists those.
    """
    wanted = config.reference.strip("/")
    possible = {n: r for n, r in config.topics.items() if r.topic and r.role in COMPANION_ROLES}
    for entry, rule in possible.items():
        if refers_to(wanted, entry, rule):
            return rule.role
    head = f"no topic for the reference {config.reference!r}"
    raise ConfigError([f"{head}; name one with --reference: {', '.join(sorted(possible))}"])


def choose_reference(config: Config, topics: Iterable[str], routes: TopicMap) -> tuple[Role, frozenset[str]]:
    """The reference's role and its topics: one, or the four tiles of one picture.

    ``config.reference`` is a topic, an entry of ``config.topics`` or a role. Of several topics of that role,
    the one whose entry comes first in ``config.topics`` is taken.

    Args:
        config: the configuration.
        topics: all topics of the recording.
        routes: their routes.

    Raises:
        ConfigError: no topic can be the reference; the message lists the topics.
    """
    wanted = config.reference.strip("/")
    known = list(topics)
    present = [r for t in known if (r := routes.route(t)) is not None and not r.replaced_by]
    order = list(config.topics)
    matches = sorted(
        (r for r in present if r.rule.role in COMPANION_ROLES and refers_to(wanted, r.name, r.rule, r.topic)),
        key=lambda r: order.index(r.name),
    )
    if not matches:
        usable = ", ".join(sorted(r.topic for r in present if r.rule.role in COMPANION_ROLES))
        head = f"no topic for the reference {config.reference!r}"
        if usable:
            raise ConfigError([f"{head}; name one with --reference: {usable}"])
        under = f" with the prefix {routes.prefix!r}" if routes.prefix else ""
        there = ", ".join(sorted(known)[:SHOWN_TOPICS]) + ", …" * (len(known) > SHOWN_TOPICS)
        raise ConfigError([f"{head}, and no other topic can be one{under}; topics found: {there or 'none'}"])
    first = matches[0]
    if not first.rule.tile:
        return first.rule.role, frozenset({first.topic})
    tiles = frozenset(r.topic for r in present if r.rule.tile and r.rule.role is first.rule.role)
    return first.rule.role, tiles


def camera_of(config: Config, reference_topics: Iterable[str], routes: TopicMap) -> str:
    """The camera whose pictures samples take: the reference, else the one whose entry comes first."""
    found = filter(None, map(routes.route, sorted(reference_topics)))
    first = next((each.sensor for each in found if each.rule.role is Role.CAMERA), "")
    cameras = [(n, rule) for n, rule in config.topics.items() if rule.role is Role.CAMERA and rule.topic]
    cameras.sort(key=lambda each: not refers_to(config.reference.strip("/"), *each))
    return first or next((sensor_of(*each) for each in cameras), "")


def first_of_role(
    config: Config,
    routes: Iterable[Route],
    reference: str,
    of: TopicRule | None = None,
    apart_m: Callable[[Route], float] = lambda _: 0.0,
) -> Route:
    """Of topics of one role, at least one, the one that samples take; see ``Routing.instead``.

    It is the one that the reference's entry names, else that of its device. A device's topics are in one
    namespace, so the one that shares most of its name's beginning with the reference is of the same device.

    Args:
        config: whole.
        routes: of the topics.
        reference: topic of the reference.
        of: its entry, if it is known.
        apart_m: how far a topic's sensor is from that of the reference.
    """
    order = list(config.topics)

    def rank(route: Route) -> tuple[bool, bool, int, float, int]:
        is_named = of is not None and route.name in of.companion_entries
        is_foreign = of is not None and route.rule.device != of.device
        alike = _likeness(reference, route.topic)[0]
        return not is_named, is_foreign, -alike, apart_m(route), order.index(route.name)

    return min(routes, key=rank)


def is_of_camera(route: Route, camera: Route, others: Iterable[Route]) -> bool:
    """Whether what a topic says of pictures is said of this camera's.

    Its entry names the topic, or its device is the topic's and no other camera's is: an own one, or by names.
    """
    if route.name in camera.rule.companion_entries or route.rule.device != camera.rule.device:
        return route.name in camera.rule.companion_entries
    rivals = [each for each in others if each.rule.device == route.rule.device]
    alike = _likeness(camera.topic, route.topic)[0]
    return all(alike > _likeness(each.topic, route.topic)[0] for each in rivals)
