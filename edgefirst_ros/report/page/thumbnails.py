"""The pictures of a page: of which samples of a dataset or recording, and how they are encoded."""

from __future__ import annotations

import base64
import math
import random
from bisect import bisect_left
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from zlib import crc32

import numpy as np

from edgefirst_ros.formats.format import Written
from edgefirst_ros.formats.pace import rest
from edgefirst_ros.formats.scene import PICTURE_WIDTH, Box2d, Moment, Scene, opened
from edgefirst_ros.model.detection import Detections
from edgefirst_ros.model.errors import DatasetError, DecodeError, EdgeFirstError
from edgefirst_ros.model.pointcloud import PointCloud
from edgefirst_ros.model.sample import Role, Sample, SequenceInfo
from edgefirst_ros.model.transform import Transform, frame_in_base
from edgefirst_ros.model.untrusted import refusing
from edgefirst_ros.report.content import content_findings
from edgefirst_ros.report.drawing import Projection, drawn
from edgefirst_ros.report.models import Report

MOST_PICTURES = 8
MOST_BASE64 = 3 << 20
"""Characters of all pictures of a page."""
MOST_CAMERAS = 12
LEAST_WIDTH = 320
"""Pixels across of a picture of a rig with many cameras."""
SAME_NS = 500_000_000
"""A camera that has nothing nearer to a moment is silent then."""
WORST = 3
RANDOM = 3
QUALITY = 80
_PINHOLE = frozenset({"plumb_bob", "rational_polynomial", "radtan", ""})
"""Distortion models that a projection knows."""


@dataclass(frozen=True, slots=True)
class Thumbnail:
    """A picture of the page: JPEG in base64, its size, what it is, when it was, and why it was chosen.

    Those of several cameras have the number of their moment, and their sensor.
    """

    number: int
    base64: str
    size: tuple[int, int]
    why: str
    name: str
    time_ns: int | None
    sensor: str = ""


def chosen(moments: Sequence[Moment], report: Report) -> list[tuple[Moment, str]]:
    """Start, end, the worst pairings, what sensors showed wrongly, and some at random, the same each time."""
    moments = of_reference(moments, report)
    if not moments:
        return []
    picked: dict[int, str] = {0: "start", len(moments) - 1: "end"}
    frames = {(m.sequence, m.frame): n for n, m in enumerate(moments) if m.frame is not None}
    timed = [(m.time_ns, n) for n, m in enumerate(moments) if m.time_ns is not None]
    timed.sort()
    worst = [(t, p.worst) for t, p in report.pairing.items() if p.worst is not None]
    for topic, each in sorted(worst, key=lambda pair: -abs(pair[1].error_ms))[:WORST]:
        number = frames.get((each.sequence, each.frame))
        if number is None and timed:
            at = min(bisect_left(timed, (each.time_ns, 0)), len(timed) - 1)
            number = min(timed[max(0, at - 1) : at + 1], key=lambda pair: abs(pair[0] - each.time_ns))[1]
        if number is not None and number not in picked:
            picked[number] = f"worst pairing: {topic.strip('/')} {each.error_ms:+.1f} ms off"
    odd = sorted(content_findings(report), key=lambda each: -each.share)
    for finding in odd[:WORST]:
        middle_ns = ((finding.begin_ns or 0) + (finding.end_ns or 0)) // 2
        if timed:
            number = timed[min(bisect_left(timed, (middle_ns, 0)), len(timed) - 1)][1]
        else:  # formats whose samples have no times have them about evenly
            passed = (middle_ns - report.start_ns) / max(1, report.end_ns - report.start_ns)
            number = min(max(0, round(passed * len(moments))), len(moments) - 1)
        picked.setdefault(number, f"{finding.code.replace('_', ' ')}: {', '.join(finding.topics).strip('/')}")
    rng = random.Random(crc32(report.dataset.encode("utf-8", "surrogatepass")))
    for part in range(RANDOM):  # one in each third of the drive
        first, last = (len(moments) * at // RANDOM for at in (part, part + 1))
        others = [n for n in range(first, last) if n not in picked]
        if others:
            picked[rng.choice(others)] = "at random"
    return [(moments[number], why) for number, why in sorted(picked.items())[:MOST_PICTURES]]


def of_reference(moments: Iterable[Moment], report: Report) -> list[Moment]:
    """Those that are of no camera beside the reference, all if there are no others."""
    every = list(moments)
    beside = {frames.name for sequence in report.sequences for frames in sequence.cameras.values()}
    return [each for each in every if each.sequence not in beside] or every


class Rig:
    """Which samples of a rig's other cameras are of the moment of one.

    Args:
        moments: of all sequences; each sequence's are in order of time.
        timed: gives a moment its time.
        report: says which sequences are of one rig.
    """

    def __init__(self, moments: Iterable[Moment], timed: Callable[[Moment], Moment], report: Report) -> None:
        self._of: dict[str, list[Moment]] = {}
        for moment in moments:
            self._of.setdefault(moment.sequence, []).append(moment)
        self._timed, self._report = timed, report

    def at(self, moment: Moment) -> list[tuple[str, Moment]]:
        """The moment, and those of other cameras, each with its sensor; of one camera that is empty.

        Raises:
            EdgeFirstError: the dataset is damaged.
        """
        found = self._report.frames(moment.sequence)
        cameras = {} if found is None else found[0].cameras
        beside = [(sensor, self._of[c.name]) for sensor, c in sorted(cameras.items()) if c.name in self._of]
        if found is None or not beside or (time_ns := self._timed(moment).time_ns) is None:
            return [("", moment)]
        own = found[0].stream_of(Role.CAMERA, found[1])
        row = [(own.sensor if own is not None else "", moment)]
        for sensor, several in beside[: MOST_CAMERAS - 1]:
            after = bisect_left(several, time_ns, key=self._time_ns)
            near = min(several[max(0, after - 1) : after + 1], key=lambda m: abs(self._time_ns(m) - time_ns))
            if abs(self._time_ns(near) - time_ns) <= SAME_NS:
                row.append((sensor, near))
        return row

    def _time_ns(self, moment: Moment) -> int:
        """Of one that has none, the beginning."""
        return self._timed(moment).time_ns or 0


def thumbnails(
    moments: Iterable[tuple[Moment, str]],
    scene_of: Callable[[Moment], Scene],
    report: Report,
    rig: Rig | None = None,
) -> tuple[list[Thumbnail], str]:
    """Samples, each with why it was chosen, as pictures of a page; and why some are missing.

    With a rig there are those of its other cameras of the same moments; all have as many pixels as one had.
    """
    pictures: list[Thumbnail] = []
    faults: list[str] = []
    size = number = 0
    for moment, why in moments:
        rest()
        row: list[Thumbnail] = []
        try:
            with refusing(_name(moment), DatasetError):
                seen = [("", moment)] if rig is None else rig.at(moment)
        except EdgeFirstError as error:
            faults.append(str(error))
            continue
        width = max(LEAST_WIDTH, round(PICTURE_WIDTH / math.sqrt(len(seen))))
        for sensor, each in seen:
            try:
                with refusing(_name(each), DatasetError):
                    scene = scene_of(each)
                    image = drawn(scene, width, projection_of(report, each.sequence))
            except EdgeFirstError as error:
                faults.append(str(error))
                continue
            if image is None:
                continue
            buffer = BytesIO()
            image.save(buffer, "JPEG", quality=QUALITY)
            written = base64.b64encode(buffer.getvalue()).decode()
            size += len(written)
            row.append(
                Thumbnail(number + 1, written, image.size, why, _name(each), scene.moment.time_ns, sensor)
            )
        if size > MOST_BASE64:
            break
        pictures += row
        number += bool(row)
    return pictures, "; ".join(faults[:3])


def _name(moment: Moment) -> str:
    return moment.sequence if moment.frame is None else f"{moment.sequence}, frame {moment.frame:,}"


def projection_of(report: Report, name: str) -> Projection | None:
    """How the lidar's points lie on the camera's picture in a sequence; None if that is not known."""
    sequence = report.sequence(name)
    if sequence is None or sequence.calibration is None:
        return None
    _, own = report.frames(name) or (sequence, sequence)
    lidar, seen = (sequence.stream_of(role, own) for role in (Role.LIDAR_POINTS, Role.CAMERA))
    camera = None if seen is None else sequence.intrinsics_of(seen)
    if lidar is None or seen is None or camera is None or not (lidar.frame_id and seen.frame_id):
        return None
    if 0 in camera.size or 0 in camera.focal_px:
        return None
    if camera.distortion_model not in _PINHOLE and any(camera.distortion):
        return None
    known = {
        each.child: Transform(each.parent, each.child, each.translation_m, each.rotation_xyzw)
        for each in sequence.calibration.transforms
    }
    poses = [frame_in_base(known, each.frame_id, sequence.calibration.rig) for each in (lidar, seen)]
    if poses[0] is None or poses[1] is None:
        return None
    T_lidar_camera = np.linalg.inv(poses[1]) @ poses[0]
    width, height = camera.size
    return Projection(
        T_lidar_camera[:3, :3],
        T_lidar_camera[:3, 3],
        (camera.focal_px[0] / width, camera.focal_px[1] / height),
        (camera.principal_px[0] / width, camera.principal_px[1] / height),
        tuple(camera.distortion[:8]),
    )


class SceneWriter:
    """Takes samples of every camera as a format does, and keeps what there is to see; a ``SampleWriter``.

    Attributes:
        scenes: of all samples, of each camera in order.
    """

    name = "page"
    unit = "samples"

    def __init__(self) -> None:
        self.scenes: list[Scene] = []
        self.warnings: list[str] = []
        self.notes: list[str] = []

    def begin(self, sequence: SequenceInfo) -> None:
        """A sequence starts."""

    def begin_camera(self, sequence: SequenceInfo) -> None:
        """One of a camera beside the reference starts."""

    def prepare(self, sample: Sample) -> Scene:
        """The sample as a scene."""
        scene = Scene(Moment(sample.sequence.name, sample.frame, sample.time_ns))
        if sample.image is not None:
            scene.picture = sample.image.data
            try:
                opened(scene.picture)[0].load()
            except (ValueError, OSError) as error:
                raise DecodeError(f"picture cannot be shown: {error}") from error
        model, cloud = sample.companions.get(Role.MODEL), sample.companions.get(Role.LIDAR_POINTS)
        if model is not None and isinstance(model.datum, Detections):
            names = sample.calibration.model_info.labels if sample.calibration.model_info else ()
            scene.boxes = [
                Box2d(box.center_x, box.center_y, box.width, box.height, _label_of(box.label, names))
                for box in model.datum.boxes
            ]
        if cloud is not None and isinstance(cloud.datum, PointCloud):
            scene.points = cloud.datum.xyz().astype(float)
        return scene

    def write(self, prepared: Scene) -> Written:
        """Keep the scene."""
        self.scenes.append(prepared)
        return Written()

    def close(self) -> list[Path]:
        """Nothing was written."""
        return []

    def abort(self) -> None:
        """Nothing is open."""


def _label_of(label: str, names: tuple[str, ...]) -> str:
    """The name of a class: a label that is a number is an index into the model's names."""
    if label.isascii() and label.isdigit() and len(label) < 9 and int(label) < len(names):
        return names[int(label)]
    return label
