"""Configuration: one validated model behind the command line, the YAML files and the ROS parameters.

Combines the values of a configuration with those that a user chose on the command line.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    Field,
    PrivateAttr,
    ValidationError,
    create_model,
    field_serializer,
    field_validator,
    model_validator,
)

from edgefirst_ros.config.camerafile import CameraFile, camera_file
from edgefirst_ros.config.names import compiled, is_pattern, split_names
from edgefirst_ros.formats.format import Format, OptionsModel
from edgefirst_ros.formats.registry import FORMATS
from edgefirst_ros.model.camera import CameraInfo
from edgefirst_ros.model.errors import ConfigError, names_of, sentences, shown, unknown_parameter
from edgefirst_ros.model.sample import Role, SixteenBits
from edgefirst_ros.model.transform import bare
from edgefirst_ros.timing.finding import Choice, Rule

ALL = "all"
"""In ``select.require``: every sensor."""
AUTO = "auto"
"""In ``select.require``: whatever a frame has."""
SHORT_ROLES = {"lidar": "lidar_points", "radar": "radar_targets", "cube": "radar_cube"}
"""In ``select.require``: what a word stands for."""
SELECTIONS = ("rate_hz", "select.every", "select.keyframes")
"""Options that exclude one another."""
_UNITS = {"s": 1.0, "min": 60.0, "h": 3600.0, "MB": 1e6, "GB": 1e9}
_LIMIT = re.compile(rf"([0-9]+(?:[.][0-9]+)?)({'|'.join(_UNITS)})")
Policy = Literal["nearest", "before", "exact", "once"]
Length = Annotated[float, Field(ge=-1000, le=1000, allow_inf_nan=False)]
"""Metres, or degrees: what is farther from the rig is not on it."""
Vector = tuple[Length, Length, Length]
Side = Annotated[float | None, Field(gt=0, le=100)]
AtLeast0 = Annotated[float, Field(ge=0)]
Name = Annotated[str, Field(max_length=64)]
_MOST_OFF_UNIT = 0.01
"""Of a quaternion's length: two decimals are enough for a mounting."""


def _of_length_one(value: tuple[float, float, float, float]) -> tuple[float, float, float, float]:
    length = math.hypot(*value)
    if not abs(length - 1) <= _MOST_OFF_UNIT:
        raise ValueError(f"expected a quaternion of length 1, found one of {length:.4g}: give x, y, z, w")
    return value


Quaternion = Annotated[tuple[float, float, float, float], AfterValidator(_of_length_one)]
Required = Literal["", "auto", "always", "never"]
Smoothing = Literal["auto", "lag", "whole"]
FormatOptions = TypeVar("FormatOptions", bound=BaseModel)

NODE_PARAMETERS = frozenset(
    split_names(
        "use_sim_time start_type_description_service qos_overrides output name session unlisted "
        "stop_within_s preview autostart start_paused bond_heartbeat_period bag overwrite rate"
    )
)
"""Parameters of the ROS nodes that do not configure the pipeline; configuration files may contain them."""


if TYPE_CHECKING:
    FormatName = str
else:
    FormatName = Literal[tuple(FORMATS)]


_IN = Field(
    "",
    max_length=256,
    description="The frame that the place is in, instead of the rig's. Set it for a sensor on a mast.",
)
if TYPE_CHECKING:
    _Inside = OptionsModel
else:  # the word that says it best is none that Python takes for a name
    _Inside = create_model("_Inside", __base__=OptionsModel, **{"in": (str, _IN)})


class Mount(_Inside):
    """Where a sensor is, and how it is turned."""

    xyz_m: Vector | None = Field(
        None,
        description="Where the sensor is in the rig: x ahead, y left, z up. Set it where transforms say "
        "nothing or are wrong, and for IMU and GPS.",
    )
    rpy_deg: Vector | None = Field(
        None,
        description="Roll, pitch and yaw of the sensor, of a camera those of its body, which looks along "
        "x. Set it with xyz_m.",
    )
    xyzw: Quaternion | None = Field(
        None,
        description="In place of rpy_deg: a quaternion as in transforms, of a camera that of its optical "
        "frame. Set it where a calibration or a warning gives you one.",
    )

    @property
    def frame(self) -> str:
        """The frame that the place is in; empty for the rig's."""
        return str(getattr(self, "in"))

    @property
    def is_given(self) -> bool:
        """Whether it says where the sensor is."""
        return any(each is not None for each in (self.xyz_m, self.rpy_deg, self.xyzw))

    @model_validator(mode="after")
    def _one_place(self) -> Mount:
        if self.rpy_deg is not None and self.xyzw is not None:
            raise ValueError("rpy_deg and xyzw both say how it is turned: give one of them")
        if self.frame and not self.is_given:
            raise ValueError("in places nothing by itself: give xyz_m, where the sensor is in it")
        return self


class TopicRule(OptionsModel):
    """How one topic is used: its role, the time it carries, and how it is paired."""

    topic: str = Field(
        "",
        description="Name without the device's prefix (radar/cube), full name (/points) or a regular "
        "expression; of several the first that exists is used. Set it where your robot has "
        "other names; empty turns the entry off.",
    )
    role: Role = Field(description="What the topic is in the dataset. Give it with every new entry.")
    sensor: Name = Field(
        "",
        description="The sensor that the topic is of; of a camera_info, its camera. Set it where several "
        "topics are of one sensor, or the camera is not found by its name.",
    )
    device: Name = Field(
        "",
        description="The device that the sensor is of. Set it where several devices are on a vehicle and "
        "the topics' names do not tell them apart.",
    )
    frame_prefix: Name = Field(
        "",
        description="Put before the names of the topic's frames: base_link becomes rear/base_link. Set it "
        "where several devices call their frames alike.",
    )
    companions: str = Field(
        "",
        description="Of a camera: the entries whose messages its samples take. Set it where the sensors "
        "of the same device, or the nearest ones, are not what you want.",
    )
    mount: Mount = Mount()
    info_file: Path | CameraFile | None = Field(
        None,
        description="A camera's calibration as camera_calibration writes it: a YAML file, or what is in "
        "it. Set it where CameraInfo is missing or wrong.",
    )
    tile: Literal["", "tl", "tr", "bl", "br"] = Field(
        "",
        description="Quarter of a tiled 4K picture that the topic shows. Give it with a camera of your "
        "own that sends its picture in four streams.",
    )
    clock: Choice = Field(
        "auto",
        description="Which time the messages carry; auto finds it and reports it. Set it where the report "
        "shows that auto is wrong.",
    )
    latency_ms: float | None = Field(
        None,
        ge=0,
        le=2000,
        description="Smallest usual time from acquisition to receipt. Set it for a sensor with a clock of "
        "its own or without stamps.",
    )
    offset_ms: float = Field(
        0.0,
        ge=-1e13,
        le=1e13,
        description="Added to every time of the topic. Set it if a sensor is early or late by a constant.",
    )
    tolerance_ms: float = Field(
        50.0,
        ge=0,
        le=1000,
        description="Largest time difference to the sample's frame. Raise it for a slow sensor, to half "
        "of its period; lower it where a neighbouring message would be wrong.",
    )
    policy: Policy = Field(
        "nearest",
        description="Which message a frame takes: the nearest, the last one before, one of exactly its "
        "time, or once: each message goes to one sample. Choose before for what must not know "
        "the future, once for slow sensors.",
    )
    required: Required = Field(
        "",
        description="Whether samples need the topic: always; auto, while it sends; never; empty, as "
        "select.require says. Set always for a sensor without which a sample is of no use.",
    )
    significant_bits: int = Field(
        0,
        ge=0,
        le=16,
        description="Bits in use of 16-bit pictures; 0 finds them. Set it if a drive begins in the dark.",
    )
    sixteen_bits: SixteenBits = Field(
        "",
        description="Keep all 16 bits of a gray camera in PNG: as_sent, or as depth in millimetres. Set "
        "it for a thermal camera, and for a depth camera with a view of its own.",
    )
    fields: dict[Literal["speed", "power", "noise", "rcs"], str] = Field(
        default_factory=dict,
        description="What a radar's driver calls its fields of points. Name those that a report calls "
        "missing.",
    )
    parent_frame: str = Field(
        "odom",
        description="The fixed frame of odometry sent on /tf. Set it if yours is another one, such as map.",
    )
    child_frame: str = Field(
        "base_link",
        description="The moving frame of odometry sent on /tf. Set it if your robot's own frame has "
        "another name.",
    )
    expected_hz: AtLeast0 = Field(
        0.0,
        description="Live: diagnostics warn when the topic is slower; 0 for its usual rate. Set it to be "
        "warned of a sensor that is slow from the start.",
    )

    @field_validator("significant_bits")
    @classmethod
    def _wide(cls, value: int) -> int:
        if 0 < value <= 8:
            raise ValueError("must be 9 to 16, or 0 to find it")
        return value

    @field_validator("info_file", mode="plain")
    @classmethod
    def _calibrated(cls, value: object) -> CameraFile | None:
        return camera_file(value)

    @field_serializer("info_file")
    def _written_out(self, value: CameraFile | None) -> dict[str, Any] | None:
        return None if value is None else value.model_dump()

    @field_validator("topic", "companions", mode="before")
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

    @model_validator(mode="after")
    def _one_place(self) -> TopicRule:
        if self.info_file is not None and self.role is not Role.CAMERA:
            raise ValueError("info_file is a camera's: give it to the entry with role: camera")
        if self.role is Role.TF and self.mount.is_given and not self.frame_prefix:
            raise ValueError("mount of a tf says where a device is: give the frame_prefix of its frames")
        return self

    @property
    def names(self) -> tuple[str, ...]:
        """Plain names and regular expressions of the topics that may be used, in order of preference."""
        return split_names(self.topic)

    @property
    def companion_entries(self) -> tuple[str, ...]:
        """Entries of ``topics`` that a camera's samples take before others."""
        return split_names(self.companions)

    @property
    def plain_names(self) -> tuple[str, ...]:
        """Those of the names that are not regular expressions."""
        return tuple(name for name in self.names if not is_pattern(name))

    @property
    def camera_info(self) -> CameraInfo | None:
        """What the configuration says of the camera's intrinsics."""
        return self.info_file.camera_info() if isinstance(self.info_file, CameraFile) else None

    @property
    def is_choice(self) -> bool:
        """Whether more than one topic may fit."""
        return len(self.names) > 1 or any(map(is_pattern, self.names))

    @property
    def times(self) -> Rule:
        """The clock, offset and latency configured for the topic."""
        latency_ns = None if self.latency_ms is None else round(self.latency_ms * 1e6)
        return Rule(self.clock, round(self.offset_ms * 1e6), latency_ns, self.device)

    @property
    def tolerance_ns(self) -> int:
        """Pairing tolerance in nanoseconds; exact pairs equal times only."""
        return 0 if self.policy == "exact" else round(self.tolerance_ms * 1e6)


def _rule(role: Role, topic: str, **more: Any) -> TopicRule:  # noqa: ANN401 - any field of the model
    return TopicRule(role=role, topic=topic, **more)


MAIVIN_TOPICS: Mapping[str, TopicRule] = {
    "camera": _rule(Role.CAMERA, "camera/h264", latency_ms=25.0),
    "camera_h265": _rule(Role.CAMERA, "camera/h265", sensor="camera", latency_ms=25.0),
    **{
        f"camera_{tile}": _rule(
            Role.CAMERA, f"camera/h264/{tile}", sensor="camera", tile=tile, policy="exact", latency_ms=25.0
        )
        for tile in ("tl", "tr", "bl", "br")
    },
    "camera_jpeg": _rule(Role.CAMERA, "camera/jpeg", sensor="camera", latency_ms=25.0),
    "camera_info": _rule(Role.CAMERA_INFO, "camera/info"),
    "radar_targets": _rule(Role.RADAR_TARGETS, "radar/targets", latency_ms=15.0),
    "radar_clusters": _rule(Role.RADAR_CLUSTERS, "radar/clusters", required="never"),
    # The recorder keeps one or two a second: half of that interval is the farthest that a sample can be.
    "radar_cube": _rule(Role.RADAR_CUBE, "radar/cube", policy="once", tolerance_ms=250.0, latency_ms=15.0),
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
    "robot_description": _rule(Role.ROBOT_DESCRIPTION, "robot_description"),
    # A neighbouring frame's boxes are wrong labels, so a model pairs with its own frame: half of 1/30 s.
    "model": _rule(Role.MODEL, "model/output", tolerance_ms=16.0, latency_ms=70.0),
    "model_boxes2d": _rule(Role.MODEL, "model/boxes2d", tolerance_ms=16.0, latency_ms=70.0),
    "model_mask": _rule(Role.MASK, "model/mask", tolerance_ms=16.0, latency_ms=70.0),
    "model_info": _rule(Role.MODEL_INFO, "model/info"),
    "boxes3d": _rule(Role.BOXES_3D, "fusion/boxes3d", required="never"),
    "fusion_radar": _rule(Role.FUSION_RADAR, "fusion/radar", required="never"),
    "fusion_lidar": _rule(Role.FUSION_LIDAR, "fusion/lidar", required="never"),
}
"""Default topics, those of a Maivin or Raivin, by name of the entry; a configuration overrides single values.

Latencies are the usual ones on the device, from the exposure, sweep or scan to the recorder. The imu's
determines the offset of another clock, because the smallest latency is the least uncertain.
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


class EgoOptions(OptionsModel):
    """How NavSat, IMU and odometry become rig poses."""

    smoothing: Smoothing = Field(
        "auto",
        description="Poses from the whole drive (whole), which is read twice, or from what came within "
        "wait_s (lag); auto is whole for conversions. Set lag to get what a live capture "
        "writes.",
    )
    non_holonomic: bool = Field(
        True,
        description="The rig moves only where it points, as a car does. Set false for boats, drones and "
        "mecanum wheels.",
    )
    wait_s: AtLeast0 = Field(
        2.0,
        description="How long a sample waits for later navigation data. Raise it for better live poses; "
        "lower it to have samples on disk sooner.",
    )


class VehicleOptions(OptionsModel):
    """What carries the sensors; formats that have a place for it say so."""

    length_m: Side = Field(
        None,
        description="Length of the vehicle, for NCore's vehicle-bbox. Give all three sides if a simulator "
        "is to drive it.",
    )
    width_m: Side = Field(None, description="Width without mirrors. Give it with the length.")
    height_m: Side = Field(None, description="Height above the ground. Give it with the length.")
    rear_axle_m: Vector | None = Field(
        None,
        description="Middle of the rear axle on the ground, in rig_frame: the origin of NCore's rig. Set "
        "it for NuRec.",
    )
    rear_overhang_m: float | None = Field(
        None,
        ge=0,
        le=100,
        description="From the rear axle to the end of the vehicle; unset: a fifth of its length. Give "
        "what a data sheet says.",
    )
    platform: Name = Field(
        "",
        description="Kind of the vehicle, NCore's platform_class. Set it where several kinds drive for you.",
    )

    def faults(self) -> Iterator[str]:
        """A sentence if it has some sides only."""
        sides = {"length_m": self.length_m, "width_m": self.width_m, "height_m": self.height_m}
        missing = [name for name, value in sides.items() if value is None]
        if 0 < len(missing) < len(sides):
            yield f"vehicle: {', '.join(missing)} must be given, too"


class OverloadOptions(OptionsModel):
    """What a live capture does when it cannot keep up."""

    latency_s: AtLeast0 = Field(
        3.0,
        description="Live: longest time from a stamp to the disk; what cannot keep up loses samples "
        "evenly. Raise it where short loads are to pass without loss; 0 never sheds.",
    )


class SelectOptions(OptionsModel):
    """Which of the reference's frames become samples."""

    every: int = Field(
        1,
        ge=1,
        description="Keep one of every N frames. Set it in place of rate_hz for samples at equal "
        "distances in frames.",
    )
    distance_m: AtLeast0 = Field(
        0.0,
        description="Least distance in metres between two samples. Set it where pictures of one place are "
        "too alike.",
    )
    moving: bool = Field(
        False, description="Keep one sample of each stop. Set it for drives with long waits."
    )
    keyframes: bool = Field(
        False,
        description="Keep only video key frames; no other frame is decoded. Set it where time is short.",
    )
    require: str = Field(
        AUTO,
        description="Sensors that a sample must have: all that are sending, or roles and entries of "
        "topics, as model,lidar; auto asks for none. Set it if your training cannot use "
        "samples that lack a sensor.",
    )

    @property
    def required(self) -> list[str]:
        """Names of what a sample must have: roles and entries of topics, or ``ALL``."""
        return [] if self.require == AUTO else self.require.split(",")

    @field_validator("require", mode="before")
    @classmethod
    def _named(cls, value: object) -> object:
        names = names_of(value)
        if isinstance(names, list | tuple) and all(isinstance(name, str) for name in names):
            return ",".join(filter(None, names)) or AUTO
        return value


class Settings(OptionsModel):
    """Configuration of a conversion or capture, except for the options of the formats."""

    prefix: str | None = Field(
        None,
        description="Topic prefix of the device, its host name or rt. Set it if a recording or a network "
        "has several devices.",
    )
    host: str = Field(
        "",
        description="Host name of the device, for names of sequences. Set it on a robot whose recordings "
        "are not named after it.",
    )
    topics: dict[str, TopicRule] = Field(
        default_factory=lambda: dict(MAIVIN_TOPICS),
        description="Which topics are used, as what, and how. Set it for any robot that is not a Maivin "
        "or Raivin.",
    )
    class_names: dict[str, str] = Field(
        default_factory=dict,
        description="Other names for the classes that a model sends, in every format. Set it where your "
        "training or NuRec has other words.",
    )
    reference: str = Field(
        "camera",
        description="Topic, entry or role that samples are aligned to. Choose lidar_points for a sample "
        "with every sweep.",
    )
    rig_frame: str = Field(
        "base_link",
        description="The vehicle's own frame, in which sensors are mounted. Set it if your robot calls it "
        "otherwise, such as chassis.",
    )
    rate_hz: AtLeast0 = Field(
        0.0,
        description="Maximum samples per second; 0 keeps every frame. Set it where neighbouring frames "
        "are too alike to be worth their space.",
    )
    lookahead_s: float = Field(
        1.0,
        ge=0.1,
        le=30,
        description="How late messages may come and still be paired correctly. Raise it if the report "
        "counts messages that came too late.",
    )
    pictures: str = Field(
        "jpeg90",
        description="How decoded video frames are written: png, or jpeg with its quality. Lower the "
        "quality to save space; choose png to lose nothing, at ten times the space.",
    )
    queue_mb: float = Field(
        512.0,
        gt=0,
        description="Live: memory for waiting messages; beyond it the oldest are dropped. Lower it on a "
        "device with little memory.",
    )
    min_free_mb: AtLeast0 = Field(
        1024.0, description="Live: so much of the disk stays free. Raise it if other programs need the disk."
    )
    sync_s: float = Field(
        1.0,
        ge=-1.0,
        description="How often data are synced to disk: a power cut loses at most this; off is only at "
        "the end. Raise it for a slow disk.",
    )
    split_every: str = Field(
        "",
        description="Live: begin another session after a time or size, such as 600s, 10min or 2GB. Set it "
        "to have parts of a long drive complete during the drive.",
    )
    record: bool = Field(
        False,
        description="Live: also write every received message to an MCAP file in recordings/. Set it if "
        "you may want other formats or options later.",
    )
    workers: int = Field(
        0,
        ge=0,
        le=1024,
        description="Encoder threads; 0: one per core. Lower it where other programs need the cores.",
    )
    decoder: Literal["software", "v4l2m2m", "nvdec"] = Field(
        "software",
        description="What decodes video: software, v4l2m2m of the device, or an NVIDIA GPU's nvdec. "
        "Choose hardware where the cores cannot keep up.",
    )
    _named: frozenset[str] = PrivateAttr(frozenset())
    formats: FormatNames = Field(
        ("edgefirst",),
        min_length=1,
        description="Dataset formats to write. Name those that your training reads: one run writes them all.",
    )
    select: SelectOptions = SelectOptions()
    ego: EgoOptions = EgoOptions()
    vehicle: VehicleOptions = VehicleOptions()
    overload: OverloadOptions = OverloadOptions()

    def options(self, of: type[Format[FormatOptions]] | Format[FormatOptions]) -> FormatOptions:
        """The options of a format, whether it is chosen or not."""
        options: FormatOptions = getattr(self, of.name)
        return options

    @property
    def chosen_formats(self) -> list[Format[Any]]:
        """The chosen formats, in the order of ``FORMATS``."""
        return [each for name, each in FORMATS.items() if name in self.formats]

    @property
    def encoding(self) -> tuple[Literal["jpeg", "png"], int]:
        """Of decoded video frames, and the quality of JPEGs."""
        return "png" if self.pictures == "png" else "jpeg", int(re.sub(r"\D", "", self.pictures) or 90)

    @property
    def split_limits(self) -> list[tuple[str, float, bool]]:
        """After what another session begins: as it is written, in seconds or bytes, and whether in bytes."""
        found = (_LIMIT.fullmatch(each) for each in self.split_every.split(",") if each)
        return [(m[0], float(m[1]) * _UNITS[m[2]], m[2].endswith("B")) for m in found if m is not None]

    @property
    def first_frame(self) -> int:
        """Number of the first reference frame of a sequence."""
        return max(each.first_frame(self.options(each)) for each in self.chosen_formats)

    @property
    def selects(self) -> bool:
        """Whether frames are left out whatever the rig does."""
        return self.rate_hz > 0 or self.select.every > 1 or self.select.keyframes

    @property
    def selected(self) -> str:
        """Which pictures are asked for, in words."""
        chosen = {
            f"at most {self.rate_hz:g} a second": self.rate_hz > 0,
            f"one of {self.select.every}": self.select.every > 1,
            "key frames": self.select.keyframes,
            f"one every {self.select.distance_m:g} m": self.select.distance_m > 0,
            "one of each stop": self.select.moving,
        }
        return next((words for words, is_chosen in chosen.items() if is_chosen), "all")

    @property
    def sample_roles(self) -> frozenset[Role]:
        """Roles that the chosen formats put into samples; no sample ever requires another role."""
        return frozenset[Role]().union(*(f.companions(self.options(f)) for f in self.chosen_formats))

    @property
    def samples_all_cameras(self) -> bool:
        """Whether a chosen format takes samples of cameras beside the reference."""
        return any(each.by_camera for each in self.chosen_formats)

    @property
    def taking_all(self) -> dict[Role, list[str]]:
        """By role, the chosen formats whose samples need every sensor's message of it; no others."""
        taken = {each.name: each.takes_all(self.options(each)) for each in self.chosen_formats}
        by_role = {role: [name for name, roles in taken.items() if role in roles] for role in Role}
        return {role: names for role, names in by_role.items() if names}

    @property
    def named(self) -> frozenset[str]:
        """Entries of ``topics`` that the user has written, as far as they are not optional."""
        return self._named

    def required(self, rule: TopicRule) -> Literal["auto", "always", "never"]:
        """When a sample must have a message of the topic; auto: while messages arrive."""
        if rule.required == "always":
            return "always"
        is_named = self.select.require != ALL and self._demands(rule)
        chosen = "auto" if is_named else rule.required or ("auto" if self._demands(rule) else "never")
        return "auto" if chosen == "auto" and rule.role in self.sample_roles else "never"

    def _demands(self, rule: TopicRule) -> bool:
        names = {ALL, rule.role.value, *(name for name, each in self.topics.items() if each == rule)}
        return any(SHORT_ROLES.get(wanted, wanted) in names for wanted in self.select.required)

    @field_validator("reference", mode="before")
    @classmethod
    def _role_in_full(cls, value: object) -> object:
        return SHORT_ROLES.get(value, value) if isinstance(value, str) else value

    @field_validator("pictures")
    @classmethod
    def _encoded(cls, value: str) -> str:
        if re.fullmatch("png|jpeg([1-9][0-9]?|100)?", value) is None:
            raise ValueError(f"expected png, or jpeg and its quality, as jpeg90, found {shown(value)}")
        return value

    @field_validator("split_every", mode="before")
    @classmethod
    def _with_units(cls, value: object) -> str:
        limits = [each for each in f"{value}".replace(" ", "").split(",") if each]
        if any((found := _LIMIT.fullmatch(each)) is None or not float(found[1]) for each in limits):
            raise ValueError(f"expected a time or a size, as 600s or 2GB, found {shown(value)}")
        return ",".join(limits)

    @field_validator("class_names", mode="before")
    @classmethod
    def _by_number(cls, names: object) -> object:
        """YAML reads a number that is sent as a label as a number."""
        is_named = isinstance(names, dict)
        return {str(sent): name for sent, name in names.items()} if is_named else names  # type: ignore[attr-defined]

    @field_validator("sync_s", mode="before")
    @classmethod
    def _off(cls, value: object) -> object:
        """YAML reads off as false."""
        return -1.0 if value is False or value == "off" else value

    @model_validator(mode="before")
    @classmethod
    def _overlay_topics(cls, data: Any) -> Any:  # noqa: ANN401 - pydantic hands over whatever the user wrote
        """Merge the user's topics into the default ones; the role of a new entry defaults to its name."""
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
    def _known_sensors(self) -> Settings:
        roles = {rule.role.value for rule in self.topics.values()}
        known = {ALL, *SHORT_ROLES, *roles, *self.topics}
        wanted = self.select.required
        if unknown := [name for name in wanted if name not in known]:
            told = ", ".join(sorted({*SHORT_ROLES, *roles}))
            raise ValueError(
                f"select.require: no sensor {', '.join(unknown)}; there are {AUTO}, {ALL}, {told} and entries"
            )
        if ALL in wanted and len(wanted) > 1:
            raise ValueError(f"select.require: {ALL} includes the others")
        for name, rule in self.topics.items():
            if unknown := [each for each in rule.companion_entries if each not in self.topics]:
                raise ValueError(f"topics.{name}.companions: no entry {', '.join(unknown)} of topics")
        return self

    @model_validator(mode="after")
    def _on_the_rig(self) -> Settings:
        """No placed sensor is, over others, mounted on itself."""
        placed = ((rule.sensor or name, rule) for name, rule in self.topics.items() if rule.mount.is_given)
        parents = {bare(sensor): bare(rule.mount.frame) for sensor, rule in placed}
        for sensor in parents:
            way = [sensor]
            while (above := parents.get(way[-1], "")) and above not in way:
                way.append(above)
            if above == sensor:
                raise ValueError(
                    f"topics.{sensor}.mount.in: {' is mounted on '.join([*way, sensor])}; name a frame "
                    "that leads to the rig's"
                )
        return self

    @model_validator(mode="after")
    def _one_selection(self) -> Settings:
        given = self.rate_hz > 0, self.select.every > 1, self.select.keyframes
        chosen = [name for name, is_given in zip(SELECTIONS, given, strict=True) if is_given]
        if len(chosen) > 1:
            raise ValueError(f"{' and '.join(chosen)} exclude one another: give one of them")
        return self


# The fields are created from the table, as formats of other packages have options, too. Typed code gets the
# options of one format from ``options``, which knows their type for any format.
if TYPE_CHECKING:
    Config = Settings
else:
    FORMATS.reserve([*NODE_PARAMETERS, *Settings.model_fields, *dir(Settings)])
    Config = create_model(
        "Config",
        __base__=Settings,
        __module__=__name__,
        __doc__="Configuration of a conversion or capture, with a field for the options of each format.",
        **{name: (each.options, each.options()) for name, each in FORMATS.items()},
    )


BLOCKS = {name for name, each in Config.model_fields.items() if isinstance(each.default, BaseModel)}
KEYWORDS = {
    "rate": "rate_hz",
    **{name: f"select.{name}" for name in SelectOptions.model_fields},
    **{name: f"edgefirst.{name}" for name in ("split", "schema_version", "container")},
}
"""What Python and the command line call options that have another name, or a block, in a file."""
MOST_NUMBER, LEAST_NUMBER = 1e9, 1e-6
"""Of numbers without limits of their own: times and sizes overflow above, their reciprocals below."""


def _implausible(value: Any, name: str = "") -> Iterator[str]:  # noqa: ANN401 - of any field
    """A sentence for every number with which nothing can be calculated, wherever it is in plain values."""
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield from _implausible(part, f"{name}.{key}".lstrip("."))
    elif isinstance(value, list | tuple):
        yield from _implausible(dict(enumerate(value)), name)
    elif isinstance(value, int | float) and (
        0 < abs(value) < LEAST_NUMBER or (abs(value) > MOST_NUMBER and not name.endswith("offset_ms"))
    ):  # a clock may begin at any time
        limits = f"{LEAST_NUMBER:g} to {MOST_NUMBER:g}"
        yield f"{name}: expected 0 or a number from {limits}, found {shown(value)}"


def build_config(values: Mapping[str, Any]) -> Config:
    """Validate plain values into a configuration.

    Raises:
        ConfigError: with one sentence for every fault.
    """
    try:
        config = Config.model_validate(dict(values))
    except ValidationError as error:
        raise ConfigError(sentences(error, Config)) from error
    judged = config.model_dump(exclude={"topics": {"__all__": {"info_file"}}})  # coefficients may be tiny
    if faults := [*_implausible(judged)] or [*config.vehicle.faults()]:
        raise ConfigError(faults)
    config._named = frozenset(_named(config, values.get("topics") or {}))  # noqa: SLF001 - no user gives it
    return config


def _named(config: Config, given: Mapping[str, Any]) -> Iterator[str]:
    """Entries that somebody wrote: a session's settings and a node's parameters have all values of all."""
    fields = TopicRule.model_fields.items()
    whole = {name for name, info in fields if info.get_default(call_default_factory=True) not in (None, {})}
    for name, rule in config.topics.items():
        own = given.get(name)
        is_written = isinstance(own, dict) and not whole <= own.keys()
        is_other = MAIVIN_TOPICS.get(name) != rule
        if rule.names and rule.required != "never" and (is_written or is_other):
            yield name


def chosen_config(values: Mapping[str, Any], chosen: Mapping[str, Any]) -> Config:
    """The configuration of ``values`` with what was chosen in their place.

    Args:
        values: plain values of a file or of a recorded session.
        chosen: single settings, also in the blocks of formats; None means not given.

    Raises:
        ConfigError: with one sentence for every fault.
    """
    given = {name: _given(own) if name in BLOCKS else own for name, own in _given(chosen).items()}
    merged = dict(values)
    if "rate_hz" in given or {"every", "keyframes"} & given.get("select", {}).keys():
        merged.pop("rate_hz", None)  # they exclude one another, so this one replaces the file's
        if isinstance(own := merged.get("select"), Mapping):
            merged["select"] = {name: own[name] for name in own.keys() - {"every", "keyframes"}}
    for name in BLOCKS & given.keys():
        if isinstance(before := merged.get(name, {}), Mapping):
            given[name] = {**before, **given[name]}
    return build_config(merged | given)


def of_keywords(given: Mapping[str, Any]) -> dict[str, Any]:
    """Single settings as ``chosen_config`` takes them, of the names that Python and the command line have.

    Raises:
        ConfigError: a name is unknown.
    """
    known = [*KEYWORDS, *(name for name in Config.model_fields if name not in KEYWORDS.values())]
    if unknown := [name for name in given if name not in known]:
        raise ConfigError([unknown_parameter(name, known) for name in unknown])
    found: dict[str, Any] = {}
    for name, value in sorted(given.items(), key=lambda each: each[0] in KEYWORDS):  # blocks come first
        block, _, option = KEYWORDS.get(name, name).rpartition(".")
        found |= {block: {**(found.get(block) or {}), option: value}} if block else {option: value}
    return found


def preset(program: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Single settings with those for a program, where none was given.

    Raises:
        ConfigError: no format knows the program.
    """
    known = {name: values for each in FORMATS.values() for name, values in each.presets.items()}
    if program not in known:
        raise ConfigError([f"--for: {program!r} is not known; there are {', '.join(sorted(known))}"])
    merged = dict(given)
    for name, value in known[program].items():
        if isinstance(value, Mapping):
            merged[name] = {**value, **(given.get(name) or {})}
        elif given.get(name) is None:
            merged[name] = value
    return merged


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}
