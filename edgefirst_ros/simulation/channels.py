"""The topics of a simulated drive, and the truth about their messages."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from dataclasses import asdict
from functools import lru_cache, partial
from typing import Any

import numpy as np

from edgefirst_ros.simulation import navigation, wire
from edgefirst_ros.simulation import ranging as radar
from edgefirst_ros.simulation.camera import (
    LABELS,
    EncodedPicture,
    Grain,
    Pixels,
    Renderer,
    Video,
    access_units,
    burn_number,
    jpegs,
    quarter,
    sampled,
)
from edgefirst_ros.simulation.detector import Detector
from edgefirst_ros.simulation.options import DriveOptions, MoreSensor
from edgefirst_ros.simulation.ranging import Lidar
from edgefirst_ros.simulation.schedule import EPOCH_GAP_NS, Channel, Schedule, thinned
from edgefirst_ros.simulation.world import build

TILE_NAMES = {"tl": "topleft", "tr": "topright", "bl": "bottomleft", "br": "bottomright"}
TILES = {"tl": (0, 0), "tr": (0, 1), "bl": (1, 0), "br": (1, 1)}
VIDEO = "foxglove_msgs/msg/CompressedVideo"
IMAGE_TYPES = {
    "jpeg": "sensor_msgs/msg/CompressedImage", "raw": "sensor_msgs/msg/Image", "h264": VIDEO, "h265": VIDEO,
}  # fmt: skip


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
            more=options.more,
        )
        self._schedule = Schedule(options)
        self._pictures_ns = self._schedule.camera()
        self._hashes: dict[str, list[str]] = {}
        self._videos: dict[str, Video] = {}
        self._renderer = Renderer(self.world)
        self.channels = [
            *self._mounts(),
            *self._imu_and_gps(),
            *self._radar(),
            *self._camera(),
            *self._lidar(),
            *self._model(),
            *(channel for sensor in options.more for channel in self._more(sensor)),
        ]

    def topic(self, name: str) -> str:
        """The name of a topic in the recording."""
        return f"/{self.options.prefix}/{name}" if self.options.prefix else f"/{name}"

    def truth(self) -> dict[str, Any]:
        """The truth about the recording, as JSON values."""
        channels = {self.topic(channel.name): channel for channel in self.channels}
        return {
            "parameters": asdict(self.options),
            "start_ns": self.options.start_ns,
            "realtime_minus_monotonic_ns": self._schedule.realtime_minus_monotonic_ns,
            "counts": {topic: len(channel.log_ns) for topic, channel in channels.items()},
            "video": {topic: video.truth() for topic, video in self._videos.items()},
            "gps": self._gps_truth(channels[self.topic("gps")]),
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
        return [time_ns, *state.position_m.tolist(), *navigation.orientation(state)]

    def _hash(self, name: str, array: np.ndarray[Any, Any]) -> None:
        self._hashes.setdefault(self.topic(name), []).append(hashlib.sha256(array.tobytes()).hexdigest())

    def _mounts(self) -> Iterator[Channel]:
        world, schedule = self.world, self._schedule
        each_second = schedule.periodic("tf_static", 1.0, 2.0)
        times = (each_second[:, None] + np.arange(len(world.mounts)) * 9_000_000).ravel()
        yield schedule.channel(
            "tf_static",
            "geometry_msgs/msg/TransformStamped",
            times,
            lambda i, stamp, _: wire.mount(stamp, world.mounts[i % len(world.mounts)]),
            sensor="tf_static",
            frozen=True,
        )

    def _imu_and_gps(self) -> Iterator[Channel]:
        world, schedule, options = self.world, self._schedule, self.options

        def imu(index: int, stamp_ns: int, time_s: float) -> bytes:
            index, time_s = self._shown("imu", index, time_s, options.imu_hz)
            noise = np.random.default_rng([options.seed, 4, index])
            return wire.imu(stamp_ns, navigation.imu_reading(world.rig.state(time_s), options.imu, noise))

        yield schedule.channel(
            "imu",
            "sensor_msgs/msg/Imu",
            schedule.periodic("imu", options.imu_hz, 4.0),
            imu,
            sensor="imu",
            monotonic=True,
        )
        self._epochs_ns = schedule.periodic("gps", options.gps_hz, 35.0)
        epochs_s = (self._epochs_ns - options.start_ns) / 1e9
        noise = schedule.random("gps errors")

        def gps(index: int, stamp_ns: int, time_s: float) -> bytes:
            epoch, _ = self._shown("gps", index // 2, time_s, options.gps_hz)
            return wire.gps(stamp_ns, self._fixes.sent[epoch, index % 2], options.gps.said_sigma_m)

        self._fixes = navigation.fixes(world, epochs_s, options.gps_no_fix, options.gps, noise)
        yield schedule.channel(
            "gps",
            "sensor_msgs/msg/NavSatFix",
            (self._epochs_ns[:, None] + np.array([0, EPOCH_GAP_NS])).ravel(),
            gps,
            sensor="gps",
        )

    def _gps_truth(self, channel: Channel) -> dict[str, Any]:
        """The epochs sent, the true position at those with a fix, and the position in every message."""
        epochs = np.unique(channel.made // 2)
        lost = self.options.gps_no_fix
        return {
            "epochs": len(epochs),
            "accepted": [[int(self._epochs_ns[n]), *self._fixes.true[n]] for n in epochs if n >= lost],
            "sent": self._fixes.sent.reshape(-1, 3)[channel.made].tolist(),
            "outliers": np.flatnonzero(self._fixes.outlier.ravel()[channel.made]).tolist(),
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

        cloud, own = "sensor_msgs/msg/PointCloud2", "edgefirst_msgs/msg/"
        yield schedule.channel(
            "radar/cube", own + "RadarCube", scans_ns[kept], cube, sensor="radar", monotonic=True
        )
        yield schedule.channel("radar/targets", cloud, scans_ns, targets, sensor="radar", monotonic=True)
        yield schedule.channel(
            "radar/info",
            own + "RadarInfo",
            schedule.periodic("radar/info", 1.0, 400.0),
            lambda _, stamp, __: wire.radar_info(stamp),
            sensor="radar",
            monotonic=True,
            frozen=True,
        )

    def _lidar(self) -> Iterator[Channel]:
        lidar, options = Lidar(self.world, self.options), self.options

        def sweep(index: int, stamp_ns: int, time_s: float) -> bytes:
            share = options.zero_share(time_s)
            number, time_s = self._shown("lidar/points", index, time_s, options.lidar_hz)
            taken = lidar.sweep(time_s, stamp_ns, np.random.default_rng([options.seed, 3, number]))
            lost = np.random.default_rng([options.seed, 5, number]).random(len(taken.points)) < share
            for axis in "xyz":
                taken.points[axis][lost] = 0.0
            self._hash("lidar/points", np.stack([taken.points[axis] for axis in "xyz"], axis=1))
            return wire.cloud(stamp_ns, "lidar", taken.points, taken.height, is_dense=taken.is_dense)

        times = self._schedule.periodic("lidar", options.lidar_hz, 21.0)
        yield self._schedule.channel(
            "lidar/points", "sensor_msgs/msg/PointCloud2", times, sweep, sensor="lidar", monotonic=True
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
        renderer = self._renderer
        grain = Grain(options.grain, options.width, options.height, options.seed) if options.grain else None

        @lru_cache(maxsize=4)  # the encoders of tiles ask for the same few pictures at nearly the same time
        def picture(number: int) -> Pixels:
            time_s = self._seconds(int(self._pictures_ns[number]))
            number, shown_s = self._shown("camera", number, time_s, options.fps)
            drawn = renderer.picture(shown_s)
            if options.is_black(time_s):
                return np.zeros_like(drawn)
            if options.brightness < 1.0:
                drawn = (drawn * options.brightness).astype(np.uint8)
            return drawn if grain is None else grain.added(drawn, number)

        if options.tiles:
            for tile, at in TILES.items():
                cut = partial(_cut, picture, *at)
                yield self._pictures(f"camera/{options.codec}/{tile}", cut, tile=tile)
        else:
            yield self._pictures("camera/jpeg" if options.jpeg else f"camera/{options.codec}", picture)

    def _pictures(self, name: str, picture: Callable[[int], Pixels], tile: str = "") -> Channel:
        """The channel of one encoder; a message has the time of the picture that its access unit holds."""
        options, schedule, count = self.options, self._schedule, len(self._pictures_ns)
        frame_id = f"camera_optical_{TILE_NAMES[tile]}" if tile else "camera_optical"
        since_s = (self._pictures_ns - options.start_ns) / 1e9
        lost = schedule.random(name + " loss").random(count) < options.drop_video
        lost |= [options.is_silent(name, float(time_s)) for time_s in since_s]
        kept = np.flatnonzero(~lost)
        early = schedule.random(name + " stamps").random(count) < options.same_stamp
        # With B-frames an access unit waits for the pictures that its successors predict from.
        ready_ns = self._pictures_ns[np.minimum(kept + options.bframes, count - 1)]
        video = self._videos[self.topic(name)] = Video(
            options, count, schedule.random(name + " damage"), 2 if tile else 1
        )
        arriving = ((number, unit) for number, unit in video.units(picture) if not lost[number])

        stamps_ns = self._pictures_ns + schedule.stamped_off_ns(name, self._pictures_ns)

        def encode(index: int, _: int, __: float) -> bytes:
            unit = video.send(*next(arriving))
            true_ns = int(self._pictures_ns[unit.picture])
            stamp_ns = int(stamps_ns[max(unit.picture - int(early[unit.picture]), 0)])
            here = channel.made == index
            channel.true_ns[here], channel.stamp_ns[here] = true_ns, stamp_ns
            if options.jpeg:
                return wire.jpeg(stamp_ns, unit.data)
            return wire.video(stamp_ns, unit.data, options.codec, frame_id)

        schema = IMAGE_TYPES["jpeg" if options.jpeg else options.codec]
        channel = video.channel = schedule.channel(name, schema, ready_ns, encode, sensor="camera", kept=True)
        return channel

    def _more(self, sensor: MoreSensor) -> Iterator[Channel]:
        """The topics of a sensor beside the device's own; each picture shows its number."""
        options, world, schedule, frame = self.options, self.world, self._schedule, sensor.frame
        times = schedule.periodic(sensor.topic, sensor.hz, sensor.first_ms)
        if sensor.kind == "lidar":
            lidar = Lidar(world, options, frame, sensor.points)

            def sweep(index: int, stamp_ns: int, time_s: float) -> bytes:
                taken = lidar.sweep(time_s, stamp_ns, np.random.default_rng([options.seed, 6, index]))
                self._hash(sensor.topic, np.stack([taken.points[axis] for axis in "xyz"], axis=1))
                return wire.cloud(stamp_ns, frame, taken.points, taken.height, is_dense=taken.is_dense)

            cloud = "sensor_msgs/msg/PointCloud2"
            yield schedule.channel(sensor.topic, cloud, times, sweep, sensor="lidar", kept=True)
            return
        if sensor.info:
            pinhole = world.pinhole(frame)
            yield schedule.channel(
                sensor.info,
                "sensor_msgs/msg/CameraInfo",
                times,
                lambda _, stamp, __: wire.camera_info(stamp, pinhole, frame),
                sensor="camera",
            )
        renderer = Renderer(world, frame)
        pictures = (
            burn_number(renderer.picture(self._seconds(int(at_ns))), number)
            for number, at_ns in enumerate(times)
        )
        schema, codec = IMAGE_TYPES[sensor.codec], sensor.codec
        encoded: Iterator[EncodedPicture] = iter(())
        if codec == "jpeg":
            encoded = jpegs(pictures)
        elif codec != "raw":
            rules = {"width": sensor.width, "height": sensor.height, "fps": max(1, round(sensor.hz))}
            encoded = access_units(pictures, codec, **rules, bframes=0)

        def picture(_: int, stamp_ns: int, __: float) -> bytes:
            if codec == "raw":
                return wire.image(stamp_ns, next(pictures), frame)
            data = next(encoded).data
            if codec == "jpeg":
                return wire.jpeg(stamp_ns, data, frame)
            return wire.video(stamp_ns, data, codec, frame)

        yield schedule.channel(sensor.topic, schema, times, picture, sensor="camera", kept=True)

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
            return wire.mask(sampled(self._renderer.classes(time_s), options.mask_size))

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
