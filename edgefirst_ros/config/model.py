"""Configuration: one validated model behind the command line, the YAML files and the ROS parameters."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    create_model,
    field_validator,
    model_validator,
)

from edgefirst_ros.config.names import compiled, is_pattern, split_names
from edgefirst_ros.errors import ConfigError
from edgefirst_ros.faults import names_of, sentences
from edgefirst_ros.formats.format import Format
from edgefirst_ros.formats.registry import FORMATS
from edgefirst_ros.sample import Role
from edgefirst_ros.timing.finding import Choice, Rule

Policy = Literal["nearest", "before", "exact"]
Required = Literal["auto", "always", "never"]
Smoothing = Literal["auto", "lag", "whole"]
FormatOptions = TypeVar("FormatOptions", bound=BaseModel)

STRICT = ConfigDict(extra="forbid", frozen=True, validate_default=True, allow_inf_nan=False)

NODE_PARAMETERS = frozenset(
    {
        *("use_sim_time", "start_type_description_service", "qos_overrides"),
        *("output", "name", "session", "depth", "unlisted", "look_every_s", "stop_within_s", "preview"),
        *("autostart", "start_paused", "tf_topic", "bond_heartbeat_period"),
        *("bag", "overwrite", "rate"),
    }
)
"""Parameters of the ROS nodes that are no configuration of the pipeline; their files may hold them."""


if TYPE_CHECKING:
    FormatName = str
else:
    FormatName = Literal[tuple(FORMATS)]


class TopicRule(BaseModel):
    """How one topic takes part: what it is, which time it carries, how it pairs."""

    model_config = STRICT

    topic: str = Field(
        "",
        description="Name without the device's prefix (radar/cube), whole name (/points), or a regular "
        "expression for either (/sensors/.*/points); several in order of preference, as a list or with "
        "blanks between them: one topic is taken. Empty turns it off.",
    )
    role: Role = Field(description="What the topic is to the dataset.")
    tile: Literal["", "tl", "tr", "bl", "br"] = Field(
        "", description="Which quarter of a tiled 4K picture; the four tiles must carry equal stamps."
    )
    clock: Choice = Field("auto", description="Which time its messages carry; auto finds out and says so.")
    latency_ms: float | None = Field(
        None,
        ge=0,
        le=2000,
        description="Usual least time from acquisition to receipt: tells how far another clock is off, and "
        "dates messages without a stamp.",
    )
    offset_ms: float = Field(
        0.0, description="Your own correction, added to every time of the topic, whatever that rests on."
    )
    tolerance_ms: float = Field(50.0, ge=0, le=1000, description="Farthest a companion may be off.")
    policy: Policy = Field("nearest", description="nearest, before (the last one not later) or exact.")
    required: Required = Field(
        "auto",
        description="always: no sample without it; never: optional; auto: required while the topic is alive, "
        "so samples are complete, yet a sensor that dies does not end the dataset.",
    )
    significant_bits: int = Field(
        16,
        ge=9,
        le=16,
        description="Of pictures with 16 bits a sample, how many a sample uses: 2^bits − 1 becomes white.",
    )
    parent_frame: str = Field(
        "odom", description="Of odometry that comes as transforms (/tf): the frame that it moves in."
    )
    child_frame: str = Field(
        "base_link", description="Of odometry that comes as transforms (/tf): the frame that moves."
    )
    expected_hz: float = Field(
        0.0, ge=0, description="Live: the rate it is held to; 0 takes the rate it usually has."
    )

    @field_validator("topic", mode="before")
    @classmethod
    def _listed(cls, value: object) -> object:
        if isinstance(value, list | tuple) and all(isinstance(name, str) for name in value):
            return " ".join(value)
        return value

    @field_validator("topic")
    @classmethod
    def _understood(cls, value: str) -> str:
        names = split_names(value)
        for name in filter(is_pattern, names):
            compiled(name)
        return " ".join(names)

    @property
    def names(self) -> tuple[str, ...]:
        """Plain names and regular expressions of topics that it may take, the first is preferred."""
        return split_names(self.topic)

    @property
    def plain_names(self) -> tuple[str, ...]:
        """Those of them that are no regular expressions."""
        return tuple(name for name in self.names if not is_pattern(name))

    @property
    def is_choice(self) -> bool:
        """Whether more than one topic may fit."""
        return len(self.names) > 1 or any(map(is_pattern, self.names))

    @property
    def times(self) -> Rule:
        """What is said of the topic's times."""
        latency_ns = None if self.latency_ms is None else round(self.latency_ms * 1e6)
        return Rule(self.clock, round(self.offset_ms * 1e6), latency_ns)

    @property
    def tolerance_ns(self) -> int:
        """Pairing tolerance in nanoseconds; exact pairs equal times only."""
        return 0 if self.policy == "exact" else round(self.tolerance_ms * 1e6)


def _rule(role: Role, topic: str, **more: Any) -> TopicRule:  # noqa: ANN401 - any field of the model
    return TopicRule(role=role, topic=topic, **more)


MAIVIN_TOPICS: Mapping[str, TopicRule] = {
    "camera": _rule(Role.CAMERA, "camera/h264", latency_ms=25.0),
    "camera_h265": _rule(Role.CAMERA, "camera/h265", latency_ms=25.0),
    "camera_tl": _rule(Role.CAMERA, "camera/h264/tl", tile="tl", policy="exact", latency_ms=25.0),
    "camera_tr": _rule(Role.CAMERA, "camera/h264/tr", tile="tr", policy="exact", latency_ms=25.0),
    "camera_bl": _rule(Role.CAMERA, "camera/h264/bl", tile="bl", policy="exact", latency_ms=25.0),
    "camera_br": _rule(Role.CAMERA, "camera/h264/br", tile="br", policy="exact", latency_ms=25.0),
    "camera_jpeg": _rule(Role.CAMERA, "camera/jpeg", latency_ms=25.0),
    "camera_info": _rule(Role.CAMERA_INFO, "camera/info"),
    "radar_targets": _rule(Role.RADAR_TARGETS, "radar/targets", latency_ms=15.0),
    "radar_clusters": _rule(Role.RADAR_CLUSTERS, "radar/clusters", required="never"),
    "radar_cube": _rule(Role.RADAR_CUBE, "radar/cube", latency_ms=15.0),
    "radar_info": _rule(Role.RADAR_INFO, "radar/info"),
    "lidar_points": _rule(Role.LIDAR_POINTS, "lidar/points", latency_ms=60.0),
    "lidar_clusters": _rule(Role.LIDAR_CLUSTERS, "lidar/clusters", required="never"),
    "lidar_depth": _rule(Role.LIDAR_DEPTH, "lidar/depth"),
    "lidar_reflect": _rule(Role.LIDAR_REFLECT, "lidar/reflect"),
    "depth": _rule(Role.DEPTH, "camera/depth"),
    # Known to fall short of what it is documented to send, which would pass unnoticed.
    "imu": _rule(Role.IMU, "imu", expected_hz=200.0, latency_ms=3.0),
    "gps": _rule(Role.GPS, "gps", latency_ms=120.0),
    "tf": _rule(Role.TF, "tf_static"),
    # A neighbouring frame's boxes are wrong labels, so a model pairs with its own frame: half of 1/30 s.
    "model": _rule(Role.MODEL, "model/output", tolerance_ms=16.0, latency_ms=70.0),
    "model_boxes2d": _rule(Role.MODEL, "model/boxes2d", tolerance_ms=16.0, latency_ms=70.0),
    "model_mask": _rule(Role.MASK, "model/mask", tolerance_ms=16.0, latency_ms=70.0),
    "model_info": _rule(Role.MODEL_INFO, "model/info"),
    "boxes3d": _rule(Role.BOXES_3D, "fusion/boxes3d", required="never"),
    "fusion_radar": _rule(Role.FUSION_RADAR, "fusion/radar", required="never"),
    "fusion_lidar": _rule(Role.FUSION_LIDAR, "fusion/lidar", required="never"),
}
"""What a Maivin or Raivin sends, by name; a configuration overrides entry by entry.

Latencies are those usual on the device, from the exposure, sweep or scan to the recorder. The imu's decides
what another clock's offset is, since it is the least and so the surest.
"""


def _format_names(value: object) -> object:
    """A list of formats, which may be one name or several with commas between them.

    Raises:
        ValueError: there is no format of such a name.
    """
    names = names_of(value)
    if isinstance(names, list | tuple):
        FORMATS.check_names(name for name in names if isinstance(name, str))
    return names


FormatNames = Annotated[tuple[FormatName, ...], BeforeValidator(_format_names)]


class EgoOptions(BaseModel):
    """How NavSat, IMU and odometry become rig poses."""

    model_config = STRICT

    smoothing: Smoothing = Field(
        "auto",
        description="whole: with all that comes later, the recording is read twice; lag: with what comes "
        "within wait_s, as live; auto: whole where a recording is converted, else lag.",
    )
    max_gap_s: float = Field(5.0, gt=0, description="Longest gap between fixes that is interpolated across.")
    max_dead_reckoning_s: float = Field(
        20.0,
        ge=0,
        description="How far from a fix a position is carried on by the IMU; beyond, it is unknown.",
    )
    max_position_sigma_m: float = Field(
        3.0, gt=0, description="A position carried on is unknown when one standard deviation is larger."
    )
    fix_sigma_m: float = Field(
        0.0,
        ge=0,
        description="Horizontal standard deviation of fixes that state none; 0 learns it from the drive.",
    )
    non_holonomic: bool = Field(
        True,
        description="The vehicle moves where it points, as on wheels. Off: it also moves sideways or flies.",
    )
    hold_s: float = Field(
        2.0, ge=0, description="How long odometry's ends, or a heading without gyroscope, are carried on."
    )
    rig_from_imu_xyzw: tuple[float, float, float, float] | None = Field(
        None, description="How the IMU is mounted: turns its axes into the rig's. Unset: they are the same."
    )
    wait_s: float = Field(
        2.0,
        ge=0,
        description="How long a sample waits for navigation that comes after it, unless its pose is known "
        "before; look-ahead included.",
    )


class OverloadOptions(BaseModel):
    """What a live capture does that cannot keep up."""

    model_config = STRICT

    latency_s: float = Field(
        3.0,
        ge=0,
        description="Live: from a sample's time to the disk at most; where that cannot be kept, samples are "
        "left out evenly. 0 leaves none out: what does not fit into the queue is dropped.",
    )
    shed_first: FormatNames = Field(
        (),
        description="Live: formats whose samples are left out first, in this order; then those that take "
        "longest.",
    )


class Settings(BaseModel):
    """Everything a conversion or capture can be told, but for the formats' own options."""

    model_config = STRICT

    prefix: str | None = Field(None, description="Topic prefix (host name or rt); found when unset.")
    host: str = Field("", description="Host name in sequence names; from the recording's name when empty.")
    topics: dict[str, TopicRule] = Field(default_factory=lambda: dict(MAIVIN_TOPICS))
    reference: str = Field("camera", description="Topic, entry or role that samples are aligned to.")
    rate_hz: float = Field(0.0, ge=0, description="At most so many samples a second; 0 keeps every frame.")
    every_n: int = Field(1, ge=1, description="Keep one reference frame in N.")
    keyframes: bool = Field(False, description="Keep video key frames only; nothing else is decoded.")
    lookahead_s: float = Field(1.0, ge=0.1, le=30, description="Disorder and latency that pairing tolerates.")
    alive_s: float = Field(5.0, gt=0, description="A topic silent for longer no longer counts as required.")
    clock_window_s: float = Field(
        3.0, ge=0.5, le=30, description="How long clocks are watched before one is chosen."
    )
    jpeg_quality: int = Field(90, ge=1, le=100, description="Quality of JPEGs made from video.")
    queue_mb: float = Field(512.0, gt=0, description="Live: messages waiting, at most; then the oldest go.")
    min_free_mb: float = Field(1024.0, ge=0, description="Live: capture ends cleanly when the disk has less.")
    sync_s: float = Field(
        1.0,
        ge=-1.0,
        description="What is written is synced to the disk every so many seconds: a power cut loses no more. "
        "0: after every sample; off, or -1: only when the output is complete.",
    )
    split_every_s: float = Field(
        0.0,
        ge=0,
        description="Live: another session begins after so many seconds of receipt; 0 never. Where there is "
        "video the seam is before the next key frame.",
    )
    split_every_mb: float = Field(
        0.0,
        ge=0,
        description="Live: another session begins when the formats together have written so many MB; "
        "0 never.",
    )
    split_every_m: float = Field(
        0.0,
        ge=0,
        description="Live: another session begins when the rig has driven so many metres, by gps or "
        "odometry; 0 never.",
    )
    record: bool = Field(
        False,
        description="Live: every message that is received, used or not, also goes to an MCAP in recordings/ "
        "below the output. Converting that gives the session's own bytes.",
    )
    record_topics: str = Field(
        "",
        description="Live, with record: which topics besides those used, a regular expression that is "
        'searched in names and "." is every one; empty: those of the device, or in the node\'s namespace, '
        "whose type some configuration could use, raw pictures left out.",
    )
    workers: int = Field(0, ge=0, description="Encoder threads; 0 is one a core. The result is the same.")
    formats: FormatNames = Field(("edgefirst",), min_length=1, description="What to write.")
    ego: EgoOptions = EgoOptions()
    overload: OverloadOptions = OverloadOptions()

    def options(self, of: type[Format[FormatOptions]] | Format[FormatOptions]) -> FormatOptions:
        """The options of a format, whether it is chosen or not."""
        options: FormatOptions = getattr(self, of.name)
        return options

    @property
    def chosen_formats(self) -> list[Format[Any]]:
        """What to write, in the order of ``FORMATS``."""
        return [each for name, each in FORMATS.items() if name in self.formats]

    @property
    def sample_roles(self) -> frozenset[Role]:
        """What the chosen formats make samples of; other roles are never required of a sample."""
        return frozenset[Role]().union(*(f.companions(self.options(f)) for f in self.chosen_formats))

    @field_validator("record_topics")
    @classmethod
    def _expression(cls, value: str) -> str:
        try:
            re.compile(value)
        except re.error as error:
            raise ValueError(f"{value!r} is no regular expression: {error}") from error
        return value

    @field_validator("sync_s", mode="before")
    @classmethod
    def _off(cls, value: object) -> object:
        """YAML reads off as false."""
        return -1.0 if value is False or value == "off" else value

    @model_validator(mode="before")
    @classmethod
    def _overlay_topics(cls, data: Any) -> Any:  # noqa: ANN401 - pydantic hands over whatever the user wrote
        """Merge the user's topics into the Maivin's; an entry's name is its role by default."""
        if not isinstance(data, dict) or not isinstance(data.get("topics"), dict):
            return data
        roles = set(Role)
        merged: dict[str, Any] = {name: rule.model_dump() for name, rule in MAIVIN_TOPICS.items()}
        for name, rule in data["topics"].items():
            own = rule.model_dump() if isinstance(rule, TopicRule) else rule
            if not isinstance(own, dict):
                merged[name] = own
                continue
            base = merged.get(name, {"role": name} if name in roles else {})
            merged[name] = {**base, **own}
        return {**data, "topics": merged}

    @model_validator(mode="after")
    def _one_selection(self) -> Settings:
        given = {"rate_hz": self.rate_hz > 0, "every_n": self.every_n > 1, "keyframes": self.keyframes}
        chosen = [name for name, is_given in given.items() if is_given]
        if len(chosen) > 1:
            raise ValueError(f"{' and '.join(chosen)} exclude one another: give one of them")
        return self


# Formats of other packages have options, too: their fields are made from the table. Code that is checked for
# types gets those of one format from ``options``, which knows their type whoever wrote it.
if TYPE_CHECKING:
    Config = Settings
else:
    FORMATS.reserve([*NODE_PARAMETERS, *Settings.model_fields, *dir(Settings)])
    Config = create_model(
        "Config",
        __base__=Settings,
        __module__=__name__,
        __doc__="Everything a conversion or capture can be told; a field for the options of every format.",
        **{name: (each.options, each.options()) for name, each in FORMATS.items()},
    )


def build_config(values: Mapping[str, Any]) -> Config:
    """Validate plain values into a configuration.

    Raises:
        ConfigError: with one sentence for every fault.
    """
    try:
        return Config.model_validate(dict(values))
    except ValidationError as error:
        raise ConfigError(sentences(error, Config)) from error
