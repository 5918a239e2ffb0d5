"""Whole groups of pictures decoded and encoded elsewhere, such as in a worker process."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass
from functools import partial
from typing import Literal, NamedTuple

import numpy as np
from PIL import Image

from edgefirst_ros.model.camera import Codec
from edgefirst_ros.model.sample import CameraImage
from edgefirst_ros.video.decoder import DecodeResult, FrameValidator, VideoDecoder
from edgefirst_ros.video.gops import AccessUnit, Gop, StartKind
from edgefirst_ros.video.pictures import Picture, Rgb, encode
from edgefirst_ros.video.worker import MAX_REORDER, Worker, resolve

MOST_UNITS = 256
"""A stream with more access units between key frames is decoded here, as its pictures would come in lumps."""
MOST_BYTES = 32 << 20
Encoded = CameraImage | str | Exception
"""An encoded picture, why there is none, or what prevented it."""


class UnitPart(NamedTuple):
    """What decoding needs of an access unit, see ``AccessUnit``; ``gop`` is its group's number."""

    number: int
    gop: int
    data: bytes
    leading: bool
    reference: bool
    back: int | None
    order: int | None


@dataclass(frozen=True, slots=True)
class Batch:
    """Access units in decode order from a key frame on, and the numbers of those that are wanted."""

    codec: Codec
    hidden_reorder: bool
    start_kind: StartKind
    primer: bytes
    units: Sequence[UnitPart]
    wanted: Sequence[int]
    image_format: Literal["jpeg", "png"]
    quality: int


Send = Callable[[Callable[[Batch], list[Encoded]], Batch], Future[list[Encoded]]]
"""Has a function called with a batch, somewhere."""


@dataclass(frozen=True, slots=True)
class Elsewhere:
    """Where batches are sent, and how their pictures are encoded; see ``pictures.encode``.

    ``sent`` is called after each and may wait, as long as nothing is gathered.
    """

    send: Send
    sent: Callable[[], None]
    image_format: Literal["jpeg", "png"]
    quality: int


class EncodedPicture(Picture):
    """A picture that comes encoded."""

    def __init__(self, image: CameraImage) -> None:
        self.image = image
        self.width, self.height = image.width, image.height

    def rgb(self) -> Rgb:
        """The pixels as encoded, (height, width, 3) uint8."""
        with Image.open(io.BytesIO(self.image.data)) as image:
            return np.ascontiguousarray(image.convert("RGB"), np.uint8)


class BatchingWorker(Worker):
    """Sends groups of pictures elsewhere, once all requests for pictures of a group have come.

    What does not begin with a key frame, or is too long, is decoded by a thread here.

    Args:
        name: of the thread.
        threads: as for ``Worker``.
        elsewhere: where batches go.
    """

    def __init__(self, name: str, threads: Callable[[], int], elsewhere: Elsewhere) -> None:
        super().__init__(name, threads)
        self._elsewhere = elsewhere
        self._gathered: list[tuple[AccessUnit, Future[Picture]]] = []
        self._is_long = False

    def request(self, unit: AccessUnit) -> Future[Picture]:
        """As ``Worker.request``; the picture is an ``EncodedPicture`` if it was decoded elsewhere."""
        gathered = self._gathered
        if gathered and gathered[-1][0] is unit:
            return gathered[-1][1]
        if gathered and gathered[0][0].start != unit.start:
            self.flush()
            self._elsewhere.sent()
        if not self._fits(unit):
            self.flush()
            return super().request(unit)
        picture: Future[Picture] = Future()
        self._gathered.append((unit, picture))
        return picture

    @property
    def is_gathering(self) -> bool:
        """Whether requests wait for others of their group."""
        return bool(self._gathered)

    def flush(self) -> None:
        """Send what was requested, as nobody waits for more of its group."""
        gathered, self._gathered = self._gathered, []
        if not gathered:
            return
        batch = self._batch([unit for unit, _ in gathered])
        sent = self._elsewhere.send(decode_batch, batch)
        sent.add_done_callback(partial(_resolve_all, [picture for _, picture in gathered]))

    def release(self, time_ns: int) -> None:
        """As ``Worker.release``; groups of which pictures are requested are kept until they are sent."""
        oldest_ns = min((unit.time_ns for unit, _ in self._gathered), default=None)
        super().release(time_ns if oldest_ns is None else min(time_ns, oldest_ns - 1))

    def close(self) -> None:
        """As ``Worker.close``; what was sent elsewhere may come later."""
        self.flush()
        super().close()

    def _fits(self, unit: AccessUnit) -> bool:
        """Whether a batch from its start to a unit can be made, and is not too long."""
        if self._is_long:
            return False
        with self.changed:
            first = self.first_of(unit)
            if first is None or first.gop.start_kind != "key":
                return False
            units = self._way(first, unit)
        self._is_long = len(units) > MOST_UNITS or sum(len(each.data) for each in units) > MOST_BYTES
        return not self._is_long

    def _way(self, first: AccessUnit, last: AccessUnit) -> list[AccessUnit]:
        numbers = range(first.gop.number, last.gop.number + 1)
        groups = [group for number in numbers if (group := self.gops.numbered(number)) is not None]
        return [unit for group in groups for unit in group.units if unit.number <= last.number]

    def _batch(self, wanted: Sequence[AccessUnit]) -> Batch:
        last = max(wanted, key=lambda unit: unit.number)
        with self.changed:
            first = self.first_of(last) or last
            units = [
                UnitPart(u.number, u.gop.number, u.data, u.leading, u.reference, u.back, u.order)
                for u in self._way(first, last)
            ]
        gop = first.gop
        return Batch(
            gop.codec,
            gop.hidden_reorder,
            gop.start_kind,
            gop.primer,
            units,
            [unit.number for unit in wanted],
            self._elsewhere.image_format,
            self._elsewhere.quality,
        )


def decode_batch(batch: Batch) -> list[Encoded]:
    """Decode a batch in this thread, and encode what is wanted of it, in the order of ``wanted``."""
    units = _rebuilt(batch)
    decoder = VideoDecoder(batch.codec, 1, hidden_reorder=batch.hidden_reorder, start_kind=batch.start_kind)
    validator = FrameValidator(MAX_REORDER + 1)
    wanted = frozenset(batch.wanted)
    found: dict[int, Encoded] = {}

    def keep(certain: Iterable[tuple[AccessUnit, DecodeResult]]) -> None:
        for unit, result in certain:
            if unit.number in wanted:
                found[unit.number] = _encoded(result, batch)

    try:
        if batch.primer:
            decoder.prime(batch.primer)
        for unit in units:
            validator.feed(unit)
            keep(validator.show(decoder.feed(unit)))
    finally:
        rest = decoder.drain()
    keep(validator.drain(rest))
    return [found[number] for number in batch.wanted]


def _rebuilt(batch: Batch) -> list[AccessUnit]:
    groups: dict[int, Gop] = {}
    units = []
    for part in batch.units:
        gop = groups.setdefault(
            part.gop,
            Gop(part.gop, batch.codec, batch.hidden_reorder, linked=True, start_kind=batch.start_kind),
        )
        units.append(AccessUnit(part.number, 0, part.data, gop, *part[3:]))
    return units


def _encoded(result: DecodeResult, batch: Batch) -> Encoded:
    if isinstance(result, str):
        return result
    try:
        return encode(result, batch.image_format, batch.quality)
    except Exception as error:  # noqa: BLE001 - raised where the picture is waited for
        return error


def _resolve_all(pictures: Sequence[Future[Picture]], sent: Future[list[Encoded]]) -> None:
    error = CancelledError() if sent.cancelled() else sent.exception()
    results: Sequence[Encoded | BaseException] = [error] * len(pictures) if error else sent.result()
    for picture, result in zip(pictures, results, strict=True):
        resolve(picture, EncodedPicture(result) if isinstance(result, CameraImage) else result)
