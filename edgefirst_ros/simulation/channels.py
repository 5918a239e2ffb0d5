"""The topics of a simulated drive, and the truth about their messages."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import lru_cache, partial
from typing import Any, ClassVar, NamedTuple

import numpy as np

from edgefirst_ros.simulation import navigation, wire
from edgefirst_ros.simulation import ranging as radar
from edgefirst_ros.simulation.camera import (
    LABELS,
    Pixels,
    Video,
    quarter,
    sampled,
    view,
)
from edgefirst_ros.simulation.detector import OWN, Detector
from edgefirst_ros.simulation.options import DriveOptions
from edgefirst_ros.simulation.ranging import Lidar
from edgefirst_ros.simulation.rig import MoreSensor
from edgefirst_ros.simulation.schedule import EPOCH_GAP_NS, Channel, Schedule, Times, thinned
from edgefirst_ros.simulation.world import FloatArray, Mount, World, build

TILE_NAMES = {"tl": "topleft", "tr": "topright", "bl": "bottomleft", "br": "bottomright"}
TILES = {"tl": (0, 0), "tr": (0, 1), "bl": (1, 0), "br": (1, 1)}
TF_HZ = 20.0
"""As a robot's joints are usually told."""
TRANSFORM = "geometry_msgs/msg/TransformStamped"
CLOUD = "sensor_msgs/msg/PointCloud2"
VIDEO = "foxglove_msgs/msg/CompressedVideo"
IMAGE_TYPES = {
    "jpeg": "sensor_msgs/msg/CompressedImage", "raw": "sensor_msgs/msg/Image", "h264": VIDEO, "h265": VIDEO,
}  # fmt: skip


class _Receiver(NamedTuple):
    epochs_ns: Times
    true: FloatArray
    """Latitude, longitude and height of every epoch; zeros while there is no fix."""
    sent: FloatArray
    """Likewise of every message."""


class _Camera(NamedTuple):
    """What the pictures of one topic are of: when they are taken, in which form; ``parts`` as for Video."""

    options: DriveOptions
    times_ns: Times
    frame: str
    device: str = ""
    form: str = ""
    parts: int = 1


class SimulatedDrive:
    """A world and the topics of the sensors in it.

    The messages of a channel must be encoded in order; ``truth()`` is complete once all are encoded.
    """

    timetable: ClassVar[type[Schedule]] = Schedule
    gps_sigma_m: tuple[float, float] | None = None
    """Horizontal and vertical, according to the fixes; the device's say that it is unknown."""

    def __init__(self, options: DriveOptions) -> None:
        self.options = options
        self.world = self._world()
        self._schedule = self.timetable(options)
        self._pictures_ns = self._schedule.camera()
        self._hashes: dict[str, list[str]] = {}
        self._videos: dict[str, Video] = {}
        self._receivers: dict[str, _Receiver] = {}
        self.channels = [*self._mounts()]
        if options.own:
            self._view = view(self.world)
            self.channels += [
                self._imu("imu", options.imu_hz, 4.0, monotonic=True),
                self._gps("gps", options.gps_hz, 35.0),
                *self._radar(),
                *self._camera(),
                self._lidar("lidar/points", options.lidar_hz, 21.0, monotonic=True),
                *self._model(),
            ]
        self.channels += [channel for sensor in options.more for channel in self._more(sensor)]

    def _world(self) -> World:
        options = self.options
        return build(
            options.seed,
            options.width,
            options.height,
            stops=options.stops,
            traffic=options.traffic,
            crossings_s=options.crossings_s,
            own=options.own,
            more=options.more,
            rocking_rad_s=options.rocking_rad_s,
        )

    def topic(self, name: str) -> str:
        """The name of a topic in the recording."""
        return f"/{self.options.prefix}/{name}" if self.options.prefix else f"/{name}"

    def truth(self) -> dict[str, Any]:
        """The truth about the recording, as JSON values."""
        channels = {self.topic(channel.name): channel for channel in self.channels}
        fixes = {self.topic(name): self._gps_truth(name, channels) for name in self._receivers}
        return {
            "parameters": asdict(self.options),
            "start_ns": self.options.start_ns,
            "realtime_minus_monotonic_ns": self._schedule.realtime_minus_monotonic_ns,
            "counts": {topic: len(channel.log_ns) for topic, channel in channels.items()},
            "video": {topic: video.truth() for topic, video in self._videos.items()},
            "gps": next(iter(fixes.values()), None),
            "fixes": fixes,
            "sha256": self._hashes,
            "messages": {
                topic: np.stack([channel.true_ns, channel.stamp_ns, channel.log_ns], axis=1).tolist()
                for topic, channel in channels.items()
            },
            "world": asdict(self.world) | {"path": [self._pose(int(t)) for t in self._pictures_ns]},
        }

    def _seconds(self, time_ns: int) -> float:
        return (time_ns - self.options.start_ns) / 1e9

    def _pose(self, time_ns: int) -> list[float]:
        state = self.world.rig.state(self._seconds(time_ns))
        return [time_ns, *state.position_m.tolist(), *state.quaternion_xyzw()]

    def _hash(self, name: str, array: np.ndarray[Any, Any]) -> None:
        self._hashes.setdefault(self.topic(name), []).append(hashlib.sha256(array.tobytes()).hexdigest())

    def _mounts(self) -> Iterator[Channel]:
        fixed = [mount for mount in self.world.mounts if mount.turns is None]
        yield self._transforms("tf_static", TRANSFORM, fixed, 1.0, frozen=True)
        if turning := [mount for mount in self.world.mounts if mount.turns is not None]:
            yield self._transforms("tf", "tf2_msgs/msg/TFMessage", turning, TF_HZ)

    def _transforms(
        self, name: str, kind: str, mounts: Sequence[Mount], hz: float, *, frozen: bool = False
    ) -> Channel:
        """Transforms of mounts, one a message and 9 ms apart."""
        make = wire.mount if kind == TRANSFORM else wire.tf
        times = self._schedule.periodic(name, hz, 2.0)[:, None] + np.arange(len(mounts)) * 9_000_000
        return self._schedule.channel(
            name,
            kind,
            times.ravel(),
            lambda i, stamp, time_s: make(stamp, mounts[i % len(mounts)].at(time_s)),
            sensor="tf_static",
            frozen=frozen,
        )

    def _imu(
        self,
        name: str,
        hz: float,
        first_ms: float,
        sensor: MoreSensor | None = None,
        *,
        monotonic: bool = False,
    ) -> Channel:
        frame = sensor.frame if sensor else ""

        def imu(index: int, stamp_ns: int, time_s: float) -> bytes:
            return wire.imu(stamp_ns, self._felt(sensor, name, index, time_s), frame)

        times = self._schedule.periodic(name, hz, first_ms)
        kind, device = "sensor_msgs/msg/Imu", sensor.device if sensor else ""
        return self._schedule.channel(
            name, kind, times, imu, sensor="imu", monotonic=monotonic, device=device
        )

    def _felt(self, sensor: MoreSensor | None, name: str, index: int, time_s: float) -> navigation.ImuReading:  # noqa: ARG002
        """The reading of a message of an IMU."""
        state = self.world.rig.state(time_s)
        if sensor is None:
            return navigation.imu_reading(state)
        return navigation.imu_reading(state, sensor.rpy_deg, self.world.motion(sensor.at_m, time_s)[1])

    def _gps(self, name: str, hz: float, first_ms: float, sensor: MoreSensor | None = None) -> Channel:
        schedule, options = self._schedule, self.options
        antenna_m, frame, device = (0.0, 0.0, 0.0), "", ""
        if sensor is not None:
            antenna_m, frame, device = sensor.at_m, sensor.frame, sensor.device
        epochs_ns = schedule.periodic(name, hz, first_ms)
        places_m = [navigation.antenna_m(self.world, self._seconds(int(t)), antenna_m) for t in epochs_ns]
        true, sent = np.zeros((len(epochs_ns), 3)), np.zeros((2 * len(epochs_ns), 3))
        sent_m = self._sent_m(name, (epochs_ns - options.start_ns) / 1e9, np.reshape(places_m, (-1, 3)))
        for epoch in range(options.gps_no_fix, len(epochs_ns)):
            true[epoch] = navigation.fix(self.world, places_m[epoch])
            for message in (2 * epoch, 2 * epoch + 1):
                sent[message] = navigation.fix(self.world, sent_m[message])
        self._receivers[name] = _Receiver(epochs_ns, true, sent)

        def gps(index: int, stamp_ns: int, _: float) -> bytes:
            return wire.gps(stamp_ns, sent[index], self.gps_sigma_m, frame)

        times = (epochs_ns[:, None] + np.array([0, EPOCH_GAP_NS])).ravel()
        return schedule.channel(name, "sensor_msgs/msg/NavSatFix", times, gps, sensor="gps", device=device)

    def _sent_m(self, name: str, epochs_s: FloatArray, places_m: FloatArray) -> FloatArray:  # noqa: ARG002
        """The places that the two messages of every epoch tell of an antenna that was at these."""
        return np.repeat(places_m, 2, axis=0)

    def _gps_truth(self, name: str, channels: Mapping[str, Channel]) -> dict[str, Any]:
        """The epochs sent, the true position at those with a fix, and the position in every message."""
        made, (epochs_ns, true, sent) = channels[self.topic(name)].made, self._receivers[name]
        epochs = np.unique(made // 2)
        lost = self.options.gps_no_fix
        return {
            "epochs": len(epochs),
            "accepted": [[int(epochs_ns[n]), *true[n]] for n in epochs if n >= lost],
            "sent": sent[made].tolist(),
        }

    def _radar(self) -> Iterator[Channel]:
        world, schedule, options = self.world, self._schedule, self.options
        scans_ns = schedule.periodic("radar", options.radar_hz, 7.0)
        kept = thinned(scans_ns, options.radar_hz, options.cube_hz)

        @lru_cache(maxsize=4)
        def scan(number: int, time_s: float) -> np.ndarray[Any, np.dtype[np.void]]:
            # A cube shows the same returns as the targets with its stamp.
            return radar.radar_scan(world, time_s, np.random.default_rng([options.seed, 1, number]))

        def cube(index: int, stamp_ns: int, time_s: float) -> bytes:
            noise = np.random.default_rng([options.seed, 2, index])
            values = radar.radar_cube(scan(int(kept[index]), time_s), options.cube_shape, noise)
            self._hash("radar/cube", values)
            return wire.cube(stamp_ns, values)

        def targets(index: int, stamp_ns: int, time_s: float) -> bytes:
            return wire.cloud(stamp_ns, "radar", scan(index, time_s))

        own = "edgefirst_msgs/msg/"
        yield schedule.channel(
            "radar/cube", own + "RadarCube", scans_ns[kept], cube, sensor="radar", monotonic=True
        )
        yield schedule.channel("radar/targets", CLOUD, scans_ns, targets, sensor="radar", monotonic=True)
        yield schedule.channel(
            "radar/info",
            own + "RadarInfo",
            schedule.periodic("radar/info", 1.0, 400.0),
            lambda _, stamp, __: wire.radar_info(stamp),
            sensor="radar",
            monotonic=True,
            frozen=True,
        )

    def _lidar(
        self,
        name: str,
        hz: float,
        first_ms: float,
        sensor: MoreSensor | None = None,
        *,
        monotonic: bool = False,
    ) -> Channel:
        lidar, device = self._ranger(sensor), sensor.device if sensor else ""
        frame = sensor.frame if sensor else "lidar"

        def sweep(index: int, stamp_ns: int, time_s: float) -> bytes:
            points = lidar.sweep(time_s, index, stamp_ns)
            self._hash(name, np.stack([points[axis] for axis in "xyz"], axis=1))
            return wire.cloud(stamp_ns, frame, points, lidar.rows, is_dense=lidar.is_dense)

        times, kind = self._schedule.periodic("lidar" if sensor is None else name, hz, first_ms), CLOUD
        return self._schedule.channel(
            name, kind, times, sweep, sensor="lidar", monotonic=monotonic, device=device
        )

    def _ranger(self, sensor: MoreSensor | None) -> Lidar:
        if sensor is None:
            return Lidar(self.world, self.options.lidar_points)
        return Lidar(self.world, sensor.points, sensor.frame)

    def _camera(self) -> Iterator[Channel]:
        options = self.options
        yield self._schedule.channel(
            "camera/info",
            "sensor_msgs/msg/CameraInfo",
            self._pictures_ns,
            lambda _, stamp, __: wire.camera_info(stamp, self.world.camera),
            sensor="camera",
            frozen=True,
        )
        # The encoders of tiles ask for the same few pictures at nearly the same time.
        picture = lru_cache(maxsize=4)(self._picture)
        camera = _Camera(options, self._pictures_ns, "camera_optical")
        if options.tiles:
            for tile, at in TILES.items():
                cut, part = partial(_cut, picture, *at), f"{camera.frame}_{TILE_NAMES[tile]}"
                yield self._pictures(
                    f"camera/{options.codec}/{tile}", cut, camera._replace(frame=part, parts=2)
                )
        elif options.jpeg:
            yield self._pictures("camera/jpeg", picture, camera._replace(form="jpeg"))
        else:
            yield self._pictures(f"camera/{options.codec}", picture, camera)

    def _picture(self, number: int) -> Pixels:
        """What the device's camera takes."""
        return self._view.picture(self._seconds(int(self._pictures_ns[number])))

    def _pictures(self, name: str, picture: Callable[[int], Pixels], camera: _Camera) -> Channel:
        """The channel of one encoder; a message has the time of the picture that its access unit holds."""
        options, times_ns, frame, device, form, _ = camera
        schedule, count, form = self._schedule, len(times_ns), form or options.codec
        sent = schedule.units(name, times_ns)
        # With B-frames an access unit waits for the pictures that its successors predict from.
        ready_ns = times_ns[np.minimum(sent + options.bframes, count - 1)]
        stamps_ns = schedule.stamped(name, times_ns, device=device)
        video = self._videos[self.topic(name)] = self._video(name, camera, form)
        arriving = (each for each in video.units(picture) if each[0] in sent)

        def encode(index: int, _: int, __: float) -> bytes:
            number, unit = next(arriving)
            data, stamp_ns = video.send(number, unit), int(stamps_ns[unit.picture])
            here = channel.made == index
            channel.true_ns[here], channel.stamp_ns[here] = times_ns[unit.picture], stamp_ns
            if form == "raw":
                return wire.image(stamp_ns, data, options.width, frame)
            if form == "jpeg":
                return wire.jpeg(stamp_ns, data, frame)
            return wire.video(stamp_ns, data, options.codec, frame)

        channel = video.channel = schedule.channel(
            name, IMAGE_TYPES[form], ready_ns, encode, sensor="camera", device=device
        )
        return channel

    def _video(self, name: str, camera: _Camera, form: str) -> Video:  # noqa: ARG002 - for others
        return Video(camera.options, form, len(camera.times_ns), camera.parts)

    def _more(self, sensor: MoreSensor) -> Iterator[Channel]:
        """The topics of a sensor beside the device's own, or of a rig; each picture shows its number."""
        given = sensor.topic, sensor.hz, sensor.first_ms, sensor
        if sensor.kind == "lidar":
            yield self._lidar(*given)
        elif sensor.kind == "imu":
            yield self._imu(*given)
        elif sensor.kind == "gps":
            yield self._gps(*given)
        elif sensor.kind == "radar":
            yield self._targets(sensor)
        else:
            yield from self._other_camera(sensor)

    def _targets(self, sensor: MoreSensor) -> Channel:
        seed = [self.options.seed, 1, *sensor.topic.encode()]

        def targets(index: int, stamp_ns: int, time_s: float) -> bytes:
            scan = radar.radar_scan(self.world, time_s, np.random.default_rng([*seed, index]), sensor.frame)
            self._hash(sensor.topic, np.stack([scan[axis] for axis in "xyz"], axis=1))
            return wire.cloud(stamp_ns, sensor.frame, scan)

        times = self._schedule.periodic(sensor.topic, sensor.hz, sensor.first_ms)
        return self._schedule.channel(
            sensor.topic, CLOUD, times, targets, sensor="radar", device=sensor.device
        )

    def _other_camera(self, sensor: MoreSensor) -> Iterator[Channel]:
        frame, lens = sensor.frame, self.world.lens(sensor.frame)
        times = self._schedule.periodic(sensor.topic, sensor.hz, sensor.first_ms)
        if sensor.info:
            yield self._schedule.channel(
                sensor.info,
                "sensor_msgs/msg/CameraInfo",
                times,
                lambda _, stamp, __: wire.camera_info(stamp, lens, frame),
                sensor="camera",
                device=sensor.device,
            )
        if sensor.boxes:
            flat = self._detector(frame)
            yield self._schedule.channel(
                sensor.boxes,
                "edgefirst_msgs/msg/Model",
                times,
                lambda _, stamp, time_s: wire.model(stamp, flat.boxes_2d(stamp, time_s), frame),
                sensor="model",
                device=sensor.device,
            )
        drawn = view(self.world, frame)
        options = replace(
            self.options,
            fps=max(1, round(sensor.hz)),
            width=sensor.width,
            height=sensor.height,
            codec="h265" if sensor.codec == "h265" else "h264",
            bframes=0,
            mbit_s=0.0,
            tiles=False,
            jpeg=False,
        )
        camera = _Camera(options, times, frame, sensor.device, sensor.codec)
        yield self._pictures(
            sensor.topic, lambda number: drawn.picture(self._seconds(int(times[number]))), camera
        )

    def _detector(self, frame: str = OWN, *, is_solid: bool = False) -> Detector:  # noqa: ARG002
        return Detector(self.world, frame)

    def _model(self) -> Iterator[Channel]:
        options, own = self.options, "edgefirst_msgs/msg/"
        frames_ns = self._pictures_ns[thinned(self._pictures_ns, options.fps, options.model_hz)]
        flat, solid = self._detector(), self._detector(is_solid=True)

        def boxes_2d(_: int, stamp_ns: int, time_s: float) -> bytes:
            return wire.model(stamp_ns, flat.boxes_2d(stamp_ns, time_s))

        def boxes_3d(_: int, stamp_ns: int, time_s: float) -> bytes:
            return wire.boxes_3d(stamp_ns, solid.boxes_3d(stamp_ns, time_s))

        def mask(_: int, __: int, time_s: float) -> bytes:
            return wire.mask(sampled(self._view.classes(time_s), options.mask_size))

        yield self._schedule.channel("model/output", own + "Model", frames_ns, boxes_2d, sensor="model")
        if options.boxes3d:
            yield self._schedule.channel(
                "fusion/boxes3d", own + "Detect", frames_ns, boxes_3d, sensor="model"
            )
        if options.masks:
            masks = self._schedule.channel("model/mask", own + "Mask", frames_ns, mask, sensor="model")
            masks.stamp_ns[:] = 0
            yield masks
            yield self._schedule.channel(
                "model/info",
                own + "ModelInfo",
                self._schedule.periodic("model/info", 1.0, 50.0),
                lambda _, stamp, __: wire.model_info(stamp, LABELS, options.mask_size),
                sensor="model",
            )


def _cut(picture: Callable[[int], Pixels], row: int, column: int, number: int) -> Pixels:
    return quarter(picture(number), row, column)
