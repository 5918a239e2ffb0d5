"""Begins and ends sequences: at breaks of the time base, and where pictures change their size."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from itertools import chain, count

from edgefirst_ros.config.model import Config
from edgefirst_ros.ego.motion import Motion
from edgefirst_ros.ego.trajectory import Trajectory
from edgefirst_ros.model.sample import Calibration, Role, SequenceInfo
from edgefirst_ros.model.untrusted import safe_name, sequence_name
from edgefirst_ros.pipeline.envelope import Envelope, Window
from edgefirst_ros.pipeline.fanout import FanOut
from edgefirst_ros.pipeline.images import Images, SampleBits, SizeChange
from edgefirst_ros.pipeline.intake import SeamStart
from edgefirst_ros.pipeline.ledger import Ledger
from edgefirst_ros.pipeline.sequence import SequenceResult, SequenceRun, reorder_window_ns
from edgefirst_ros.timing.finding import Finding
from edgefirst_ros.video.batches import Send
from edgefirst_ros.video.stream import Remarks


@dataclass(frozen=True, slots=True)
class SequenceSummary:
    """One sequence that has ended."""

    name: str
    result: SequenceResult
    findings: tuple[Finding, ...]
    ended: str
    """Why it ended: end of the source, break of the time base, or change of picture size."""


@dataclass(frozen=True, slots=True)
class Known:
    """What is known when a sequence begins.

    ``expected`` are the configured topics that have sent and that samples take, ``left_out`` those in whose
    place they take another one of the role; ``findings`` are their clocks.
    """

    reference: tuple[Role, frozenset[str]]
    expected: Sequence[str]
    left_out: Sequence[str]
    findings: Sequence[Finding]
    motion: Motion | None = None
    """The whole drive's, where it was found beforehand."""


class Sequencer:
    """Feeds the sequence under way, and begins another where a camera's pictures change their size.

    A change divides messages by acquisition, not by arrival: what was measured before it belongs to the
    sequence before it, if it comes within the look-ahead.

    Attributes:
        current: the sequence under way; any thread may read it.
        done: those that have ended.
        notes: sentences for the user, one for every change.

    Args:
        known: called when a sequence begins or ends.
        send: has groups of pictures decoded elsewhere, see ``Images``.
    """

    def __init__(
        self,
        config: Config,
        pool: ThreadPoolExecutor,
        workers: int,
        *,
        ledger: Ledger,
        fanout: FanOut,
        known: Callable[[], Known],
        window: Window,
        send: Send | None = None,
    ) -> None:
        self._window = window
        self._start: SeamStart | None = None
        self._announced = False
        """Whether the sequence under way was announced to the writers."""
        self.current: SequenceRun | None = None
        self.done: list[SequenceSummary] = []
        self.notes: list[str] = []
        self._bits = SampleBits(self.notes.append)
        self.remarks = Remarks()
        self._config = config
        self._pool = pool
        self._send = send
        self._workers = workers
        self._ledger = ledger
        self._fanout = fanout
        self._known = known
        self._images: Images | None = None
        self._host = ""
        self._name: str | None = None
        self._calibration: Calibration | None = None
        """Of the last sequence: neither a stepped clock nor a new session moves a sensor, and some
        calibration is sent only once."""
        self._cut = ""

    @property
    def calibration(self) -> Calibration | None:
        """Known now."""
        return self._calibration if self.current is None else self.current.calibration

    @property
    def driven_m(self) -> float:
        """How far the rig drove in all sequences so far; any thread."""
        run = self.current
        before = sum(summary.result.poses.driven_m for summary in self.done)
        return before + (0.0 if run is None else run.poses.driven_m)

    def source(
        self, host: str, name: str | None, known: Calibration | None = None, start: SeamStart | None = None
    ) -> None:
        """A source starts.

        Args:
            host: that it comes from.
            name: of its first sequence, None for one made of host and time.
            known: its calibration, if that is known.
            start: what is taken over at a seam, where the first sequence begins then.
        """
        self._start = start
        self._host = host
        self._name = None if name is None else safe_name(name)
        self._calibration = known

    def feed(self, envelope: Envelope) -> None:
        """Take a measurement in order of arrival."""
        run = self.current
        if run is None or not self._announced:
            self._feed([envelope])
            return
        change = run.feed(envelope)
        if change is not None:
            self._change(change)
            self._feed(change.rest)

    def end(self, reason: str) -> None:
        """The sequence under way ends; what is fed next begins another."""
        while self.current is not None:
            change = self.current.drain()
            if change is None:
                break
            self._change(change)
            self._feed(change.rest)
        self._finish(reason)
        self._name = None

    def cut(self, reason: str) -> None:
        """From now on drop samples; any thread."""
        self._cut = reason
        run = self.current
        if run is not None:
            run.cut(reason)

    def abort(self) -> None:
        """Release the decoders."""
        if self._images is not None:
            self._images.close()

    def _feed(self, envelopes: Iterable[Envelope]) -> None:
        waiting = deque(envelopes)
        while waiting:
            envelope = waiting.popleft()
            run = self.current or self._begin(envelope.time_ns)
            if not self._announced and not run.is_foreign(envelope):
                self._announce(run)
            change = run.feed(envelope)
            if change is not None:
                self._change(change)
                waiting.extendleft(reversed(change.rest))

    def _change(self, change: SizeChange) -> None:
        self.notes.append(f"new sequence: {change.reason}")
        alive_ns = change.first.time_ns - round(self._config.alive_s * 1e9)
        streams = {} if self.current is None else self.current.stats
        silent = [name for name, stats in streams.items() if stats.last_ns < alive_ns]
        trajectory = None if self.current is None else self.current.trajectory
        self._finish(change.reason, goes_on=True)
        self._name = None
        self._begin(change.first.time_ns, change, silent, trajectory)

    def _begin(
        self,
        time_ns: int,
        change: SizeChange | None = None,
        silent: Iterable[str] = (),
        trajectory: Trajectory | None = None,
    ) -> SequenceRun:
        config, known = self._config, self._known()
        start, self._start = self._start, None
        if start is not None:
            time_ns, trajectory = start.time_ns, start.trajectory
        name = self._name or sequence_name(self._host, time_ns)
        taken = {s.name for s in self.done}
        names = chain([name], (f"{name}_{number}" for number in count(2)))
        free = next(each for each in names if each not in taken)
        info = SequenceInfo(free, self._host, time_ns, config.rig_frame)
        self._images = Images(
            self._pool,
            self._workers,
            config.picture_format,
            config.jpeg_quality,
            lookahead_ns=reorder_window_ns(config),
            send=self._send,
            sent=self._fanout.backlog.settle,
            decoder=config.decoder,
            judge_h265=config.judge_h265,
            bits=self._bits,
            remarks=self.remarks,
        )
        self._fanout.backlog.gatherer = self._images
        run = self.current = SequenceRun(
            info,
            config,
            known.reference,
            self._images,
            self._ledger,
            fanout=self._fanout,
            expected=set(known.expected).difference(silent),
            left_out=known.left_out,
            known=change.known if change else self._calibration,
            motion=known.motion,
            before=trajectory,
            window=self._window,
            start=start,
        )
        if self._cut:
            run.cut(self._cut)
        self._announced = False
        if start is None:
            self._announce(run)
        return run

    def _announce(self, run: SequenceRun) -> None:
        """Announce a sequence to the writers; after a seam, once a message of its own has come."""
        self._announced = True
        self._fanout.begin(run.info)

    def _finish(self, reason: str, *, goes_on: bool = False) -> None:
        run, self.current = self.current, None
        if run is None or self._images is None:
            return
        run.finish()
        self._calibration = run.calibration
        self._images.close()
        self._images = None
        if not self._announced:
            return
        if not goes_on:
            self.notes += [f"{run.info.name}: {note}" for note in run.motion_notes]
        self.notes += [f"{run.info.name}: {note}" for note in run.moved]
        self.done.append(SequenceSummary(run.info.name, run.result, tuple(self._known().findings), reason))
