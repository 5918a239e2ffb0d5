"""A simulated drive with faults, written as the simulator writes one without."""

from __future__ import annotations

import json
import struct
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from mcap.reader import make_reader
from mcap.writer import Writer

from edgefirst_ros.simulation import DriveOptions, MoreSensor, Recording
from edgefirst_ros.simulation.camera import Pixels, Video
from edgefirst_ros.simulation.channels import SimulatedDrive, _Camera
from edgefirst_ros.simulation.detector import OWN
from edgefirst_ros.simulation.drive import COMPRESSIONS, write
from edgefirst_ros.simulation.navigation import ImuReading
from edgefirst_ros.simulation.schedule import Channel
from edgefirst_ros.simulation.world import FloatArray, World
from faulty.options import FaultyOptions
from faulty.schedule import FaultySchedule
from faulty.sensors import FaultyDetector, FaultyLidar, fixes_m, imu_reading
from faulty.video import FaultyVideo, Grain

MCAP_FOOTER = struct.Struct("<BQQQI8s")
MCAP_DATA_END_BYTES = 13


class FaultyDrive(SimulatedDrive):
    """A drive with the faults of its options."""

    options: FaultyOptions
    timetable = FaultySchedule
    _schedule: FaultySchedule

    def __init__(self, options: FaultyOptions) -> None:
        self._outliers: dict[str, Any] = {}
        size = options.width, options.height
        self._grain = Grain(options.grain, *size, options.seed) if options.grain else None
        self.gps_sigma_m = options.gps.said_sigma_m
        super().__init__(options)

    def truth(self) -> dict[str, Any]:
        truth, channels = super().truth(), {self.topic(each.name): each for each in self.channels}
        truth["duplicates"] = {
            topic: np.flatnonzero(np.diff(channel.made, prepend=-1) == 0).tolist()
            for topic, channel in channels.items()
        }
        for topic, video in truth["video"].items():
            channel, is_own = channels[topic], self._schedule.is_own(channels[topic].name)
            off = channel.stamp_ns != channel.true_ns
            video["dropped"] = sorted(set(range(video["frames"])) - set(video["units"]))
            video["same_stamp"] = np.flatnonzero(off).tolist() if is_own else []
        return truth

    def _world(self) -> World:
        world, until_s = super()._world(), self.options.walkers_stand_s
        if not until_s:
            return world
        boxes = [
            replace(box, motion=replace(box.motion, stops=((0.0, until_s),)))
            if box.label == "person"
            else box
            for box in world.boxes
        ]
        return replace(world, boxes=tuple(boxes))

    def _felt(self, sensor: MoreSensor | None, name: str, index: int, time_s: float) -> ImuReading:
        errors, seed, along, state = (
            self.options.imu,
            [self.options.seed, 4],
            None,
            self.world.rig.state(time_s),
        )
        if sensor is not None:
            errors, seed = replace(errors, mounting_deg=sensor.rpy_deg), [*seed, *name.encode()]
            along = self.world.motion(sensor.at_m, time_s)[1]
        return imu_reading(state, errors, np.random.default_rng([*seed, index]), along)

    def _sent_m(self, name: str, epochs_s: FloatArray, places_m: FloatArray) -> FloatArray:
        noise = self._schedule.random(f"{name} errors")
        sent, outlier = fixes_m(epochs_s, places_m, self.options.gps, noise)
        outlier[: 2 * self.options.gps_no_fix] = False
        self._outliers[name] = outlier
        return sent

    def _gps_truth(self, name: str, channels: Mapping[str, Channel]) -> dict[str, Any]:
        made = channels[self.topic(name)].made
        outliers = np.flatnonzero(self._outliers[name][made]).tolist()
        return super()._gps_truth(name, channels) | {"outliers": outliers}

    def _ranger(self, sensor: MoreSensor | None) -> FaultyLidar:
        options = self.options
        if sensor is not None:
            seed = [options.seed, 6]
            return FaultyLidar(self.world, options, sensor.points, sensor.frame, seed, lambda: 0.0)
        return FaultyLidar(
            self.world, options, options.lidar_points, "lidar", [options.seed, 3],
            lambda: options.zero_share(self._schedule.now_s),
        )  # fmt: skip

    def _picture(self, number: int) -> Pixels:
        options, time_s = self.options, self._seconds(int(self._pictures_ns[number]))
        shown_s = options.shown_s("camera", time_s)
        drawn = self._view.picture(shown_s)
        if options.is_black(time_s):
            return np.zeros_like(drawn)
        if options.brightness < 1.0:
            drawn = (drawn * options.brightness).astype(np.uint8)
        number = max(0, number - round((time_s - shown_s) * options.fps))
        return drawn if self._grain is None else self._grain.added(drawn, number)

    def _video(self, name: str, camera: _Camera, form: str) -> Video:
        if not self._schedule.is_own(name):
            video = super()._video(name, camera, form)
        else:
            faults = self._schedule.random(name + " damage")
            video = FaultyVideo(self.options, form, len(camera.times_ns), camera.parts, faults)
        return video

    def _detector(self, frame: str = OWN, *, is_solid: bool = False) -> FaultyDetector:
        options = self.options
        return FaultyDetector(self.world, options.boxes, seed=options.seed, solid=is_solid, frame=frame)


def simulate(
    directory: Path,
    options: DriveOptions,
    progress: Callable[[float], None] | None = None,
    *,
    overwrite: bool = False,
) -> Recording:
    """What the simulator writes of these options, with faults if they are of a faulty drive."""
    if not isinstance(options, FaultyOptions):
        return write(SimulatedDrive(options), directory, progress, overwrite=overwrite)
    made = write(FaultyDrive(options), directory, progress, overwrite=overwrite)
    if options.order == "topic" or options.damage_video:
        for path in made.files:
            _rewrite(path, options)
    if not options.footer:
        for path in made.files:
            _cut_footer(path)
    sizes = [path.stat().st_size for path in made.files]
    truth = json.loads(made.truth.read_text())
    for file, size in zip(truth["files"], sizes, strict=True):
        file["bytes"] = size
    made.truth.write_text(json.dumps(truth | {"bytes": sum(sizes)}, separators=(",", ":")))
    return made


def _rewrite(path: Path, options: FaultyOptions) -> None:
    """Write a file anew: topic by topic, or without checksums, as damaged data would not match them."""
    with path.open("rb") as stream:
        reader = make_reader(stream)
        summary = reader.get_summary()
        messages = [
            (message, channel.id) for _, channel, message in reader.iter_messages(log_time_order=False)
        ]
    part = path.with_suffix(".mcap.part")
    with part.open("wb") as stream:
        writer = Writer(
            stream, compression=COMPRESSIONS[options.compression], enable_crcs=not options.damage_video
        )
        writer.start(profile="", library="edgefirst_ros simulation")
        ids, schemas = {}, {}
        for channel in summary.channels.values():
            if channel.schema_id not in schemas:
                of = summary.schemas[channel.schema_id]
                schemas[of.id] = writer.register_schema(of.name, of.encoding, of.data)
            ids[channel.id] = writer.register_channel(channel.topic, "cdr", schemas[channel.schema_id])
        if options.order == "topic":
            messages.sort(key=lambda each: (each[1], each[0].sequence))
        before = messages[0][1] if messages else 0
        for message, channel in messages:
            if channel != before and options.order == "topic":
                writer.flush()  # each chunk has one topic
            before = channel
            writer.add_message(
                ids[channel], message.log_time, message.data, message.publish_time, message.sequence
            )
        writer.finish()
    part.replace(path)


def _cut_footer(path: Path) -> None:
    """Remove everything after the last chunk, as a power loss does."""
    with path.open("r+b") as stream:
        stream.seek(-MCAP_FOOTER.size, 2)
        summary_start = MCAP_FOOTER.unpack(stream.read())[2]
        stream.truncate(summary_start - MCAP_DATA_END_BYTES)
