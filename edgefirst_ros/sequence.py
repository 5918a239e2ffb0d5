"""One sequence: measurements of one unbroken time base in, aligned samples out."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping

from edgefirst_ros.accounting import LATE, Ledger, Outcome
from edgefirst_ros.config import Config, Required, TopicRule
from edgefirst_ros.entry import Entry
from edgefirst_ros.pictures import Pictures
from edgefirst_ros.sample import Calibration, Observation, Role, Sample, SequenceInfo
from edgefirst_ros.sink import Emitted, Observed, Sink
from edgefirst_ros.streamstats import StreamStats
from edgefirst_ros.surroundings import Surroundings
from edgefirst_ros.tiles import TileGrouper
from edgefirst_ros.timing.align import Aligned, Aligner, PairingRule
from edgefirst_ros.timing.reorder import Reorder
from edgefirst_ros.timing.select import Selection
from edgefirst_ros.topics import CONTEXT_ROLES, EGO_ROLES


def pairing_rules(config: Config, reference_role: Role) -> dict[str, PairingRule]:
    """How every stream but the reference's pairs, by entry of the configuration's topics.

    A stream that none of the chosen formats makes samples of is not waited for, unless it is always required.
    """

    def required(rule: TopicRule) -> Required:
        return "never" if rule.required == "auto" and rule.role not in config.sample_roles else rule.required

    return {
        name: PairingRule(rule.tolerance_ns, rule.policy, required(rule))
        for name, rule in config.topics.items()
        if rule.topic
        and rule.role not in CONTEXT_ROLES | EGO_ROLES | {reference_role}
        and rule.tile in {"", "tl"}
    }


def reorder_window_ns(config: Config) -> int:
    """How long measurements wait for earlier ones, so that a sample is complete within the look-ahead."""
    reach_ns = max((r.tolerance_ns for r in config.topics.values()), default=0)
    return max(0, round(config.lookahead_s * 1e9) - reach_ns)


class SequenceRun:
    """Everything between two breaks of the time base.

    ``expected`` are the entries of the configuration's topics that are known to send: they count as alive
    from the start. Entries come in order of arrival through ``feed``; samples leave through the sink in order
    of time.
    """

    def __init__(
        self,
        info: SequenceInfo,
        config: Config,
        reference: tuple[Role, frozenset[str]],
        pictures: Pictures,
        ledger: Ledger,
        *,
        sink: Sink,
        expected: Iterable[str] = (),
    ) -> None:
        self.info = info
        self.kinds: Counter[str] = Counter()
        """Reference frames by verdict: sample, incomplete, skipped, unusable."""
        self.stats: dict[str, StreamStats] = {}
        """By entry of the configuration's topics."""
        self._config = config
        reference_role, self.reference_topics = reference
        self._pictures = pictures
        self._ledger = ledger
        self._sink = sink
        self._rules = config.topics
        rules = pairing_rules(config, reference_role)
        self._reach_ns = max((r.tolerance_ns for r in rules.values()), default=0)
        self._reorder: Reorder[Entry] = Reorder(reorder_window_ns(config))
        selection = Selection(rate_hz=config.rate_hz, every_n=config.every_n, keyframes=config.keyframes)
        self._aligner: Aligner[Entry] = Aligner(rules, selection, round(config.alive_s * 1e9))
        known = frozenset(expected)
        roles = {config.topics[name].role for name in known}
        self._aligner.expect(known)
        self._around = Surroundings(
            config.ego, has_ego=bool(roles & EGO_ROLES), odometry=Role.ODOMETRY in roles
        )
        self._tiles = TileGrouper()
        self._waiting: deque[tuple[Aligned[Entry], Calibration]] = deque()
        self._now_ns = 0
        self._cut = ""

    @property
    def lacking(self) -> Mapping[str, int]:
        """Selected frames that lacked a required companion, by entry of the configuration's topics."""
        return self._aligner.lacking

    def feed(self, entry: Entry) -> None:
        """Take a measurement in order of arrival."""
        if entry.route.rule.role is Role.CAMERA:
            self._pictures.arrive(entry)
        measurement = entry.measurement
        if not self._reorder.push(entry.time_ns, measurement.topic, measurement.arrival, entry):
            self._late(entry)
            return
        for _, ready in self._reorder.pop():
            self._ordered(ready)

    def cut(self, reason: str) -> None:
        """From now on samples are dropped instead of made, because there is no time left to write them."""
        self._cut = reason

    def finish(self) -> None:
        """The sequence ends: everything still inside comes out."""
        for _, entry in self._reorder.flush():
            self._ordered(entry)
        self._joined(self._tiles.flush())
        self._take(self._aligner.flush())
        self._pump(final=True)

    def _late(self, entry: Entry) -> None:
        """What comes too late for its place is lost; but a mount stamped at boot holds now as well."""
        if entry.route.rule.role in CONTEXT_ROLES:
            self._around.learn(entry.measurement)
            self._ledger.release(entry.ticket, Outcome.DECODED)
        else:
            self._ledger.release(entry.ticket, Outcome.DROPPED, LATE)

    def _ordered(self, entry: Entry) -> None:
        """One measurement in order of time."""
        self._now_ns = entry.time_ns
        role = entry.route.rule.role
        stats = self.stats.setdefault(entry.route.name, StreamStats(entry.route.topic))
        stats.add(entry.time_ns, entry.measurement.receive_ns)
        if role not in CONTEXT_ROLES:
            stats.gaps.add(entry.time_ns)
        if role in CONTEXT_ROLES:
            self._around.learn(entry.measurement)
            self._observe(entry)
            self._ledger.release(entry.ticket, Outcome.DECODED)
        elif role in EGO_ROLES:
            self._navigate(entry)
        else:
            if role is Role.CAMERA:
                self._pictures.judge(entry)
            else:
                self._observe(entry)
            if entry.route.rule.tile:
                self._joined(self._tiles.feed(entry))
            else:
                self._joined(self._tiles.advance(entry.time_ns))
                self._pair(entry)
        self._pump(final=False)

    def _joined(self, picture: Entry | None) -> None:
        if picture is not None:
            self._pair(picture)

    def _observe(self, entry: Entry) -> None:
        """Hand a measurement, or a picture that is usable, to the formats that take every one."""
        if not self._sink.observes or entry.unusable is not None or self._cut:
            return
        role = entry.route.rule.role
        for part in entry.all_parts:
            self._ledger.hold(part.ticket)
        image = self._pictures.request(entry) if role is Role.CAMERA else None
        observation = Observation(role, entry.measurement, self._around.calibration)
        self._sink.measurement(Observed(observation, image, entry.all_parts))

    def _pair(self, entry: Entry) -> None:
        is_reference = entry.route.topic in self.reference_topics
        if entry.route.rule.role is Role.CAMERA and not is_reference:
            self._observe(entry)
        if is_reference:
            self._take(self._aligner.reference(entry))
        else:
            self._take(self._aligner.companion(entry.route.name, entry))

    def _navigate(self, entry: Entry) -> None:
        refusal = self._around.navigate(entry.measurement)
        if refusal is not None:
            self._ledger.release(entry.ticket, Outcome.REFUSED, refusal)
            return
        self._observe(entry)
        self._ledger.release(entry.ticket, Outcome.DECODED)

    def _take(self, verdicts: Iterable[Aligned[Entry]]) -> None:
        for aligned in verdicts:
            reference = aligned.reference
            self.kinds[aligned.kind] += 1
            if aligned.kind in {"sample", "incomplete"} and reference.route.rule.role is Role.CAMERA:
                self._observe(reference)
            if aligned.kind == "sample":
                for entry in self._entries(aligned):
                    self._ledger.hold(entry.ticket)
                self._waiting.append((aligned, self._around.calibration))
                for part in reference.all_parts:
                    self._ledger.release(part.ticket)
                continue
            end = self._rejected(aligned)
            for part in reference.all_parts:
                self._ledger.release(part.ticket, *end)
        self._expire()

    def _expire(self) -> None:
        """Close the accounts of companions that no frame can take any more."""
        for name, entry in self._aligner.expired():
            reason = f"no reference frame within {self._rules[name].tolerance_ms:g} ms took it"
            for part in entry.all_parts:
                if part.unusable is not None:
                    self._ledger.release(part.ticket, Outcome.DROPPED, part.unusable)
                elif part.ticket.holds == 1 and part.ticket.outcome is None:
                    self._ledger.release(part.ticket, Outcome.UNPAIRED, reason)
                else:
                    self._ledger.release(part.ticket)

    def _rejected(self, aligned: Aligned[Entry]) -> tuple[Outcome, str]:
        """Where a reference frame ended that is no sample; its companions are told why."""
        if aligned.kind == "skipped":
            own = (Outcome.SKIPPED, "not selected")
            theirs = (Outcome.SKIPPED, "its reference frame was not selected")
        elif aligned.kind == "unusable":
            own = (Outcome.DROPPED, aligned.reason)
            theirs = (Outcome.UNPAIRED, f"its reference frame was not usable: {aligned.reason}")
        else:
            lacked = ", ".join(self._rules[name].topic for name in aligned.reason.split())
            own = (Outcome.UNPAIRED, f"no {lacked} close enough")
            theirs = (Outcome.UNPAIRED, f"its reference frame lacked {lacked}")
        for companion in aligned.companions.values():
            for part in companion.all_parts:
                self._ledger.note(part.ticket, *theirs)
        return own

    @staticmethod
    def _entries(aligned: Aligned[Entry]) -> Iterator[Entry]:
        yield from aligned.reference.all_parts
        for companion in aligned.companions.values():
            yield from companion.all_parts

    def _pump(self, *, final: bool) -> None:
        """Let samples go whose pose is known, and pictures that nobody can ask for any more."""
        while self._waiting:
            time_ns = self._waiting[0][0].reference.time_ns
            if not (final or self._around.is_known(time_ns, self._now_ns)):
                break
            self._emit(*self._waiting.popleft())
        for pose in self._around.poses(self._now_ns, final=final):
            if self._sink.observes:
                self._sink.pose(pose)
        oldest_ns = self._waiting[0][0].reference.time_ns if self._waiting else self._aligner_oldest_ns()
        self._around.forget(oldest_ns)
        self._pictures.release(oldest_ns - self._reach_ns)

    def _emit(self, aligned: Aligned[Entry], calibration: Calibration) -> None:
        if not self._cut:
            self._sink.sample(self._sample(aligned, calibration))
            return
        for entry in self._entries(aligned):
            self._ledger.release(entry.ticket, Outcome.DROPPED, self._cut)

    def _aligner_oldest_ns(self) -> int:
        oldest = self._aligner.oldest_ns
        return self._now_ns - self._reach_ns if oldest is None else oldest

    def _sample(self, aligned: Aligned[Entry], calibration: Calibration) -> Emitted:
        reference = aligned.reference
        by_role: dict[Role, Entry] = {reference.route.rule.role: reference}
        for companion in aligned.companions.values():
            by_role.setdefault(companion.route.rule.role, companion)
        camera = by_role.get(Role.CAMERA)
        sample = Sample(
            sequence=self.info,
            frame=aligned.frame,
            time_ns=reference.time_ns,
            companions={role: entry.measurement for role, entry in by_role.items()},
            error_ns={role: entry.time_ns - reference.time_ns for role, entry in by_role.items()},
            ego=self._around.pose(reference.time_ns),
            calibration=calibration,
        )
        image = None if camera is None else self._pictures.request(camera)
        return Emitted(sample, image, tuple(self._entries(aligned)), reference.route.rule.role)
