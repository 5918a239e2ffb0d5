"""One message on its way from decoding to the ledger, and what decides whether it sets out."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Self

from edgefirst_ros.config.model import TopicRule
from edgefirst_ros.config.topics import TYPES, Route
from edgefirst_ros.model.camera import VideoPacket
from edgefirst_ros.model.cdr import Stamped
from edgefirst_ros.model.detection import relabelled
from edgefirst_ros.model.navigation import Odometry, odometry_of
from edgefirst_ros.model.pictures import MOST_PIXELS
from edgefirst_ros.model.pointcloud import PointCloud
from edgefirst_ros.model.radar import radar_cloud
from edgefirst_ros.model.reasons import Reason
from edgefirst_ros.model.registry import decoder
from edgefirst_ros.model.sample import CameraImage, Datum, Measurement, RawMessage, Role
from edgefirst_ros.model.transform import RobotDescription, Transform, Transforms, prefixed, with_prefix
from edgefirst_ros.model.zlib_backend import crc32
from edgefirst_ros.pipeline.ledger import Stage, Ticket
from edgefirst_ros.timing.finding import MessageTimes
from edgefirst_ros.video.headers import Content, content_of
from edgefirst_ros.video.stream import PictureVerdict

Digest = int
"""Size and checksum of a message's bytes, as one number: very many are kept."""


@dataclass(slots=True, eq=False)
class Envelope(MessageTimes):
    """A decoded message with its route and its ticket in the ledger.

    Several messages may be one picture: four tiles are ``parts`` of an envelope of their own, further slices
    of a video picture are ``slices`` of the first one's envelope.

    Attributes:
        arrival: running number over the whole source.
        checksummed: as ``RawMessage.checksummed``.
        content: what a packet of video holds.
        unshown: final stage and reason of a packet that only the decoder needs.
        instead: the topic that samples take for its role; empty if it is this one's.
        cameras: those beside the reference, by sensor, whose own samples take it.
        measurement: what the message says, at its acquisition time; set by ``place``.
        keyframe: whether it is a video key frame, or not video at all.
        unusable: why its picture cannot be decoded, None if it can.
        size: width and height of its picture in pixels, as the headers say.
        verdict: on a packet of video, from when it is judged until its picture is requested.
        image: the encoded picture, once it has been requested.
        content_measures: of what it holds, see ``StreamContent.message``.
    """

    arrival: int
    digest: Digest
    decoded: Stamped[Datum]
    ticket: Ticket
    route: Route
    checksummed: bool = False
    content: Content = Content.PICTURE
    unshown: tuple[Stage, str] | None = None
    instead: str = ""
    cameras: frozenset[str] = frozenset()
    keyframe: bool = True
    unusable: str | None = None
    size: tuple[int, int] | None = None
    verdict: PictureVerdict | None = None
    parts: tuple[Self, ...] = ()
    slices: tuple[Self, ...] = ()
    image: Future[CameraImage] | None = None
    content_measures: Mapping[str, float] = field(default_factory=dict)
    measurement: Measurement = field(init=False)

    def place(self, time_ns: int) -> None:
        """Set the acquisition time, in nanoseconds on the recording's clock."""
        self.time_ns = time_ns
        _, named, datum = self.decoded
        frame_id = self.route.frame or named
        self.measurement = Measurement(
            self.topic, time_ns, self.stamp_ns, self.receive_ns, self.arrival, frame_id, datum
        )

    def mount(self, mounted: Mapping[str, Transform]) -> None:
        """Say where frames on mounts that move are at its time."""
        if mounted:
            self.measurement = self.measurement._replace(mounted=mounted)

    @property
    def is_of_view(self) -> bool:
        """Whether it is of a sensor that samples may take beside their own of its role."""
        return bool(self.cameras) or self.route.rule.role is Role.LIDAR_POINTS

    @property
    def all_parts(self) -> tuple[Envelope, ...]:
        """The messages that it consists of: its tiles or itself, each followed by its further slices."""
        if not (self.parts or self.slices):
            return (self,)
        return tuple(each for part in self.parts or (self,) for each in (part, *part.slices))

    @property
    def whole_size(self) -> tuple[int, int] | None:
        """Size of the picture that this is, or is one of four tiles of; None if unknown or of no camera."""
        width, height = self.size or (0, 0)
        if not 0 < width * height <= MOST_PIXELS:
            return None
        return (2 * width, 2 * height) if self.route.rule.tile else (width, height)


def envelope_of(raw: RawMessage, decoded: Stamped[Datum], ticket: Ticket, route: Route) -> Envelope:
    """The envelope of a decoded message; its time is set later."""
    times = raw.topic, decoded.stamp_ns, raw.publish_ns, raw.receive_ns
    envelope = Envelope(*times, raw.arrival, digest_of(raw), decoded, ticket, route, raw.checksummed)
    envelope.held_bytes = len(raw.data)
    if isinstance(decoded.datum, VideoPacket):
        envelope.content = content_of(decoded.datum)
        envelope.unshown = (
            (Stage.DECODED, Reason.PARAMETER_SETS) if envelope.content is Content.SETS else None
        )
    return envelope


def digest_of(raw: RawMessage, most_bytes: int | None = None) -> Digest:
    """By which messages are compared: of all of their bytes, or no more than the first ones."""
    data = raw.data[:most_bytes]
    return len(data) << 32 | crc32(data)


def unwanted(
    raw: RawMessage, schema: str, route: Route | None, unusable: Mapping[str, str] = MappingProxyType({})
) -> tuple[Stage, str] | None:
    """Stage and reason of a message that is not decoded at all, None for one that is to be.

    ``unusable`` is why nothing can be made of a topic, where that is known.
    """
    if raw.fault:
        return Stage.REFUSED, raw.fault
    if route is None:
        if why := unusable.get(raw.topic):
            return Stage.REFUSED, why
        return Stage.SKIPPED, f"no use for {schema or 'a message without type'} on this topic"
    if route.replaced_by:
        return Stage.SKIPPED, f"topics.{route.name} takes {route.replaced_by}"
    if schema not in TYPES[route.rule.role]:
        return Stage.REFUSED, f"type {schema}, expected {' or '.join(TYPES[route.rule.role])}"
    return None


_RADARS = frozenset({Role.RADAR_TARGETS, Role.RADAR_CLUSTERS})


def decoded_for(
    rule: TopicRule, raw: RawMessage, class_names: Mapping[str, str] = MappingProxyType({})
) -> Stamped[Datum]:
    """A message decoded for its role; transforms between other frames than the rule's stay what they are.

    Args:
        rule: of its topic.
        raw: the message.
        class_names: of labels as sent, which have these names from here on.

    Raises:
        DecodeError: why it cannot be used.
    """
    decoded: Stamped[Datum] = decoder(raw.schema)(raw.data, raw.definition)
    if rule.frame_prefix:
        decoded = _of_device(decoded, rule.frame_prefix)
    if class_names:
        decoded = decoded._replace(datum=relabelled(decoded.datum, class_names))
    if rule.role in _RADARS and isinstance(decoded.datum, PointCloud):
        return decoded._replace(datum=radar_cloud(decoded.datum, rule.fields))
    if rule.role is not Role.ODOMETRY or not isinstance(decoded.datum, Transforms):
        return decoded
    parent, child = (prefixed(frame, rule.frame_prefix) for frame in (rule.parent_frame, rule.child_frame))
    return odometry_of(decoded.datum, parent, child) or decoded


def _of_device(decoded: Stamped[Datum], prefix: str) -> Stamped[Datum]:
    """With the frames of one device of several."""
    stamp_ns, frame_id, datum = decoded
    if isinstance(datum, Transforms | RobotDescription):
        datum = replace(datum, transforms=tuple(with_prefix(each, prefix) for each in datum.transforms))
    elif isinstance(datum, Odometry):
        datum = replace(datum, child_frame_id=prefixed(datum.child_frame_id, prefix))
    return Stamped(stamp_ns, prefixed(frame_id, prefix), datum)
