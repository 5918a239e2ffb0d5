"""Configuration: one validated model behind the command line, the YAML files and the ROS parameters.

Combines the values of a configuration with those that a user chose on the command line.
"""

from __future__ import annotations

import math
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
from edgefirst_ros.model.errors import ConfigError, names_of, sentences, shown
from edgefirst_ros.model.sample import Role, SixteenBits
from edgefirst_ros.model.transform import bare
from edgefirst_ros.timing.finding import Choice, Rule

ALL = "all"
"""In ``complete``: every sensor."""
SHORT_ROLES = {
    "lidar": Role.LIDAR_POINTS.value,
    "radar": Role.RADAR_TARGETS.value,
    "cube": Role.RADAR_CUBE.value,
}
"""In ``complete``: what a word stands for."""
Policy = Literal["nearest", "before", "exact", "once"]
Length = Annotated[float, Field(ge=-1000, le=1000, allow_inf_nan=False)]
"""Metres, or degrees: what is farther from the rig is not on it."""
Vector = tuple[Length, Length, Length]
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
    {
        *("use_sim_time", "start_type_description_service", "qos_overrides"),
        *("output", "name", "session", "depth", "unlisted", "stop_within_s", "preview"),
        *("autostart", "start_paused", "bond_heartbeat_period"),
        *("bag", "overwrite", "rate"),
    }
)
"""Parameters of the ROS nodes that do not configure the pipeline; configuration files may contain them."""


if TYPE_CHECKING:
    FormatName = str
else:
    FormatName = Literal[tuple(FORMATS)]


if TYPE_CHECKING:
    _OfCamera = OptionsModel
else:  # the word that says it best is none that Python takes for a name
    _OfCamera = create_model(
        "_OfCamera",
        __base__=OptionsModel,
        **{
            "with": (
                str,
                Field(
                    "",
                    description="Of a camera, where samples have one: the sensors that its samples take, by "
                    "their entries, as a list or separated by blanks. Empty: of each role that of the same "
                    "device, else the nearest to the camera. Set it where that is another than you want.",
                ),
            )
        },
    )


class TopicRule(_OfCamera):
    """How one topic is used: its role, the time it carries, and how it is paired."""

    topic: str = Field(
        "",
        description="Name without the device's prefix (radar/cube), full name (/points), or a regular "
        "expression for either (/sensors/.*/points). Several names, as a list or separated by blanks, are "
        "alternatives in order of preference: one topic is used. Set it where your robot's topics have other "
        "names; empty turns the entry off.",
    )
    role: Role = Field(description="Role of the topic in the dataset. Give it with every new entry.")
    sensor: str = Field(
        "",
        max_length=64,
        description="The sensor that the topic is of, where several are of one, such as a picture in two "
        "encodings; of a camera_info, the camera that it describes. Empty: one of the entry's own name; for "
        "a camera_info, the camera whose topic's name is most like its own. Set it where that is wrong.",
    )
    device: str = Field(
        "",
        max_length=64,
        description="The device that the sensor is of. Empty: topics whose names begin alike are of one. Set "
        "it where several devices are on a vehicle and names do not show which sensor is of which.",
    )
    frame_prefix: str = Field(
        "",
        max_length=64,
        description="Put before the names of the topic's frames, with a slash: base_link becomes "
        "rear/base_link. Set it where several devices call their frames alike.",
    )
    xyz_m: Vector | None = Field(
        None,
        description="Where the sensor is in the rig's frame: x ahead, y left, z up. Unset: as transforms "
        "say, for IMU and GPS the rig's origin. Set it where they say nothing or are wrong, and for IMU and "
        "GPS; the sensor's frame is then called like it. With a tf that has a frame_prefix: where that "
        "device's own base_link is.",
    )
    rpy_deg: Vector | None = Field(
        None,
        description="Roll, pitch and yaw of the sensor in the rig's frame, of a camera those of its body, "
        "which looks along x. Set it with xyz_m.",
    )
    rotation_xyzw: Quaternion | None = Field(
        None,
        description="In place of rpy_deg: the quaternion that a transform would have, of a camera that of "
        "its optical frame, which looks along z. Set it where a calibration gives you one.",
    )
    mount_frame: str = Field(
        "",
        max_length=256,
        description="The frame in which xyz_m and the rotation are, in place of the rig's: one of "
        "transforms, or a sensor that is placed. Set it for a sensor on a mast or a bracket.",
    )
    info_file: Path | CameraFile | None = Field(
        None,
        description="A camera's calibration as ROS's camera_calibration writes it: a YAML file, named from "
        "the configuration's folder, or what is in it. It counts in place of CameraInfo messages. Set it "
        "where these are missing or wrong.",
    )
    tile: Literal["", "tl", "tr", "bl", "br"] = Field(
        "",
        description="Quarter of a tiled 4K picture that the topic shows; the four tiles must carry equal "
        "stamps. Give it with a camera of your own that sends its picture in four streams.",
    )
    clock: Choice = Field(
        "auto",
        description="Which time the messages carry: stamp, publish or receive; auto determines it and "
        "reports it. Set it where the report shows that auto is wrong.",
    )
    latency_ms: float | None = Field(
        None,
        ge=0,
        le=2000,
        description="Smallest usual time from acquisition to receipt. It gives the offset of a clock that "
        "differs from the recorder's, and dates messages without a stamp. Set it for a sensor with a clock "
        "of its own, best for the one with the smallest latency.",
    )
    offset_ms: float = Field(
        0.0,
        ge=-1e13,
        le=1e13,
        description="Your own correction, added to every time of the topic, whatever its clock. Set it if a "
        "sensor is seen to be early or late by a constant.",
    )
    tolerance_ms: float = Field(
        50.0,
        ge=0,
        le=1000,
        description="Largest time difference between a companion and its reference frame. Raise it for a "
        "sensor that is slower than the reference, to half of its period; lower it where a neighbouring "
        "message would be wrong.",
    )
    policy: Policy = Field(
        "nearest",
        description="Which message is paired: the nearest, the last one before (or at) the reference frame, "
        "only one of exactly the same time, or, for slow sensors, once: each message goes to the sample that "
        "is nearest to it, and to no other. Choose before for what must not know the future, once for what "
        "must not be repeated.",
    )
    required: Required = Field(
        "",
        description="always: no sample without this topic; auto: required while messages arrive, so a sensor "
        "that fails does not end the dataset; never: optional, and a sample without it is complete; empty: "
        "auto if complete demands it, else optional. Set always for a sensor without which a sample is of no "
        "use to you.",
    )
    significant_bits: int = Field(
        0,
        ge=0,
        le=16,
        description="For pictures with 16 bits per sample: the number of bits in use. 2^bits − 1 becomes "
        "white. 0: 10, 12, 14 or 16, as the first pictures fill them. Set it if a drive begins in the dark.",
    )
    sixteen_bits: SixteenBits = Field(
        "",
        description="Keep all 16 bits of a gray camera (mono16, 16UC1, 16-bit PNG): its pictures are written "
        "as PNG with the values as_sent, not scaled to 8 bits, or as depth in millimetres, also of 32FC1 in "
        "metres. Set it for a thermal camera, whose values are temperatures, and for a depth camera whose "
        "view is no other camera's; else depth has the role depth.",
    )
    fields: dict[Literal["speed", "power", "noise", "rcs"], str] = Field(
        default_factory=dict,
        description="For radar clouds: what the driver calls the radial speed (m/s), the power (dB), the "
        "noise floor (dB) and the cross-section (dBsm). Usual names, such as velocity or snr, are found. "
        "Name those that a report calls missing.",
    )
    parent_frame: str = Field(
        "odom",
        description="For odometry sent as transforms (/tf): the fixed frame. Set it if your odometry has "
        "another one, such as map.",
    )
    child_frame: str = Field(
        "base_link",
        description="For odometry sent as transforms (/tf): the moving frame. Set it if your robot's own "
        "frame has another name.",
    )
    expected_hz: float = Field(
        0.0,
        ge=0,
        description="Live: expected rate; diagnostics warn when the topic is slower. 0: the rate that the "
        "topic usually has. Set it to be told of a sensor that is slow from the start.",
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

    @field_validator("topic", "with", mode="before")
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
        if self.rpy_deg is not None and self.rotation_xyzw is not None:
            raise ValueError("rpy_deg and rotation_xyzw both say how it is turned: give one of them")
        if self.role is Role.TF and self.is_placed and not self.frame_prefix:
            raise ValueError("xyz_m of a tf says where a device is: give the frame_prefix of its frames")
        if self.mount_frame and not self.is_placed:
            raise ValueError("mount_frame places nothing by itself: give xyz_m, where the sensor is in it")
        return self

    @property
    def names(self) -> tuple[str, ...]:
        """Plain names and regular expressions of the topics that may be used, in order of preference."""
        return split_names(self.topic)

    @property
    def companions(self) -> tuple[str, ...]:
        """Entries of ``topics`` that a camera's samples take before others."""
        return split_names(getattr(self, "with"))

    @property
    def plain_names(self) -> tuple[str, ...]:
        """Those of the names that are not regular expressions."""
        return tuple(name for name in self.names if not is_pattern(name))

    @property
    def is_placed(self) -> bool:
        """Whether the configuration says where the sensor is."""
        return any(each is not None for each in (self.xyz_m, self.rpy_deg, self.rotation_xyzw))

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
        description="whole: estimate every pose from the whole drive, which reads a recording twice; lag: "
        "only from what arrives within wait_s, as a live capture does; auto: whole for conversions, else "
        "lag. Set lag to read a recording once, or to get what a live capture would have written.",
    )
    non_holonomic: bool = Field(
        True,
        description="The rig moves only in the direction it points, as a car does. Set false if it may move "
        "sideways, as boats, drones or mecanum wheels do.",
    )
    rig_from_imu_xyzw: Quaternion | None = Field(
        None,
        description="Mounting of the IMU: the quaternion that rotates its axes into the rig's. Unset: as its "
        "entry says, else the axes are the same. Set it to what a warning suggests if IMU and course "
        "disagree.",
    )
    wait_s: float = Field(
        2.0,
        ge=0,
        description="Longest wait of a sample for later navigation data, look-ahead included; it does not "
        "wait if its pose is already known. Raise it for better live poses; lower it to have samples on disk "
        "sooner.",
    )


class VehicleOptions(OptionsModel):
    """What carries the sensors; formats that have a place for it say so."""

    length_m: float | None = Field(
        None,
        gt=0,
        le=100,
        description="Length of the vehicle, with width and height NCore's vehicle-bbox. Give all three if "
        "a simulator is to drive it.",
    )
    width_m: float | None = Field(
        None, gt=0, le=100, description="Width without mirrors. Give it with the length."
    )
    height_m: float | None = Field(
        None, gt=0, le=100, description="Height above the ground. Give it with the length."
    )
    rear_axle_m: Vector | None = Field(
        None,
        description="Middle of the rear axle, on the ground, in the frame rig_frame: x ahead, y left, z up. "
        "NCore's rig has its origin there: sensors and trajectory are moved to it. Unset: rig_frame is the "
        "rig. Set it for NuRec.",
    )
    rear_overhang_m: float | None = Field(
        None,
        ge=0,
        le=100,
        description="From the rear axle to the end of the vehicle. Unset: a fifth of its length, which is "
        "said. Give what a data sheet says.",
    )
    platform: str = Field(
        "",
        max_length=64,
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

    latency_s: float = Field(
        3.0,
        ge=0,
        description="Live: longest time from a sample's stamp until it is on disk. If that cannot be kept, "
        "samples are shed evenly. 0: never shed; messages are dropped when the queue is full. Raise it where "
        "short loads are to pass without loss and memory is plenty.",
    )


class Settings(OptionsModel):
    """Configuration of a conversion or capture, except for the options of the formats."""

    prefix: str | None = Field(
        None,
        description="Topic prefix of the device, its host name or rt; detected where there is only one. Set "
        "it if a recording or a network has several devices.",
    )
    host: str = Field(
        "",
        description="Host name of the device, in metadata and in names of sequences; empty: the recording's, "
        "or live that of the topics' prefix or the endpoint. Set it on a robot whose recordings are not "
        "named after it.",
    )
    topics: dict[str, TopicRule] = Field(
        default_factory=lambda: dict(MAIVIN_TOPICS),
        description="Which topics are used, as what, and how; each entry overrides single values of the "
        "default one of its name. Set it for any robot that is not a Maivin or Raivin.",
    )
    class_names: dict[str, str] = Field(
        default_factory=dict,
        description="Other names of a model's classes, by the label (or number) that it sends: in every "
        "format, before l5kit.labels. Set it where your training or NuRec has other words.",
    )
    reference: str = Field(
        "camera",
        description="Topic, entry of topics, or role that samples are aligned to. Choose lidar_points for a "
        "sample with every sweep.",
    )
    rig_frame: str = Field(
        "base_link",
        description="What the transforms call the vehicle's own frame, in which sensors are mounted. Set it "
        "if your robot calls it otherwise, such as chassis.",
    )
    rate_hz: float = Field(
        0.0,
        ge=0,
        description="Maximum samples per second; 0 keeps every frame. Set it where neighbouring frames are "
        "too alike to be worth their space.",
    )
    every_n: int = Field(
        1,
        ge=1,
        description="Keep one of every N reference frames. Set it in place of rate_hz for samples at equal "
        "distances in frames.",
    )
    first_frame: int = Field(
        0,
        ge=0,
        le=1_000_000,
        description="Number of the first reference frame of a sequence. Set it to 100 for tools that look "
        "for pictures by frame numbers without leading zeros.",
    )
    every_m: float = Field(
        0.0,
        ge=0,
        description="Least distance in metres between two samples; 0 keeps every frame. A rig that stands "
        "gives none. Set it where pictures of one place are too alike. It applies to what rate_hz, every_n "
        "and keyframes leave; frames of which no motion is known are kept.",
    )
    skip_standstill: bool = Field(
        False,
        description="Keep one sample of each stop: from below 0.2 m/s until above 0.6 m/s. Set it for drives "
        "with long waits. Frames of which no motion is known are kept.",
    )
    keyframes: bool = Field(
        False,
        description="Keep only video key frames; no other frame is decoded. Set it where time is short: it "
        "converts many times faster.",
    )
    complete: str = Field(
        "",
        description="Only samples that have a message of every sensor that is sending (true or all), or of "
        "those that are named, by role or entry of topics: model,lidar. lidar, radar and cube stand for "
        "lidar_points, radar_targets and radar_cube. Empty or false: a frame becomes a sample with whatever "
        "companions it has. Set it if your training cannot use samples that lack a sensor.",
    )
    lookahead_s: float = Field(
        1.0,
        ge=0.1,
        le=30,
        description="How far messages may be late or out of order and still be paired correctly. Raise it if "
        "the report counts messages that came too late.",
    )
    picture_format: Literal["jpeg", "png"] = Field(
        "jpeg",
        description="Image format of decoded video frames. Still images are kept as they were sent. Choose "
        "png if compression must lose nothing, at ten times the space.",
    )
    jpeg_quality: int = Field(
        90,
        ge=1,
        le=100,
        description="Quality of JPEGs encoded from video. Lower it to save space, which is what most of a "
        "dataset is.",
    )
    queue_mb: float = Field(
        512.0,
        gt=0,
        description="Live: limit of the messages waiting in memory; beyond it the oldest are dropped. Lower "
        "it on a device with little memory.",
    )
    min_free_mb: float = Field(
        1024.0,
        ge=0,
        description="Live: so much of the disk stays free: the session is completed in time. 0: until the "
        "disk is full. Raise it if other programs need the disk.",
    )
    sync_s: float = Field(
        1.0,
        ge=-1.0,
        description="Longest interval at which written data are synced to disk, with new samples half of it; "
        "a power cut loses at most this and the time that the disk takes for it. 0: after every sample; off "
        "or -1: only when the output is complete. Raise it for a slow disk, or turn it off where no power "
        "cut can happen.",
    )
    split_every_s: float = Field(
        0.0,
        ge=0,
        description="Live: begin another session after this many seconds; 0: never. With video the split is "
        "just before the next key frame. Set it to have parts of a long drive complete while it goes on.",
    )
    split_every_mb: float = Field(
        0.0,
        ge=0,
        description="Live: begin another session when the formats together have written this many MB; 0: "
        "never. Set it to the size that your storage or upload takes.",
    )
    record: bool = Field(
        False,
        description="Live: also write every received message, used or not, to an MCAP file in recordings/ "
        "below the output. It converts to the same bytes as the session wrote. Set it if you may want other "
        "formats or options later.",
    )
    workers: int = Field(
        0,
        ge=0,
        le=1024,
        description="Encoder threads, or processes where several convert recordings of 20 MiB or more; 0: "
        "one per core. The output does not depend on it. Lower it where other programs need the cores.",
    )
    decoder: Literal["software", "v4l2m2m", "nvdec"] = Field(
        "software",
        description="What decodes video: software (libavcodec); v4l2m2m, the hardware of the device; nvdec, "
        "an NVIDIA GPU. A run does not start where the hardware is missing. Hardware does not report damage "
        "inside a frame. Choose hardware where the cores cannot keep up with the video.",
    )
    _named: frozenset[str] = PrivateAttr(frozenset())
    formats: FormatNames = Field(
        ("edgefirst",),
        min_length=1,
        description="Dataset formats to write. Name those that your training reads: one run writes them all.",
    )
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
    def pictures(self) -> str:
        """Which pictures are asked for, in words."""
        chosen = {
            f"at most {self.rate_hz:g} a second": self.rate_hz > 0,
            f"one of {self.every_n}": self.every_n > 1,
            "key frames": self.keyframes,
            f"one every {self.every_m:g} m": self.every_m > 0,
            "one of each stop": self.skip_standstill,
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
        is_named = self.complete != ALL and self._demands(rule)
        chosen = "auto" if is_named else rule.required or ("auto" if self._demands(rule) else "never")
        return "auto" if chosen == "auto" and rule.role in self.sample_roles else "never"

    def _demands(self, rule: TopicRule) -> bool:
        if self.complete in {"", ALL}:
            return bool(self.complete)
        names = {rule.role.value, *(name for name, each in self.topics.items() if each == rule)}
        return any(SHORT_ROLES.get(wanted, wanted) in names for wanted in self.complete.split(","))

    @field_validator("complete", mode="before")
    @classmethod
    def _all_or_names(cls, value: object) -> object:
        if isinstance(value, bool) or (isinstance(value, str) and value.lower() in {"true", "false"}):
            return ALL if str(value).lower() == "true" else ""
        names = names_of(value)
        if isinstance(names, list | tuple) and all(isinstance(name, str) for name in names):
            return ",".join(filter(None, names))
        return value

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
        wanted = self.complete.split(",") if self.complete else []
        if unknown := [name for name in wanted if name not in known]:
            told = ", ".join(sorted({*SHORT_ROLES, *roles}))
            raise ValueError(
                f"complete: no sensor {', '.join(unknown)}; there are {ALL}, {told}, and entries of topics"
            )
        if ALL in wanted and len(wanted) > 1:
            raise ValueError(f"complete: {ALL} includes the others")
        return self

    @model_validator(mode="after")
    def _known_companions(self) -> Settings:
        for name, rule in self.topics.items():
            if unknown := [each for each in rule.companions if each not in self.topics]:
                raise ValueError(f"topics.{name}.with: no entry {', '.join(unknown)} of topics")
        return self

    @model_validator(mode="after")
    def _on_the_rig(self) -> Settings:
        """No placed sensor is, over others, mounted on itself."""
        placed = ((rule.sensor or name, rule) for name, rule in self.topics.items() if rule.is_placed)
        parents = {bare(sensor): bare(rule.mount_frame) for sensor, rule in placed}
        for sensor in parents:
            way = [sensor]
            while (above := parents.get(way[-1], "")) and above not in way:
                way.append(above)
            if above == sensor:
                raise ValueError(
                    f"topics.{sensor}.mount_frame: {' is mounted on '.join([*way, sensor])}; name a frame "
                    "that leads to the rig's"
                )
        return self

    @model_validator(mode="after")
    def _one_selection(self) -> Settings:
        given = {"rate_hz": self.rate_hz > 0, "every_n": self.every_n > 1, "keyframes": self.keyframes}
        chosen = [name for name, is_given in given.items() if is_given]
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


MOST_NUMBER, LEAST_NUMBER = 1e9, 1e-6
"""Of numbers without limits of their own: times and sizes overflow above, their reciprocals below."""


def _implausible(value: Any, name: str = "", *, bounded: bool = False) -> Iterator[str]:  # noqa: ANN401 - of any field
    """A sentence for every number with which nothing can be calculated, wherever it is in a model."""
    if isinstance(value, CameraFile):  # coefficients may be tiny; it is judged as CameraInfo is
        return
    if isinstance(value, BaseModel):
        for part, info in type(value).model_fields.items():
            above = any(hasattr(each, "le") or hasattr(each, "lt") for each in info.metadata)
            yield from _implausible(getattr(value, part), f"{name}.{part}".lstrip("."), bounded=above)
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield from _implausible(part, f"{name}.{key}", bounded=bounded)
    elif isinstance(value, list | tuple):
        for number, part in enumerate(value):
            yield from _implausible(part, f"{name}.{number}", bounded=bounded)
    elif isinstance(value, int | float) and (
        0 < abs(value) < LEAST_NUMBER or (abs(value) > MOST_NUMBER and not bounded)
    ):
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
    if faults := [*_implausible(config)] or [*config.vehicle.faults()]:
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


SELECTIONS = frozenset({"rate_hz", "every_n", "keyframes"})


def chosen_config(values: Mapping[str, Any], chosen: Mapping[str, Any]) -> Config:
    """The configuration of ``values`` with what was chosen in their place.

    Args:
        values: plain values of a file or of a recorded session.
        chosen: single settings, also in the blocks of formats; None means not given.

    Raises:
        ConfigError: with one sentence for every fault.
    """
    merged = dict(values)
    given = _given(chosen)
    if SELECTIONS & given.keys():  # they exclude one another, so this one replaces the file's
        merged = {key: value for key, value in merged.items() if key not in SELECTIONS}
    for name in FORMATS.keys() & given.keys():
        if isinstance(own := given[name], Mapping) and isinstance(before := merged.get(name, {}), Mapping):
            given[name] = {**before, **_given(own)}
    return build_config(merged | given)


def preset(program: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Single settings with those for a program, where none was given.

    Raises:
        ConfigError: no format knows the program.
    """
    known = {name: values for each in FORMATS.values() for name, values in each.presets.items()}
    if program not in known:
        raise ConfigError([f"for: {program!r} is not known; there are {', '.join(sorted(known))}"])
    merged = dict(given)
    for name, value in known[program].items():
        if isinstance(value, Mapping):
            merged[name] = {**value, **(given.get(name) or {})}
        elif given.get(name) is None:
            merged[name] = value
    return merged


def _given(values: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}
