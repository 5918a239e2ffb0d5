"""The thread that decodes one stream, no more than is requested."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from enum import Enum, auto
from itertools import islice

import av

from edgefirst_ros.model.errors import DecodeError
from edgefirst_ros.video.decoder import (
    UNREACHED,
    DecodeResult,
    DecoderKind,
    FrameValidator,
    VideoDecoder,
    held_pictures,
)
from edgefirst_ros.video.gops import AccessUnit, Gop, Gops, Playback
from edgefirst_ros.video.pictures import Picture

NOT_KEPT = "its key frame is no longer kept"
CLOSED = "the video stream is closed"

KEPT_BYTES = 64 << 20
"""Compressed bytes kept of released frames before they are decoded ahead and deleted."""
_NEVER = -(1 << 63)
MAX_REORDER = 16
"""At most this many decoded pictures wait to be shown (MaxDpbFrames and MaxDpbSize, annex A of both)."""


_Request = tuple[AccessUnit, Future[Picture]]


class _Do(Enum):
    DRAIN = auto()
    STOP = auto()


_Action = AccessUnit | Future[Picture] | _Do
"""What the thread does next: feed a unit, refuse a request, drain the decoder or end."""


class Worker:
    """Owns the decoder and its thread, which starts with the first request.

    Attributes:
        changed: guards ``gops``, which the caller fills before it calls ``appended``.
        gops: the compressed packets.

    Args:
        name: of the thread.
        threads: called once, when the thread starts: how many pictures to decode at a time.
        kind: what decodes.
    """

    def __init__(self, name: str, threads: Callable[[], int], kind: DecoderKind = "software") -> None:
        self.changed = threading.Condition()
        self.gops = Gops()
        self._name = name
        self._count_threads = threads
        self._kind = kind
        self._threads = 1
        self._playback = Playback(self.gops)
        self._pending: list[_Request] = []
        self._validator = FrameValidator(MAX_REORDER)
        self._ready: dict[int, tuple[AccessUnit, DecodeResult]] = {}
        self._asked: _Request | None = None
        self._released_ns = _NEVER
        self._thread: threading.Thread | None = None
        self._closing = False
        self._failure: Exception | None = None

    def request(self, unit: AccessUnit) -> Future[Picture]:
        """The picture of a unit; must be called in order of time."""
        with self.changed:
            if self._asked is not None and self._asked[0] is unit and not self._asked[1].cancelled():
                return self._asked[1]
            self._expect(unit.gop)
            picture: Future[Picture] = Future()
            self._asked = unit, picture
            self._released_ns = max(self._released_ns, unit.time_ns - 1)
            _, outcome = self._ready.pop(unit.number, (unit, None))
            self._forget()
            if outcome is None and self._failure is None and not self._closing:
                self._pending.append(self._asked)
                self._start()
                return picture
        resolve(picture, outcome or self._failure or CLOSED)
        return picture

    @property
    def waiting(self) -> int:
        """Number of pictures requested and not decoded yet."""
        with self.changed:
            return len(self._pending)

    def appended(self) -> None:
        """Packets were added to ``gops``, under ``changed``: wake the thread if it is to decode any."""
        if self._pending or self.gops.kept_bytes > KEPT_BYTES:
            self.changed.notify_all()

    def release(self, time_ns: int) -> None:
        """No unit at or before this time will be requested any more."""
        with self.changed:
            self._released_ns = max(self._released_ns, time_ns)
            self._forget()

    def first_of(self, unit: AccessUnit) -> AccessUnit | None:
        """Where decoding must start to reach a unit, None if that is no longer kept; under ``changed``."""
        return self._playback.start(unit)

    def make_room(self) -> None:
        """Wait until no more than ``KEPT_BYTES`` are kept of what was released."""
        with self.changed:
            while self._ahead_of_need() and self._failure is None:
                self._start()
                self.changed.wait()

    @property
    def is_gathering(self) -> bool:
        """Whether requests wait for others to come; here none does."""
        return False

    def flush(self) -> None:
        """Begin to decode everything that was requested; here that is done at once."""

    def close(self) -> None:
        """Decode what was requested and end the thread."""
        with self.changed:
            self._closing = True
            self.changed.notify_all()
        if self._thread is not None:
            self._thread.join()

    def _start(self) -> None:
        if self._thread is None:
            self._threads = self._count_threads()
            self._validator = FrameValidator(MAX_REORDER + held_pictures(self._kind, self._threads))
            # A daemon: a caller that died before closing must not keep the process from ending.
            self._thread = threading.Thread(target=self._run, name=self._name, daemon=True)
            self._thread.start()
        self.changed.notify_all()

    def _expect(self, gop: Gop) -> None:
        before = self._asked[0].gop if self._asked is not None else None
        gop.requests += 1
        # As many pictures are expected of a group as of the one before; a group of one is all there is.
        if before is not None and before is not gop:
            gop.dense = before.requests >= 2 or before.requests == before.dropped + len(before.units)
        gop.dense = gop.dense or gop.requests >= 2

    def _forget(self) -> None:
        wanted = min((unit.time_ns - 1 for unit, _ in self._pending), default=self._released_ns)
        self.gops.forget(min(self._released_ns, wanted))
        for number, (unit, _) in list(self._ready.items()):
            if unit.time_ns <= self._released_ns:
                del self._ready[number]

    def _run(self) -> None:
        decoder: VideoDecoder | None = None
        try:
            while (action := self._await()) is not _Do.STOP:
                if isinstance(action, AccessUnit):
                    decoder = self._decoder(decoder, action)
                    if self._playback.first is action and action.gop.primer:
                        decoder.prime(action.gop.primer)
                    self._deliver(decoder.feed(action))
                elif isinstance(action, Future):
                    resolve(action, NOT_KEPT)
                elif decoder is not None:
                    self._deliver(decoder.drain(), drained=True)
        except Exception as error:  # noqa: BLE001 whoever waits for a picture must learn of any failure
            with self.changed:
                self._failure = error
                pending, self._pending = self._pending, []
                self.changed.notify_all()
            for _, picture in pending:
                resolve(picture, error)
        finally:
            if decoder is not None:
                decoder.drain()

    def _decoder(self, decoder: VideoDecoder | None, unit: AccessUnit) -> VideoDecoder:
        gop = unit.gop
        if decoder is not None and self._playback.first is not unit:
            return decoder
        hidden, start_kind = gop.hidden_reorder, gop.start_kind
        if decoder is not None and decoder.fits(gop.codec, hidden_reorder=hidden, start_kind=start_kind):
            return decoder
        return VideoDecoder(
            gop.codec, self._threads, hidden_reorder=hidden, start_kind=start_kind, kind=self._kind
        )

    def _await(self) -> _Action:
        with self.changed:
            while True:
                action = self._choose()
                if action is not None:
                    break
                self.changed.notify_all()
                self.changed.wait()
            if isinstance(action, AccessUnit):
                self._playback.feed(action)
                self._validator.feed(action)
            return action

    def _choose(self) -> _Action | None:
        self._pending = [request for request in self._pending if not request[1].cancelled()]
        for request in self._pending:
            if not self._playback.has_fed(request[0]):
                return self._toward(request)
        if self._pending:
            return self._squeeze(self._pending[0][0].gop)
        return _Do.STOP if self._closing else self._ahead()

    def _toward(self, request: _Request) -> _Action:
        unit, picture = request
        following = self._playback.following() if self._playback.reaches(unit) else None
        if following is not None:
            return following
        start = self._playback.start(unit)
        if start is None:
            self._pending.remove(request)
            return picture
        return start if self._playback.last is None else _Do.DRAIN

    def _squeeze(self, gop: Gop) -> _Action:
        """Get the pictures that the decoder holds back: feed on if more are expected, else drain it."""
        following = self._playback.following()
        if following is None:
            return _Do.DRAIN
        stays = following.gop is gop and gop.dropped > 0
        return following if gop.dense or stays else _Do.DRAIN

    def _ahead(self) -> _Action | None:
        if not self._ahead_of_need():
            return None
        front, last = self.gops.first, self._playback.last
        if front is None:
            return None
        if last is not None and last.gop is front:
            self.gops.drop(last)
            return front.units[0] if self._ahead_of_need() else None
        if front.dropped:
            self.gops.drop(front.units[-1])
            return None
        return front.units[0] if last is None else _Do.DRAIN

    def _ahead_of_need(self) -> bool:
        """Whether too much is kept that could be decoded and deleted."""
        front, last = self.gops.first, self._playback.last
        if self.gops.kept_bytes <= KEPT_BYTES or front is None:
            return False
        if last is not None and last.gop is front and front.units and front.units[0].number <= last.number:
            return True
        return any(unit.time_ns <= self._released_ns for unit in islice(front.units, MAX_REORDER + 1))

    def _deliver(self, frames: Iterable[tuple[int, av.VideoFrame]], *, drained: bool = False) -> None:
        found: list[tuple[Future[Picture], DecodeResult]] = []
        with self.changed:
            certain = self._validator.drain(frames) if drained else self._validator.show(frames)
            if drained:
                self._playback.drain()
            certain = [(unit, outcome) for unit, outcome in certain if outcome != UNREACHED]
            waiting = {request[0].number: request for request in self._pending}
            for unit, outcome in certain:
                request = waiting.get(unit.number)
                if request is not None:
                    self._pending.remove(request)
                    found.append((request[1], outcome))
                elif unit.time_ns > self._released_ns:
                    self._ready[unit.number] = unit, outcome
            self._forget()
            self.changed.notify_all()
        for picture, outcome in found:
            resolve(picture, outcome)


def resolve(picture: Future[Picture], outcome: DecodeResult | BaseException) -> None:
    """Give a requested picture its result: the picture, why there is none, or an error."""
    if not picture.set_running_or_notify_cancel():
        return
    if isinstance(outcome, Picture):
        picture.set_result(outcome)
    else:
        picture.set_exception(DecodeError(outcome) if isinstance(outcome, str) else outcome)
