"""The topics of a simulated drive, and the truth about their messages."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from functools import lru_cache, partial
from typing import Any, NamedTuple

import numpy as np

from edgefirst_ros.simulation import navigation, wire
from edgefirst_ros.simulation import ranging as radar
from edgefirst_ros.simulation.camera import (
    LABELS,
    Grain,
    Pixels,
    Video,
    quarter,
    sampled,
    view,
)
from edgefirst_ros.simulation.detector import Detector
from edgefirst_ros.simulation.options import DriveOptions
from edgefirst_ros.simulation.ranging import Lidar
from edgefirst_ros.simulation.rig import MoreSensor
from edgefirst_ros.simulation.schedule import EPOCH_GAP_NS, Channel, Schedule, Times, thinned
from edgefirst_ros.simulation.world import Mount, build

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


UNHURT: Mapping[str, Any] = {
    "bframes": 0, "mbit_s": 0.0, "drop_video": 0.0, "damage_video": 0.0, "same_stamp": 0.0, "tiles": False,
    "jpeg": False, "frozen": {}, "black": (),
}  # fmt: skip


class _Receiver(NamedTuple):
    epochs_ns: Times
    fixes: navigation.Fixes


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

    def __init__(self, options: DriveOptions) -> None:
        self.options = options
        self.world = build(
            options.seed,
            options.width,
            options.height,
            stops=options.stops,
            traffic=options.traffic,
            crossings_s=options.crossings_s,
            walkers_stand_s=options.walkers_stand_s,
            own=options.own,
            more=options.more,
            rocking_rad_s=options.rocking_rad_s,
        )
        self._schedule = Schedule(options)
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
            "duplicates": {
                topic: np.flatnonzero(np.diff(channel.made, prepend=-1) == 0).tolist()
                for topic, channel in channels.items()
            },
            "sha256": self._hashes,
            "messages": {
                topic: np.stack([channel.true_ns, channel.stamp_ns, channel.log_ns], axis=1).tolist()
                for topic, channel in channels.items()
            },
            "world": asdict(self.world) | {"path": [self._pose(int(t)) for t in self._pictures_ns]},
        }

    def _seconds(self, time_ns: int) -> float:
        return (time_ns - self.options.start_ns) / 1e9

    def _shown(self, topic: str, index: int, time_s: float, hz: float) -> tuple[int, float]:
        """Number and time of the message that one repeats: of a frozen topic those of the span's begin."""
        shown_s = self.options.shown_s(topic, time_s)
        return max(0, index - round((time_s - shown_s) * hz)), shown_s

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
        world, options = self.world, self.options
        errors, seed, frame = options.imu, [options.seed, 4], ""
        if sensor is not None:
            errors, seed, frame = (
                replace(errors, mounting_deg=sensor.rpy_deg),
                [*seed, *name.encode()],
                sensor.frame,
            )

        def imu(index: int, stamp_ns: int, time_s: float) -> bytes:
            index, time_s = self._shown(name, index, time_s, hz)
            noise = np.random.default_rng([*seed, index])
            along = None if sensor is None else world.motion(sensor.at_m, time_s)[1]
            return wire.imu(
                stamp_ns, navigation.imu_reading(world.rig.state(time_s), errors, noise, along), frame
            )

        times = self._schedule.periodic(name, hz, first_ms)
        kind, device = "sensor_msgs/msg/Imu", sensor.device if sensor else ""
        return self._schedule.channel(
            name, kind, times, imu, sensor="imu", monotonic=monotonic, device=device
        )

    def _gps(self, name: str, hz: float, first_ms: float, sensor: MoreSensor | None = None) -> Channel:
        schedule, options = self._schedule, self.options
        errors, antenna_m, frame, device = "gps errors", (0.0, 0.0, 0.0), "", ""
        if sensor is not None:
            errors, antenna_m, frame, device = f"{name} errors", sensor.at_m, sensor.frame, sensor.device
        epochs_ns = schedule.periodic(name, hz, first_ms)
        epochs_s, noise = (epochs_ns - options.start_ns) / 1e9, schedule.random(errors)
        fixes = navigation.fixes(
            self.world, epochs_s, options.gps_no_fix, options.gps, noise, antenna_m=antenna_m
        )
        self._receivers[name] = _Receiver(epochs_ns, fixes)

        def gps(index: int, stamp_ns: int, time_s: float) -> bytes:
            epoch, _ = self._shown(name, index // 2, time_s, hz)
            return wire.gps(stamp_ns, fixes.sent[epoch, index % 2], options.gps.said_sigma_m, frame)

        times = (epochs_ns[:, None] + np.array([0, EPOCH_GAP_NS])).ravel()
        return schedule.channel(name, "sensor_msgs/msg/NavSatFix", times, gps, sensor="gps", device=device)

    def _gps_truth(self, name: str, channels: Mapping[str, Channel]) -> dict[str, Any]:
        """The epochs sent, the true position at those with a fix, and the position in every message."""
        made, (epochs_ns, fixes) = channels[self.topic(name)].made, self._receivers[name]
        epochs = np.unique(made // 2)
        lost = self.options.gps_no_fix
        return {
            "epochs": len(epochs),
            "accepted": [[int(epochs_ns[n]), *fixes.true[n]] for n in epochs if n >= lost],
            "sent": fixes.sent.reshape(-1, 3)[made].tolist(),
            "outliers": np.flatnonzero(fixes.outlier.ravel()[made]).tolist(),
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
        options, frame, seed, device = self.options, "lidar", [self.options.seed, 3], ""
        lidar = Lidar(self.world, options)
        if sensor is not None:
            frame, seed, device = sensor.frame, [options.seed, 6], sensor.device
            lidar = Lidar(self.world, options, frame, sensor.points)

        def sweep(index: int, stamp_ns: int, time_s: float) -> bytes:
            share = options.zero_share(time_s) if sensor is None else 0.0
            number, time_s = self._shown(name, index, time_s, hz)
            taken = lidar.sweep(time_s, stamp_ns, np.random.default_rng([*seed, number]))
            lost = np.random.default_rng([options.seed, 5, number]).random(len(taken.points)) < share
            for axis in "xyz":
                taken.points[axis][lost] = 0.0
            self._hash(name, np.stack([taken.points[axis] for axis in "xyz"], axis=1))
            return wire.cloud(stamp_ns, frame, taken.points, taken.height, is_dense=taken.is_dense)

        times, kind = self._schedule.periodic("lidar" if sensor is None else name, hz, first_ms), CLOUD
        return self._schedule.channel(
            name, kind, times, sweep, sensor="lidar", monotonic=monotonic, device=device
        )

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
        grain = Grain(options.grain, options.width, options.height, options.seed) if options.grain else None

        @lru_cache(maxsize=4)  # the encoders of tiles ask for the same few pictures at nearly the same time
        def picture(number: int) -> Pixels:
            time_s = self._seconds(int(self._pictures_ns[number]))
            number, shown_s = self._shown("camera", number, time_s, options.fps)
            drawn = self._view.picture(shown_s)
            if options.is_black(time_s):
                return np.zeros_like(drawn)
            if options.brightness < 1.0:
                drawn = (drawn * options.brightness).astype(np.uint8)
            return drawn if grain is None else grain.added(drawn, number)

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

    def _pictures(self, name: str, picture: Callable[[int], Pixels], camera: _Camera) -> Channel:
        """The channel of one encoder; a message has the time of the picture that its access unit holds."""
        options, times_ns, frame, device, form, parts = camera
        schedule, count, form = self._schedule, len(times_ns), form or options.codec
        since_s = (times_ns - options.start_ns) / 1e9
        lost = schedule.random(name + " loss").random(count) < options.drop_video
        lost |= [options.is_silent(name, float(time_s)) for time_s in since_s]
        kept = np.flatnonzero(~lost)
        early = schedule.random(name + " stamps").random(count) < options.same_stamp
        # With B-frames an access unit waits for the pictures that its successors predict from.
        ready_ns = times_ns[np.minimum(kept + options.bframes, count - 1)]
        stamps_ns = schedule.stamped(name, times_ns, device=device)
        usual_ns = stamps_ns if device else times_ns
        faults = schedule.random(name + " damage")
        video = self._videos[self.topic(name)] = Video(options, form, usual_ns, faults, parts)
        arriving = ((number, unit) for number, unit in video.units(picture) if not lost[number])

        def encode(index: int, _: int, __: float) -> bytes:
            unit = video.send(*next(arriving))
            true_ns = int(times_ns[unit.picture])
            stamp_ns = int(stamps_ns[max(unit.picture - int(early[unit.picture]), 0)])
            here = channel.made == index
            channel.true_ns[here], channel.stamp_ns[here] = true_ns, stamp_ns
            if form == "raw":
                return wire.image(stamp_ns, unit.data, options.width, frame)
            if form == "jpeg":
                return wire.jpeg(stamp_ns, unit.data, frame)
            return wire.video(stamp_ns, unit.data, options.codec, frame)

        channel = video.channel = schedule.channel(
            name, IMAGE_TYPES[form], ready_ns, encode, sensor="camera", kept=True, device=device
        )
        return channel

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
            flat = Detector(self.world, self.options.boxes, seed=self.options.seed, frame=frame)
            yield self._schedule.channel(
                sensor.boxes,
                "edgefirst_msgs/msg/Model",
                times,
                lambda _, stamp, time_s: wire.model(stamp, flat.boxes_2d(stamp, time_s), frame),
                sensor="model",
                device=sensor.device,
            )
        drawn = view(self.world, frame)
        # What goes wrong with the device's own camera goes wrong with no other.
        options = replace(
            self.options,
            fps=max(1, round(sensor.hz)),
            width=sensor.width,
            height=sensor.height,
            codec="h265" if sensor.codec == "h265" else "h264",
            **UNHURT,
        )
        camera = _Camera(options, times, frame, sensor.device, sensor.codec)
        yield self._pictures(
            sensor.topic, lambda number: drawn.picture(self._seconds(int(times[number]))), camera
        )

    def _model(self) -> Iterator[Channel]:
        options, own = self.options, "edgefirst_msgs/msg/"
        frames_ns = self._pictures_ns[thinned(self._pictures_ns, options.fps, options.model_hz)]
        flat, solid = (
            Detector(self.world, options.boxes, seed=options.seed, solid=solid) for solid in (False, True)
        )

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
