"""The sequences of a run, one after the other: where each begins, and what it takes over from the last."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from edgefirst_ros.config.model import Config
from edgefirst_ros.ego.trajectory import Trajectory
from edgefirst_ros.ego.whole import Solution
from edgefirst_ros.formats.edgefirst.format import EdgeFirstFormat
from edgefirst_ros.naming import safe_name, sequence_name
from edgefirst_ros.pipeline.envelope import Envelope, Window
from edgefirst_ros.pipeline.fanout import FanOut
from edgefirst_ros.pipeline.images import Images, SizeChange
from edgefirst_ros.pipeline.ledger import Ledger
from edgefirst_ros.pipeline.seam import SeamStart
from edgefirst_ros.pipeline.sequence import SequenceRun, reorder_window_ns
from edgefirst_ros.sample import Calibration, Role, SequenceInfo
from edgefirst_ros.timing.finding import Finding


@dataclass(frozen=True, slots=True)
class SequenceSummary:
    """What became of one sequence."""

    name: str
    run: SequenceRun
    findings: tuple[Finding, ...]
    ended: str
    """Why it ended: the recording did, the time base broke, or the pictures changed their size."""


@dataclass(frozen=True, slots=True)
class Known:
    """What is known when a sequence begins.

    ``expected`` are the configured topics that have sent, ``findings`` their clocks.
    """

    reference: tuple[Role, frozenset[str]]
    expected: Sequence[str]
    findings: Sequence[Finding]
    motion: Solution | None = None
    """The whole drive's, where it was found beforehand."""


class Sequencer:
    """Makes a sequence of what is fed, and another wherever a camera's pictures change their size.

    The change parts by time of acquisition, not of arrival: what was measured before it stays in the sequence
    before it, however late it comes, within the look-ahead.

    Attributes:
        current: the sequence under way; any thread may look.
        done: those that have ended.
        notes: told of every change.

    Args:
        known: asked when a sequence begins or ends.
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
    ) -> None:
        self._window = window
        self._start: SeamStart | None = None
        self._announced = False
        """Whether the writers know of the sequence under way."""
        self.current: SequenceRun | None = None
        self.done: list[SequenceSummary] = []
        self.notes: list[str] = []
        self._config = config
        self._pool = pool
        self._workers = workers
        self._ledger = ledger
        self._fanout = fanout
        self._known = known
        self._images: Images | None = None
        self._host = ""
        self._name: str | None = None
        self._calibration: Calibration | None = None
        """As the last sequence knew it: neither a stepped clock nor a new session moves a sensor, and some
        are told once."""
        self._cut = ""

    @property
    def calibration(self) -> Calibration | None:
        """As it is known now."""
        return self._calibration if self.current is None else self.current.calibration

    @property
    def driven_m(self) -> float:
        """How far the rig drove in all sequences so far; any thread."""
        run = self.current
        before = sum(summary.run.poses.driven_m for summary in self.done)
        return before + (0.0 if run is None else run.poses.driven_m)

    def source(
        self, host: str, name: str | None, known: Calibration | None = None, start: SeamStart | None = None
    ) -> None:
        """A source starts: its host, its first sequence's name if it has one, its calibration if known.

        ``start`` is what it goes on with after a seam: then its first sequence begins there.
        """
        self._start = start
        self._host = host
        self._name = None if name is None else safe_name(name)
        self._calibration = known

    def feed(self, envelope: Envelope) -> None:
        """Take a measurement in order of arrival."""
        self._feed([envelope])

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
        """From now on samples are dropped instead of made; any thread."""
        self._cut = reason
        run = self.current
        if run is not None:
            run.cut(reason)

    def abort(self) -> None:
        """Let go of the decoders."""
        if self._images is not None:
            self._images.close()

    def _feed(self, envelopes: Iterable[Envelope]) -> None:
        waiting = deque(envelopes)
        while waiting:
            envelope = waiting.popleft()
            run = self.current or self._begin(envelope.time_ns)
            if not self._announced and self._window.has(envelope.time_ns):
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
        number = 2
        unique = name
        while unique in taken:
            unique, number = f"{name}_{number}", number + 1
        info = SequenceInfo(unique, self._host, time_ns)
        self._images = Images(
            self._pool,
            self._workers,
            config.options(EdgeFirstFormat).camera_format,
            config.jpeg_quality,
            lookahead_ns=reorder_window_ns(config),
        )
        run = self.current = SequenceRun(
            info,
            config,
            known.reference,
            self._images,
            self._ledger,
            fanout=self._fanout,
            expected=set(known.expected).difference(silent),
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
        """Let the writers begin; after a seam not before the sequence has anything of its own."""
        self._announced = True
        self._fanout.begin(run.info)

    def _finish(self, reason: str, *, goes_on: bool = False) -> None:
        run, self.current = self.current, None
        if run is None or self._images is None:
            return
        run.finish()
        self._calibration = run.calibration
        if not self._announced:
            self._images.close()
            self._images = None
            return
        if not goes_on:
            self.notes += [f"{run.info.name}: {note}" for note in run.motion_notes]
        self.notes += [f"{run.info.name}: {note}" for note in run.moved]
        self._images.close()
        self._images = None
        self.done.append(SequenceSummary(run.info.name, run, tuple(self._known().findings), reason))
