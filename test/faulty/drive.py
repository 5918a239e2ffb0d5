"""A simulated drive with faults, written as the simulator writes one without."""

from __future__ import annotations

import json
import struct
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from mcap.reader import make_reader
from mcap.records import Message
from mcap.summary import Summary
from mcap.writer import Writer

from edgefirst_ros.simulation import DriveOptions, MoreSensor, Recording
from edgefirst_ros.simulation.camera import Pixels
from edgefirst_ros.simulation.channels import Camera, SimulatedDrive
from edgefirst_ros.simulation.detector import OWN
from edgefirst_ros.simulation.drive import COMPRESSIONS, device_name, write
from edgefirst_ros.simulation.schedule import Channel, thinned
from edgefirst_ros.simulation.sensors import ImuReading
from edgefirst_ros.simulation.video import Video
from edgefirst_ros.simulation.world import FloatArray, World
from faulty.options import FaultyOptions
from faulty.schedule import FaultySchedule
from faulty.sensors import FaultyDetector, FaultyLidar, fixes_m, imu_reading
from faulty.video import FaultyVideo, Grain, classes, mask, model_info, quarter, sampled
from faulty.world import changed

MCAP_FOOTER = struct.Struct("<BQQQI8s")
MCAP_DATA_END_BYTES = 13
TILES = {"tl": "topleft", "tr": "topright", "bl": "bottomleft", "br": "bottomright"}


class FaultyDrive(SimulatedDrive):
    """A drive with the faults of its options."""

    options: FaultyOptions
    timetable = FaultySchedule
    _schedule: FaultySchedule

    def __init__(self, options: FaultyOptions) -> None:
        self._outliers: dict[str, Any] = {}
        size = options.width, options.height
        self._grain = Grain(options.grain, *size, options.seed) if options.grain else None
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
        return changed(super()._world(), self.options)

    def _felt(self, sensor: MoreSensor | None, name: str, index: int, time_s: float) -> ImuReading:
        errors, seed, along = self.options.imu, [self.options.seed, 4], None
        if sensor is not None:
            errors, seed = replace(errors, mounting_deg=sensor.rpy_deg), [*seed, *name.encode()]
            along = self.world.motion(sensor.at_m, time_s)[1]
        noise = np.random.default_rng([*seed, index])
        return imu_reading(self.world.rig.state(time_s), errors, noise, along)

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
            return FaultyLidar(self.world, options, sensor.points, sensor.frame, lambda: 0.0)
        share = lambda: options.zero_share(self._schedule.now_s)  # noqa: E731
        return FaultyLidar(self.world, options, options.lidar_points, "lidar", share)

    def _own_pictures(self, name: str, camera: Camera) -> Iterator[Channel]:
        options = self.options
        if not options.tiles:
            yield from super()._own_pictures(name, camera)
            return
        # The encoders of tiles ask for the same few pictures at nearly the same time.
        picture = lru_cache(maxsize=4)(self._picture)
        half = replace(options, width=options.width // 2, height=options.height // 2)
        for number, (tile, place) in enumerate(TILES.items()):
            part = camera._replace(options=half, frame=f"{camera.frame}_{place}")
            yield self._pictures(f"camera/{name}/{tile}", partial(quarter, picture, divmod(number, 2)), part)

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

    def _video(self, name: str, camera: Camera) -> Video:
        if not self._schedule.is_own(name):
            return super()._video(name, camera)
        faults = self._schedule.random(name + " damage")
        return FaultyVideo(camera.options, camera.form, len(camera.times_ns), faults)

    def _detector(self, frame: str = OWN, *, is_solid: bool = False) -> FaultyDetector:
        options = self.options
        return FaultyDetector(self.world, options.boxes, seed=options.seed, solid=is_solid, frame=frame)

    def _model(self) -> Iterator[Channel]:
        yield from super()._model()
        options, schedule = self.options, self._schedule
        if not options.masks:
            return

        def masked(_: int, __: int, time_s: float) -> bytes:
            return mask(sampled(classes(self._view, time_s), options.mask_size))

        def info(_: int, stamp_ns: int, __: float) -> bytes:
            return model_info(stamp_ns, options.mask_size)

        frames_ns = self._pictures_ns[thinned(self._pictures_ns, options.fps, options.model_hz)]
        masks = schedule.channel("model/mask", "edgefirst_msgs/msg/Mask", frames_ns, masked, sensor="model")
        masks.stamp_ns[:] = 0
        yield masks
        seldom_ns = schedule.periodic("model/info", 1.0, 50.0)
        yield schedule.channel("model/info", "edgefirst_msgs/msg/ModelInfo", seldom_ns, info, sensor="model")


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
    if options.order == "topic" or options.damage_video or options.splits > 1:
        made = _rewritten(made, options)
    if not options.footer:
        for path in made.files:
            _cut_footer(path)
    sizes = [{"name": f"{path.relative_to(directory)}", "bytes": path.stat().st_size} for path in made.files]
    truth = json.loads(made.truth.read_text())
    truth |= {"file": made.mcap.name, "bytes": sum(each["bytes"] for each in sizes), "files": sizes}
    made.truth.write_text(json.dumps(truth, separators=(",", ":")))
    return made


Messages = Sequence[tuple[Message, int]]
"""Each with its channel."""


def _rewritten(made: Recording, options: FaultyOptions) -> Recording:
    """The recording anew: topic by topic, in several files, or without checksums, as damage asks for."""
    with made.mcap.open("rb") as stream:
        reader = make_reader(stream)
        summary = reader.get_summary()
        messages = [
            (message, channel.id) for _, channel, message in reader.iter_messages(log_time_order=False)
        ]
    assert summary is not None
    made.mcap.unlink()
    if options.order == "topic":
        messages.sort(key=lambda each: (each[1], each[0].sequence))
    log_ns, parts = [message.log_time for message, _ in messages], options.splits
    ends_s = (options.seconds * number / parts for number in range(1, parts))
    cuts = [bisect_left(log_ns, options.start_ns + round(end_s * 1e9)) for end_s in ends_s]
    content = [messages[start:end] for start, end in pairwise([0, *cuts, len(messages)])]
    folder, names = made.mcap.parent, [made.mcap.name]
    if parts > 1 and options.split_names == "device":
        starts_ns = [options.start_ns, *(part[0][0].log_time for part in content[1:])]
        names = [f"{device_name(options.host, start_ns)}.mcap" for start_ns in starts_ns]
    elif parts > 1:
        folder /= made.mcap.stem
        folder.mkdir(exist_ok=True)
        names = [f"{made.mcap.stem}_{number}.mcap" for number in range(parts)]
        (folder / "metadata.yaml").write_text(_metadata(summary, content, names))
    for name, part in zip(names, content, strict=True):
        _write(folder / name, summary, part, options)
    files = tuple(folder / name for name in names)
    return Recording(files[0], made.truth, files)


def _write(path: Path, summary: Summary, messages: Messages, options: FaultyOptions) -> None:
    with path.open("wb") as stream:
        writer = Writer(
            stream, compression=COMPRESSIONS[options.compression], enable_crcs=not options.damage_video
        )
        writer.start(profile="", library="edgefirst_ros simulation")
        ids: dict[int, int] = {}
        schemas: dict[int, int] = {}
        for channel in summary.channels.values():
            if channel.schema_id not in schemas:
                of = summary.schemas[channel.schema_id]
                schemas[of.id] = writer.register_schema(of.name, of.encoding, of.data)
            ids[channel.id] = writer.register_channel(channel.topic, "cdr", schemas[channel.schema_id])
        before = messages[0][1] if messages else 0
        for message, channel_id in messages:
            if channel_id != before and options.order == "topic":
                writer.flush()  # each chunk has one topic
            before = channel_id
            writer.add_message(
                ids[channel_id], message.log_time, message.data, message.publish_time, message.sequence
            )
        writer.finish()  # type: ignore[no-untyped-call]  # mcap annotates no return


def _metadata(summary: Summary, content: Sequence[Messages], names: Sequence[str]) -> str:
    """metadata.yaml as rosbag2 writes it beside the files of a bag."""

    def span(messages: Messages) -> dict[str, Any]:
        times = [message.log_time for message, _ in messages]
        start_ns = min(times, default=0)
        return {
            "starting_time": {"nanoseconds_since_epoch": start_ns},
            "duration": {"nanoseconds": max(times, default=0) - start_ns},
            "message_count": len(messages),
        }

    whole = [message for part in content for message in part]
    counts = [sum(of == number for _, of in whole) for number in summary.channels]
    topics = [
        {
            "topic_metadata": {
                "name": channel.topic,
                "type": summary.schemas[channel.schema_id].name,
                "serialization_format": "cdr",
                "offered_qos_profiles": "",
            },
            "message_count": count,
        }
        for channel, count in zip(summary.channels.values(), counts, strict=True)
    ]
    information = {
        "version": 5,
        "storage_identifier": "mcap",
        **span(whole),
        "topics_with_message_count": topics,
        "compression_format": "",
        "compression_mode": "",
        "relative_file_paths": [*names],
        "files": [{"path": n, **span(part)} for n, part in zip(names, content, strict=True)],
    }
    return yaml.safe_dump({"rosbag2_bagfile_information": information}, sort_keys=False)


def _cut_footer(path: Path) -> None:
    """Remove everything after the last chunk, as a power loss does."""
    with path.open("r+b") as stream:
        stream.seek(-MCAP_FOOTER.size, 2)
        summary_start = MCAP_FOOTER.unpack(stream.read())[2]
        stream.truncate(summary_start - MCAP_DATA_END_BYTES)
