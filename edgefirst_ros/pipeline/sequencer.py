"""Begins and ends sequences: at breaks of the time base, and where pictures change their size."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain, count

from edgefirst_ros.config.model import Config
from edgefirst_ros.ego.motion import Motion
from edgefirst_ros.ego.trajectory import Trajectory
from edgefirst_ros.model.sample import Calibration, Role, SequenceInfo, Vehicle
from edgefirst_ros.model.sensors import ALIVE_S
from edgefirst_ros.model.untrusted import sequence_name
from edgefirst_ros.pipeline.envelope import Envelope
from edgefirst_ros.pipeline.images import Images, SampleBits, SizeChange
from edgefirst_ros.pipeline.processes import Workers
from edgefirst_ros.pipeline.sequence import SequenceRun, reorder_window_ns
from edgefirst_ros.pipeline.session import Session, session_at
from edgefirst_ros.pipeline.transforms import TransformBuffer
from edgefirst_ros.timing.finding import TopicClock
from edgefirst_ros.video.stream import Remarks

SPLIT = "split"
"""Why a sequence ended whose session did; a live one says more."""


@dataclass(frozen=True, slots=True)
class Known:
    """What is known when a sequence begins.

    ``camera`` is the one that samples take; ``expected`` are the configured topics that have sent and that
    samples take, ``left_out`` those in whose place they take another one of the role; ``findings`` are their
    clocks.
    """

    reference: tuple[Role, frozenset[str]]
    camera: str
    expected: Sequence[str]
    left_out: Sequence[str]
    findings: Sequence[TopicClock]
    transforms: TransformBuffer
    motion: Motion | None = None
    """The whole drive's, where it was found beforehand."""


class Sequencer:
    """Feeds the sequence under way, and begins another where a camera's pictures change their size.

    A change divides messages by acquisition, not by arrival: what was measured before it belongs to the
    sequence before it, if it comes within the look-ahead.

    Attributes:
        current: the sequence under way; any thread may read it.
        known: calibration of the last one: neither a stepped clock nor a new session moves a sensor, and some
            calibration is sent only once.
        remarks: on the video of all sequences.

    Args:
        sessions: take messages, in order of time.
        known: called when a sequence begins or ends.
        say: takes a sentence for the user.
    """

    def __init__(
        self,
        config: Config,
        workers: Workers,
        sessions: list[Session],
        known: Callable[[], Known],
        say: Callable[[str], None],
    ) -> None:
        self.current: SequenceRun | None = None
        self.known: Calibration | None = None
        self.remarks = Remarks()
        self._config = config
        self._workers = workers
        self._sessions = sessions
        self._known = known
        self._bits = SampleBits(say)
        self._images: Images | None = None

    @property
    def calibration(self) -> Calibration | None:
        """Known now."""
        return self.known if self.current is None else self.current.calibration

    def feed(self, envelopes: Iterable[Envelope]) -> None:
        """Take measurements in order of arrival."""
        self._go_on(None, envelopes)

    def end(self, reason: str) -> None:
        """The sequence under way ends; what is fed next begins another, of the last session."""
        while self.current is not None and (change := self.current.drain()) is not None:
            self._go_on(change)
        self._finish(reason)
        for session in self._sessions[:-1]:
            session.notes += self.remarks.notes
        del self._sessions[:-1]
        self._sessions[0].name = None

    def leave(self, session: Session, reason: str) -> None:
        """The session, which another one follows, needs no message any more."""
        if self.current is not None and session.end_ns is not None:
            self._go_on(self.current.reach(session.end_ns))
        self._leave(session, reason)

    def abort(self) -> None:
        """Release the decoders."""
        if self._images is not None:
            self._images.close()

    def _leave(self, session: Session, reason: str) -> None:
        emission, run = session.current, self.current
        if session not in self._sessions:  # it has left with a sequence
            return
        if run is not None and emission is not None and session.end_ns is not None:
            run.let_go(emission, session.end_ns)
            emission.finish(self._known().findings, reason)
        session.notes += self.remarks.notes
        self.remarks.clear()
        self._sessions.remove(session)

    def _go_on(self, change: SizeChange | None, envelopes: Iterable[Envelope] = ()) -> None:
        """Begin another sequence at a change, if there is one, and at those in what has come after it."""
        waiting = deque(envelopes)
        while waiting or change is not None:
            if change is not None:
                self._change(change)
                waiting.extendleft(reversed(change.rest))
            run = self.current or self._begin(waiting[0].time_ns)
            change = run.feed(waiting)

    def _change(self, change: SizeChange) -> None:
        time_ns = change.first.time_ns
        while (end_ns := self._sessions[0].end_ns) is not None and end_ns <= time_ns:
            self._leave(self._sessions[0], SPLIT)
        session_at(self._sessions, time_ns).notes.append(f"new sequence: {change.reason}")
        alive_ns = time_ns - round(ALIVE_S * 1e9)
        emissions = () if self.current is None else self.current.emissions.values()
        streams = {name: stats.last_ns for each in emissions for name, stats in each.stats.items()}
        silent = [name for name, last_ns in streams.items() if last_ns < alive_ns]
        before = None if self.current is None else self.current.trajectory
        self._finish(change.reason, goes_on=True)
        self._begin(time_ns, change, silent, before)

    def _begin(
        self,
        time_ns: int,
        change: SizeChange | None = None,
        silent: Iterable[str] = (),
        before: Trajectory | None = None,
    ) -> SequenceRun:
        config, known, workers = self._config, self._known(), self._workers
        self._images = workers.backlog.gatherer = Images(
            workers.pool,
            workers.count,
            *config.encoding,
            lookahead_ns=reorder_window_ns(config),
            send=None if workers.processes is None else workers.processes.submit,
            sent=workers.backlog.settle,
            decoder=config.decoder,
            bits=self._bits,
            remarks=self.remarks,
        )
        self.current = SequenceRun(
            self._sessions,
            self._announce,
            config,
            self._images,
            time_ns=time_ns,
            reference=known.reference,
            camera=known.camera,
            expected=set(known.expected).difference(silent),
            left_out=known.left_out,
            known=change.known if change else self.known,
            transforms=known.transforms,
            motion=known.motion,
            before=before,
        )
        return self.current

    def _announce(self, session: Session, time_ns: int) -> SequenceInfo:
        """Name a session's next sequence, and tell the writers."""
        name, session.name = session.name or sequence_name(session.host, time_ns), None
        taken = {each.name for each in session.done}
        names = chain([name], (f"{name}_{number}" for number in count(2)))
        free = next(each for each in names if each not in taken)
        config = self._config
        vehicle = Vehicle(**config.vehicle.model_dump())
        simulated = session.ledger.has_clock or "sim" in re.split("[^a-z]+", session.host.lower())
        own = free, session.host, time_ns, config.rig_frame, vehicle, config.selected
        session.drive = session.drive or free
        info = SequenceInfo(*own, drive="" if session.drive == free else session.drive, simulated=simulated)
        session.fanout.begin(info)
        return info

    def _finish(self, reason: str, *, goes_on: bool = False) -> None:
        run, self.current = self.current, None
        if run is None or self._images is None:
            return
        run.finish()
        self.known = run.calibration
        self._images.close()
        self._images = None
        findings = self._known().findings
        for emission in run.emissions.values():
            emission.finish(findings, reason, goes_on=goes_on)
        run.close()
