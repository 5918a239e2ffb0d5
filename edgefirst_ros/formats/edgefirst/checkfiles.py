"""Checks of the sensor files of a dataset: names, layout, headers, sizes, times, what is lacking."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime

from edgefirst_ros.formats.edgefirst.checkmotion import FrameTimes
from edgefirst_ros.formats.edgefirst.checkpcd import check_pcd
from edgefirst_ros.formats.edgefirst.checkpictures import look_at
from edgefirst_ros.formats.edgefirst.checksamples import BIT, CAMERA, KINDS, Samples
from edgefirst_ros.formats.edgefirst.checkzip import File, is_junk
from edgefirst_ros.formats.edgefirst.names import sample_name
from edgefirst_ros.formats.findings import Findings

_NAME = re.compile(
    r"(?P<sequence>.+)_(?P<digits>[0-9]{1,18})\.(?P<kind>" + "|".join(map(re.escape, KINDS)) + ")"
)
_RECORDED = re.compile(r".*?_(\d{4})[-_]?(\d\d)[-_]?(\d\d)[-_T](\d\d)[-_]?(\d\d)[-_]?(\d\d)(?:[-_.].*)?")

Size = tuple[int, int]


@dataclass(slots=True)
class Seen:
    """What went by so far.

    Attributes:
        samples: what each sample has.
        sizes: (width, height) by sequence and sensor.
        counts: files by kind.
        times: by sequence the highest frame number with an EXIF time, and that time in nanoseconds.
        taken_ns: by sequence and frame number, the EXIF time.
    """

    samples: Samples = field(default_factory=Samples)
    sizes: dict[tuple[str, str], Size] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    times: dict[str, tuple[int, int]] = field(default_factory=dict)
    taken_ns: dict[str, FrameTimes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Place:
    """Of which sample a file is, its kind, and where it is."""

    sequence: str
    frame: int
    kind: str
    where: str


def check_files(files: Iterable[File], container: str, findings: Findings) -> Seen:
    """Look at every file once; ``container`` is what they are in, for the findings."""
    seen = Seen()
    for path, data in files:
        where = f"{container}@{path}"
        if is_junk(path):
            findings.error(where, "does not belong into a dataset")
            continue
        folder, _, name = path.rpartition("/")
        found = _NAME.fullmatch(name)
        if found is None:
            findings.error(where, "is not named SEQUENCE_FRAME.SENSOR.EXT with a sensor of the format")
            continue
        place = _Place(found["sequence"], int(found["digits"]), found["kind"], where)
        if folder != place.sequence:
            findings.error(where, "is not in the folder of its sequence", f"{place.sequence}/")
        if name != f"{sample_name(place.sequence, place.frame)}.{place.kind}":
            findings.error(where, "frame number is not padded to three digits")
        _add(seen, place, findings)
        if data is not None:
            _look(seen, place, data, findings)
    _check_sequences(seen.samples, container, findings)
    return seen


def _add(seen: Seen, place: _Place, findings: Findings) -> None:
    bit = BIT[place.kind]
    rivals = CAMERA if bit & CAMERA else bit
    if seen.samples.add(place.sequence, place.frame, bit) & rivals:
        findings.error(place.where, "its sample has such a file already")
        return
    seen.counts[place.kind] += 1


def _look(seen: Seen, place: _Place, data: bytes, findings: Findings) -> None:
    if not data:
        findings.error(place.where, "is empty")
        return
    if place.kind.endswith(".pcd"):
        check_pcd(place.kind, data, place.where, findings)
        return
    picture = look_at(place.kind, data, place.where, findings)
    if picture is None:
        return
    sensor = "camera" if place.kind.startswith("camera.") else place.kind
    first = seen.sizes.setdefault((place.sequence, sensor), picture.size)
    if picture.size != first:
        text = f"{picture.size[0]}x{picture.size[1]}, before {first[0]}x{first[1]}"
        # A radar may be set otherwise on the way; what is trained on pictures wants one size.
        say = findings.warning if place.kind == "radar.png" else findings.error
        say(place.where, "picture is not of the size of those before it in its sequence", text)
    if picture.time_ns is not None:
        seen.taken_ns.setdefault(place.sequence, FrameTimes()).add(place.frame, picture.time_ns)
        _check_time(seen, place, picture.time_ns, findings)


def _check_time(seen: Seen, place: _Place, time_ns: int, findings: Findings) -> None:
    """Files may come in any order, so only frames that follow the highest so far tell something."""
    last = seen.times.get(place.sequence)
    if last is not None and place.frame <= last[0]:
        return
    if last is not None and time_ns <= last[1]:
        text = f"{(last[1] - time_ns) / 1e6:,.3f} ms before frame {last[0]}"
        findings.error(place.where, "EXIF time is not after that of the frame before it", text)
    seen.times[place.sequence] = (place.frame, time_ns)


def _check_sequences(samples: Samples, container: str, findings: Findings) -> None:
    if not samples.sequences():
        findings.error(container, "holds no sensor files")
    for sequence in samples.sequences():
        if not _is_recorded_name(sequence):
            findings.warning(sequence, "sequence is not named hostname_date_time")
        lacking: Counter[str] = Counter()
        total = 0
        for _, bits in samples.of(sequence):
            total += 1
            lacking.update(kind for kind in KINDS if not bits & BIT[kind])
            lacking["camera"] += not bits & CAMERA
        some = {kind for kind, count in lacking.items() if 0 < count < total}
        if "camera" in some:
            findings.warning(sequence, "samples without a camera picture", f"{lacking['camera']} of {total}")
        for kind in KINDS:
            if kind in some and not BIT[kind] & CAMERA:
                findings.note(sequence, f"samples without {kind}", f"{lacking[kind]} of {total}")


def _is_recorded_name(sequence: str) -> bool:
    found = _RECORDED.fullmatch(sequence)
    try:
        return found is not None and bool(datetime(*map(int, found.groups())))  # type: ignore[arg-type]  # noqa: DTZ001
    except ValueError:
        return False
