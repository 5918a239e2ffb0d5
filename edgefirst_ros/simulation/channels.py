"""The topics of a simulated drive, and the truth about their messages."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple

import numpy as np

from edgefirst_ros.simulation import sensors, wire
from edgefirst_ros.simulation.camera import Pixels, view
from edgefirst_ros.simulation.detector import OWN, Detector
from edgefirst_ros.simulation.options import DriveOptions, MoreSensor
from edgefirst_ros.simulation.schedule import EPOCH_GAP_NS, Channel, Schedule, Times, thinned
from edgefirst_ros.simulation.video import Video
from edgefirst_ros.simulation.world import FloatArray, Mount, World, build

TF_HZ = 20.0
"""As a robot's joints are usually told."""
TRANSFORM = "geometry_msgs/msg/TransformStamped"
CLOUD = "sensor_msgs/msg/PointCloud2"
VIDEO = "foxglove_msgs/msg/CompressedVideo"
IMAGE_TYPES = {
    "jpeg": "sensor_msgs/msg/CompressedImage", "raw": "sensor_msgs/msg/Image", "h264": VIDEO, "h265": VIDEO,
}  # fmt: skip


class Receiver(NamedTuple):
    """A GPS: its epochs; latitude, longitude and height of each, zeros while there is no fix; and as sent."""

    epochs_ns: Times
    true: FloatArray
    sent: FloatArray
    """Of every message."""


class Camera(NamedTuple):
    """What the pictures of one topic are of: when they are taken, in which form."""

    options: DriveOptions
    times_ns: Times
    frame: str
    form: str


class SimulatedDrive:
    """A world and the topics of the sensors in it.

    The messages of a channel must be encoded in order; ``truth()`` is complete once all are encoded.
    """

    timetable: ClassVar[type[Schedule]] = Schedule

    def __init__(self, options: DriveOptions) -> None:
        self.options = options
        self.world = self._world()
        self._schedule = self.timetable(options)
        self._pictures_ns = self._schedule.camera()
        self._hashes: dict[str, list[str]] = {}
        self._videos: dict[str, Video] = {}
        self._receivers: dict[str, Receiver] = {}
        self.channels = [*self._mounts()]
        if options.own:
            self._view = view(self.world)
            self.channels += [
                self._imu("imu", options.imu_hz, 4.0),
                self._gps("gps", options.gps_hz, 35.0),
                *self._radar(),
                *self._camera(),
                self._lidar("lidar/points", options.lidar_hz, 21.0),
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
            own=options.own,
            more=options.more,
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

        def transform(index: int, stamp_ns: int, time_s: float) -> bytes:
            return make(stamp_ns, mounts[index % len(mounts)].at(time_s))

        times = self._schedule.periodic(name, hz, 2.0)[:, None] + np.arange(len(mounts)) * 9_000_000
        return self._schedule.channel(name, kind, times.ravel(), transform, sensor="tf_static", frozen=frozen)

    def _imu(self, name: str, hz: float, first_ms: float, sensor: MoreSensor | None = None) -> Channel:
        frame = sensor.frame if sensor else ""

        def imu(index: int, stamp_ns: int, time_s: float) -> bytes:
            return wire.imu(stamp_ns, self._felt(sensor, name, index, time_s), frame)

        times = self._schedule.periodic(name, hz, first_ms)
        return self._schedule.channel(
            name, "sensor_msgs/msg/Imu", times, imu, sensor="imu", monotonic=sensor is None
        )

    def _felt(self, sensor: MoreSensor | None, name: str, index: int, time_s: float) -> sensors.ImuReading:  # noqa: ARG002
        """The reading of a message of an IMU."""
        state = self.world.rig.state(time_s)
        if sensor is None:
            return sensors.imu_reading(state)
        return sensors.imu_reading(state, sensor.rpy_deg, self.world.motion(sensor.at_m, time_s)[1])

    def _gps(self, name: str, hz: float, first_ms: float, sensor: MoreSensor | None = None) -> Channel:
        options, (antenna_m, frame) = self.options, ((0.0, 0.0, 0.0), "")
        if sensor is not None:
            antenna_m, frame = sensor.at_m, sensor.frame
        epochs_ns = self._schedule.periodic(name, hz, first_ms)
        places_m = [sensors.antenna_m(self.world, self._seconds(int(t)), antenna_m) for t in epochs_ns]
        true, sent = np.zeros((len(epochs_ns), 3)), np.zeros((2 * len(epochs_ns), 3))
        sent_m = self._sent_m(name, (epochs_ns - options.start_ns) / 1e9, np.reshape(places_m, (-1, 3)))
        for epoch in range(options.gps_no_fix, len(epochs_ns)):
            true[epoch] = sensors.fix(self.world, places_m[epoch])
            for message in (2 * epoch, 2 * epoch + 1):
                sent[message] = sensors.fix(self.world, sent_m[message])
        self._receivers[name] = Receiver(epochs_ns, true, sent)

        def gps(index: int, stamp_ns: int, _: float) -> bytes:
            return wire.gps(stamp_ns, sent[index], frame)

        times = (epochs_ns[:, None] + np.array([0, EPOCH_GAP_NS])).ravel()
        return self._schedule.channel(name, "sensor_msgs/msg/NavSatFix", times, gps, sensor="gps")

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
        def scan(number: int, time_s: float) -> sensors.Points:
            # A cube shows the same returns as the targets with its stamp.
            return sensors.radar_scan(world, time_s, np.random.default_rng([options.seed, 1, number]))

        def cube(index: int, stamp_ns: int, time_s: float) -> bytes:
            noise = np.random.default_rng([options.seed, 2, index])
            values = sensors.radar_cube(scan(int(kept[index]), time_s), options.cube_shape, noise)
            self._hash("radar/cube", values)
            return wire.cube(stamp_ns, values)

        def targets(index: int, stamp_ns: int, time_s: float) -> bytes:
            return wire.cloud(stamp_ns, "radar", scan(index, time_s))

        def info(_: int, stamp_ns: int, __: float) -> bytes:
            return wire.radar_info(stamp_ns)

        own, seldom_ns = "edgefirst_msgs/msg/", schedule.periodic("radar/info", 1.0, 400.0)
        yield schedule.channel(
            "radar/cube", own + "RadarCube", scans_ns[kept], cube, sensor="radar", monotonic=True
        )
        yield schedule.channel("radar/targets", CLOUD, scans_ns, targets, sensor="radar", monotonic=True)
        yield schedule.channel(
            "radar/info", own + "RadarInfo", seldom_ns, info, sensor="radar", monotonic=True, frozen=True
        )

    def _lidar(self, name: str, hz: float, first_ms: float, sensor: MoreSensor | None = None) -> Channel:
        lidar, frame = self._ranger(sensor), sensor.frame if sensor else "lidar"

        def sweep(index: int, stamp_ns: int, time_s: float) -> bytes:
            points = lidar.sweep(time_s, index, stamp_ns)
            self._hash(name, np.stack([points[axis] for axis in "xyz"], axis=1))
            return wire.cloud(stamp_ns, frame, points, lidar.rows, is_dense=lidar.is_dense)

        times = self._schedule.periodic(name if sensor else "lidar", hz, first_ms)
        return self._schedule.channel(name, CLOUD, times, sweep, sensor="lidar", monotonic=sensor is None)

    def _ranger(self, sensor: MoreSensor | None) -> sensors.Lidar:
        if sensor is None:
            return sensors.Lidar(self.world, self.options.lidar_points)
        return sensors.Lidar(self.world, sensor.points, sensor.frame)

    def _camera(self) -> Iterator[Channel]:
        def info(_: int, stamp_ns: int, __: float) -> bytes:
            return wire.camera_info(stamp_ns, self.world.camera)

        yield self._schedule.channel(
            "camera/info", "sensor_msgs/msg/CameraInfo", self._pictures_ns, info, sensor="camera", frozen=True
        )
        form = "jpeg" if self.options.jpeg else self.options.codec
        yield from self._own_pictures(form, Camera(self.options, self._pictures_ns, OWN, form))

    def _own_pictures(self, name: str, camera: Camera) -> Iterator[Channel]:
        yield self._pictures(f"camera/{name}", self._picture, camera)

    def _picture(self, number: int) -> Pixels:
        """What the device's camera takes."""
        return self._view.picture(self._seconds(int(self._pictures_ns[number])))

    def _pictures(self, name: str, picture: Callable[[int], Pixels], camera: Camera) -> Channel:
        """The channel of one encoder; a message has the time of the picture that its access unit holds."""
        options, times_ns, frame, form = camera
        schedule, count = self._schedule, len(times_ns)
        sent = schedule.units(name, times_ns)
        # With B-frames an access unit waits for the pictures that its successors predict from.
        ready_ns = times_ns[np.minimum(sent + options.bframes, count - 1)]
        stamps_ns = schedule.stamped(name, times_ns, "camera")
        video = self._videos[self.topic(name)] = self._video(name, camera)
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

        channel = video.channel = schedule.channel(name, IMAGE_TYPES[form], ready_ns, encode, sensor="camera")
        return channel

    def _video(self, name: str, camera: Camera) -> Video:  # noqa: ARG002 - for others
        return Video(camera.options, camera.form, len(camera.times_ns))

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
            noise = np.random.default_rng([*seed, index])
            scan = sensors.radar_scan(self.world, time_s, noise, sensor.frame)
            self._hash(sensor.topic, np.stack([scan[axis] for axis in "xyz"], axis=1))
            return wire.cloud(stamp_ns, sensor.frame, scan)

        times = self._schedule.periodic(sensor.topic, sensor.hz, sensor.first_ms)
        return self._schedule.channel(sensor.topic, CLOUD, times, targets, sensor="radar")

    def _other_camera(self, sensor: MoreSensor) -> Iterator[Channel]:
        frame, lens, schedule = sensor.frame, self.world.lens(sensor.frame), self._schedule
        times = schedule.periodic(sensor.topic, sensor.hz, sensor.first_ms)
        flat, drawn = self._detector(frame), view(self.world, frame)

        def info(_: int, stamp_ns: int, __: float) -> bytes:
            return wire.camera_info(stamp_ns, lens, frame)

        def boxes(_: int, stamp_ns: int, time_s: float) -> bytes:
            return wire.model(stamp_ns, flat.boxes_2d(stamp_ns, time_s), frame)

        if sensor.info:
            yield schedule.channel(sensor.info, "sensor_msgs/msg/CameraInfo", times, info, sensor="camera")
        if sensor.boxes:
            yield schedule.channel(sensor.boxes, "edgefirst_msgs/msg/Model", times, boxes, sensor="model")
        options = replace(
            self.options,
            fps=max(1, round(sensor.hz)),
            width=sensor.width,
            height=sensor.height,
            codec="h265" if sensor.codec == "h265" else "h264",
            bframes=0,
            mbit_s=0.0,
        )
        yield self._pictures(
            sensor.topic,
            lambda number: drawn.picture(self._seconds(int(times[number]))),
            Camera(options, times, frame, sensor.codec),
        )

    def _detector(self, frame: str = OWN, *, is_solid: bool = False) -> Detector:  # noqa: ARG002
        return Detector(self.world, frame)

    def _model(self) -> Iterator[Channel]:
        options, schedule = self.options, self._schedule
        frames_ns = self._pictures_ns[thinned(self._pictures_ns, options.fps, options.model_hz)]
        flat, solid = self._detector(), self._detector(is_solid=True)

        def boxes_2d(_: int, stamp_ns: int, time_s: float) -> bytes:
            return wire.model(stamp_ns, flat.boxes_2d(stamp_ns, time_s))

        def boxes_3d(_: int, stamp_ns: int, time_s: float) -> bytes:
            return wire.boxes_3d(stamp_ns, solid.boxes_3d(stamp_ns, time_s))

        yield schedule.channel(
            "model/output", "edgefirst_msgs/msg/Model", frames_ns, boxes_2d, sensor="model"
        )
        if options.boxes3d:
            kind = "edgefirst_msgs/msg/Detect"
            yield schedule.channel("fusion/boxes3d", kind, frames_ns, boxes_3d, sensor="model")
