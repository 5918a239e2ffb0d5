"""Encodes the files and rows of a sample.

What messages are encoded to, once for all samples that have them: a lidar is slower than a camera.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable, Collection, Iterator, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np

from edgefirst_ros.formats.edgefirst.options import EdgeFirstOptions
from edgefirst_ros.formats.edgefirst.prepare.annotations import (
    ANNOTATION_ROLES,
    LEAST_EXTENT,
    Annotations,
    annotate,
)
from edgefirst_ros.formats.edgefirst.prepare.clouds import (
    RangeGrid,
    encode_gray_jpeg,
    encode_lidar,
    encode_radar,
    range_files,
    reflectivity,
)
from edgefirst_ros.formats.edgefirst.prepare.cube import encode_cube
from edgefirst_ros.formats.edgefirst.prepare.exif import CaptureInfo, build_exif, camera_maker, insert_exif
from edgefirst_ros.formats.edgefirst.store.archive import FileRecord, file_path, sample_name
from edgefirst_ros.formats.edgefirst.store.journal import COMPANIONS, FILES, MEASURES, SampleRecord
from edgefirst_ros.formats.format import EMPTY, NO_FILE, Call, NoPlace, call_here
from edgefirst_ros.model.camera import LOOKS_UP, RawImage, depth_mm
from edgefirst_ros.model.detection import is_optical
from edgefirst_ros.model.errors import DecodeError
from edgefirst_ros.model.pictures import encode_gray
from edgefirst_ros.model.pointcloud import PointCloud
from edgefirst_ros.model.radar import RadarCube
from edgefirst_ros.model.sample import EgoPose, Measurement, PoseBasis, Role, Sample
from edgefirst_ros.model.transform import angles_of, bare, frame_in_base, matrix_of
from edgefirst_ros.model.untrusted import safe_name
from edgefirst_ros.model.zlib_backend import crc32

Made = TypeVar("Made")
JPEG_QUALITY = 95
"""Of lidar.jpeg: reflectivity is data, and small; less quality shows at the edges of signs."""
MOST_BYTES, MOST_MESSAGES = 32 << 20, 128
"""Of messages whose results are kept for further samples, those used last: what a second of samples has. The
newest is kept whatever its size."""


class EncodedOnce:
    """Encodes every message once, though several samples that have it are prepared at the same time.

    Safe to use from several threads.

    Attributes:
        call: makes the costly calls.
    """

    def __init__(self, call: Call = call_here) -> None:
        self.call = call
        self._lock = threading.Lock()
        self._kept: dict[tuple[int, Callable[..., Any]], tuple[object, int, Future[Any]]] = {}
        """By the datum's identity, which is its own as long as it is kept here."""
        self._bytes = 0

    def of(
        self,
        datum: object,
        size: int,
        encode: Callable[..., Made],
        *more: Any,  # noqa: ANN401 - of any function
        costly: bool = False,
    ) -> Made:
        """What a pure function makes of a message.

        Args:
            datum: the message.
            size: how many bytes it has.
            encode: takes the datum.
            *more: taken by it, too; the same in all calls.
            costly: whether to make the call through ``call``.

        Raises:
            Exception: whatever the function raises.
        """
        key = id(datum), encode
        with self._lock:
            kept = self._kept.pop(key, None)
            made: Future[Made] = Future() if kept is None else kept[2]
            self._kept[key] = kept or (datum, size, made)
            if kept is None:
                self._bytes += size
                self._forget()
        if kept is None:
            try:
                made.set_result((self.call if costly else call_here)(encode, datum, *more))
            except BaseException as error:  # noqa: BLE001 - raised to whoever asks for the result
                made.set_exception(error)
        return made.result()

    def _forget(self) -> None:
        while len(self._kept) > 1 and (self._bytes > MOST_BYTES or len(self._kept) > MOST_MESSAGES):
            _, oldest_size, _ = self._kept.pop(next(iter(self._kept)))
            self._bytes -= oldest_size


_STORED = frozenset({Role.CAMERA, *COMPANIONS})
"""Roles that EdgeFirst datasets have files or rows for."""
_IMAGES = frozenset({Role.LIDAR_DEPTH, Role.LIDAR_REFLECT})


@dataclass(frozen=True, slots=True)
class PreparedFile:
    """One encoded file.

    Attributes:
        topic: topic of the message in it.
        kind: ``sensor.ext``.
        record: path, size and CRC-32.
        data: its bytes.
        size: width and height, if they must be the same in the whole sequence; else None.
    """

    topic: str
    kind: str
    record: FileRecord
    data: bytes
    size: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class PreparedSample:
    """A sample ready to be appended.

    Attributes:
        sequence: name of the sequence, as a file name.
        frame: frame number.
        time_ns: acquisition, in nanoseconds since 1970.
        location: latitude and longitude, if it is known.
        files: its files in order.
        record_json: its record for the journal.
        annotations: for each topic, bytes of annotations in that record, or in a file of several topics.
        refused: (topic, reason) of messages or parts of them that are not stored.
    """

    sequence: str
    frame: int
    time_ns: int
    location: tuple[float, float] | None
    files: tuple[PreparedFile, ...]
    record_json: str
    annotations: Mapping[str, int]
    refused: tuple[tuple[str, str], ...]


@dataclass(slots=True)
class _Files:
    """Collects the files of one sample, and the reasons why others could not be encoded."""

    sequence: str
    frame: int
    files: list[PreparedFile] = field(default_factory=list)
    refused: list[tuple[str, str]] = field(default_factory=list)

    def add(
        self, topic: str, kind: str, encode: Callable[[], bytes], size: tuple[int, int] | None = None
    ) -> None:
        try:
            data = encode()
        except DecodeError as error:
            self.refused.append((topic, str(error)))
            return
        record = FileRecord(file_path(self.sequence, self.frame, kind), len(data), crc32(data))
        self.files.append(PreparedFile(topic, kind, record, data, size))


def prepare_sample(
    sample: Sample, options: EdgeFirstOptions, once: EncodedOnce | None = None
) -> PreparedSample:
    """Encode all files and rows of a sample; pure, for any thread.

    Args:
        sample: the sample.
        options: of the dataset.
        once: encodes messages; the one of all samples of a dataset, so that they share results.
    """
    once = once or EncodedOnce()
    sample = replace(sample, ego=_checked(sample.ego))
    sequence = safe_name(sample.sequence.name)
    out = _Files(sequence, sample.frame)
    _camera(sample, options, out)
    _sensors(sample, options, once, out)
    for role, measurement in sample.companions.items():
        if role not in _STORED:
            out.refused.append((measurement.topic, NoPlace(f"EdgeFirst has no file for {role}")))
    others = (each for view in sample.views for each in view.companions.values())
    out.refused += [(each.topic, NoPlace("it goes with another camera")) for each in others]
    annotations = Annotations()
    if not ANNOTATION_ROLES.isdisjoint(sample.companions):
        annotations = annotate(sample, with_raster=options.schema_version != "2025.01")
    location = sample.ego.location
    record = SampleRecord(
        sequence=sequence,
        frame=sample.frame,
        time_ns=sample.time_ns,
        size=(sample.image.width, sample.image.height) if sample.image else None,
        location=(location.latitude_deg, location.longitude_deg) if location else None,
        pose=_camera_pose(sample),
        annotations=tuple(annotations.rows),
        looked=tuple(sorted(annotations.looked)),
        quality=_quality(sample, {file.topic for file in out.files} | {*annotations.topics}),
        rig=safe_name(sample.sequence.rig) if sample.sequence.rig else None,
        drive=safe_name(sample.sequence.drive) if sample.sequence.drive else None,
    )
    return PreparedSample(
        sequence=sequence,
        frame=sample.frame,
        time_ns=sample.time_ns,
        location=record.location,
        files=tuple(out.files),
        record_json=record.to_json(),
        annotations=annotations.stored,
        refused=(*out.refused, *annotations.refused, *_empty(annotations)),
    )


def _quality(sample: Sample, stored: Collection[str]) -> dict[str, float] | None:
    """What the sensors showed, as far as anybody looked, and how far off the topics are that are stored."""
    found: dict[str, float] = {}
    if sample.image is not None and (look := sample.image.look) is not None:
        seen = look._asdict()
        found = {f"camera_{name}": float(seen[name]) for name in seen.keys() - {"lit", "thumb"}}
    for role, sensor in ((Role.CAMERA, "camera"), (Role.LIDAR_POINTS, "lidar")):
        found |= {f"{sensor}_{name}": value for name, value in sample.content.get(role, {}).items()}
    found |= _pose(sample.ego)
    found |= {
        f"{role}_offset_ms": error_ns / 1e6
        for role, error_ns in sample.error_ns.items()
        if sample.companions[role].topic in stored
    }
    return {name: found[name] for name in MEASURES if name in found} or None


def _pose(ego: EgoPose) -> dict[str, float]:
    """How the pose is known, and how fast the rig is; nothing where nothing is known."""
    found: dict[str, float] = {}
    parts = (
        ("position", ego.position_m, ego.position_basis, (ego.position_sigma_m or ())[:2], "m", 1.0),
        ("rotation", ego.rotation_xyzw, ego.rotation_basis, ego.rotation_sigma_rad, "deg", 180 / math.pi),
    )
    for name, value, rests_on, sigma, unit, scale in parts:
        if value is not None:
            found[f"{name}_basis"] = float(_BASES.index(rests_on))
            found |= {} if not sigma else {f"{name}_sigma_{unit}": max(sigma) * scale}
    if ego.speed_m_s is not None:
        found["speed_mps"] = ego.speed_m_s
    return {name: each for name, each in found.items() if math.isfinite(each)}


_BASES = tuple(PoseBasis)
_AHEAD_IN_OPTICAL = np.array([[0.0, -1.0, 0.0], [0.0, 0.0, -1.0], [1.0, 0.0, 0.0]])
"""Columns: forward, left and up of a camera in its optical frame."""


def _camera_pose(sample: Sample) -> tuple[float, float, float] | None:
    """Roll, pitch and yaw of the camera, of the rig where nothing says how the camera is mounted."""
    ego, camera = sample.ego, sample.companions.get(Role.CAMERA)
    frame_id = camera.frame_id if camera is not None else ""
    mount = frame_in_base(sample.calibration.transforms, frame_id, sample.sequence.rig_frame)
    if ego.rpy_deg is None or ego.rotation_xyzw is None or mount is None or not bare(frame_id):
        return ego.rpy_deg
    # Pictures are in optical frames (REP 103), however these are called: one that would look up is none.
    is_body = mount[2, 2] > LOOKS_UP and not is_optical(frame_id)
    turn = mount[:3, :3] if is_body else mount[:3, :3] @ _AHEAD_IN_OPTICAL
    if np.abs(turn - np.eye(3)).max() < LEAST_EXTENT:  # the same, to the last digit
        return ego.rpy_deg
    roll, pitch, yaw = np.degrees(angles_of(matrix_of(np.array(ego.rotation_xyzw)) @ turn)).tolist()
    return roll, pitch, yaw


def _empty(annotations: Annotations) -> Iterator[tuple[str, str]]:
    known = {topic for topic, _ in annotations.refused} | annotations.stored.keys()
    return ((topic, EMPTY) for topic in annotations.topics if topic not in known)


def _camera(sample: Sample, options: EdgeFirstOptions, out: _Files) -> None:
    image = sample.image
    camera = sample.companions.get(Role.CAMERA)
    topic = camera.topic if camera else ""
    if image is None:
        out.refused += [(topic, NO_FILE)] if camera else []
        return
    make, model = camera_maker(options, topic)
    info = CaptureInfo(
        name=sample_name(out.sequence, sample.frame),
        time_ns=sample.time_ns,
        width=image.width,
        location=sample.ego.location,
        fix_time_ns=sample.ego.fix_time_ns,
        camera_info=sample.calibration.camera_info,
        make=make,
        model=model,
    )
    out.add(topic, f"camera.{image.format}", lambda: insert_exif(image, build_exif(info)))


def _sensors(sample: Sample, options: EdgeFirstOptions, once: EncodedOnce, out: _Files) -> None:
    """The files of all sensors beside the camera; images of the lidar that were not sent are projected."""
    found = {role: each for role, file in FILES.items() if (each := _datum(sample, role, file.datum, out))}
    has_images, why = all(options.lidar_image_size), ""
    if options.schema_version != "2025.01" or not has_images:
        why = "schema 2026.10 has no lidar images" if has_images else "lidar_image_size is 0, 0"
    points = found.get(Role.LIDAR_POINTS)
    projected = _project(points, options, once) if points and not why and not found.keys() >= _IMAGES else {}
    for role, file in FILES.items():
        if role in found and role in _IMAGES and why:
            out.refused.append((found[role][0].topic, NoPlace(why)))
        elif role in found:
            measurement, datum = found[role]
            size = (datum.pixels.shape[1], datum.pixels.shape[0]) if isinstance(datum, RawImage) else None
            out.add(measurement.topic, file.kind, partial(_encoded, role, datum, once), size)
        elif points and (data := projected.get(role)) is not None:
            out.add(points[0].topic, file.kind, partial(bytes, data), options.lidar_image_size[::-1])


def _encoded(role: Role, datum: PointCloud | RadarCube | RawImage, once: EncodedOnce) -> bytes:
    if isinstance(datum, PointCloud):
        encode = encode_radar if role is Role.RADAR_TARGETS else encode_lidar
        return once.of(datum, datum.points.nbytes, encode).data
    if isinstance(datum, RawImage) and role is Role.LIDAR_REFLECT:
        return encode_gray_jpeg(reflectivity(datum), JPEG_QUALITY)
    if isinstance(datum, RawImage):
        return encode_gray(depth_mm(datum))
    return once.of(datum, datum.cube.nbytes, encode_cube, costly=True)


def _project(
    points: tuple[Measurement, PointCloud], options: EdgeFirstOptions, once: EncodedOnce
) -> Mapping[Role, bytes | None]:
    """Range and reflectivity as seen from the lidar."""
    grid = RangeGrid(*options.lidar_image_size)
    size = points[1].points.nbytes
    try:
        made = once.of(points[1], size, range_files, grid, JPEG_QUALITY, costly=True)
    except DecodeError:  # encoding lidar.pcd has already refused the cloud for the same reason
        return {}
    return {Role.LIDAR_DEPTH: made.png, Role.LIDAR_REFLECT: made.jpeg}


def _datum(sample: Sample, role: Role, datum_type: type, out: _Files) -> tuple[Measurement, Any] | None:
    measurement = sample.companions.get(role)
    if measurement is None:
        return None
    if not isinstance(measurement.datum, datum_type):
        found = type(measurement.datum).__name__
        out.refused.append((measurement.topic, f"{found} instead of {datum_type.__name__}"))
        return None
    return measurement, measurement.datum


def _checked(ego: EgoPose) -> EgoPose:
    """The ego pose without a location that is not on earth, and without angles that are not finite."""
    location, rpy = ego.location, ego.rpy_deg
    if location is not None:
        latitude, longitude = location.latitude_deg, location.longitude_deg
        on_earth = abs(latitude) <= 90.0 and abs(longitude) <= 180.0 and (latitude, longitude) != (0.0, 0.0)
        location = location if on_earth else None
    if rpy is not None and not all(map(math.isfinite, rpy)):
        rpy = None
    return replace(ego, location=location, rpy_deg=rpy)
