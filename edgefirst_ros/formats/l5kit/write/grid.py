"""Frames on an even time grid from samples at any times: ego and agents are interpolated."""

from __future__ import annotations

import math
from collections import Counter, deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from edgefirst_ros.formats.l5kit.options import TRACK_GAP_NS, L5KitOptions
from edgefirst_ros.formats.l5kit.store.schema import AGENT, FACE, Records
from edgefirst_ros.formats.l5kit.write.prepare import EgoPath, Pose, PreparedFrame
from edgefirst_ros.formats.l5kit.write.tracks import Settled, Shown, Sighting, Tracks
from edgefirst_ros.formats.tracks.rays import yaw_of
from edgefirst_ros.formats.tracks.solver import HALF_NS

BRIDGED_NS = 300_000_000
"""Longest gap between samples that is interpolated; in longer ones only frames next to a sample exist."""

_NEAR_NS = 250_000_000
"""A measurement further from a frame than this never belongs to it."""

_NEVER_NS = -1

_SHARED = Fraction(7, 10)
"""Lights belong to a frame within this share of a period: slightly more than half, so that a
detector of the same rate but another phase has some for every frame."""


@dataclass(frozen=True, slots=True)
class Frame:
    """A frame of the dataset; ``stored`` has the bytes of its rows by source sample and topic."""

    time_ns: int
    pose: Pose
    agents: Records
    faces: Records
    nearest: int
    stored: Counter[tuple[int, str]]


@dataclass(slots=True)
class Held:
    """A sample that later frames may still need.

    Attributes:
        stored: bytes of frames that come from it, by topic.
        bytes: bytes of the frames whose nearest sample it is.
        frames: number of these frames.
    """

    number: int
    sample: PreparedFrame
    stored: Counter[str] = field(default_factory=Counter)
    bytes: int = 0
    frames: int = 0


class FrameGrid:
    """The frames of one scene, from samples in order of time.

    Frames are due at the first sample's time and every period after it, up to the last sample; with a rate
    of 0, at the time of every sample. A frame is left out if the ego pose is unknown, or if it lies in a gap
    of more than 0.3 s between samples and is not next to one of them. A frame is made once everything it
    depends on has come, after ``TRACK_GAP_NS``. A sample
    is released when no later frame depends on it, some 0.1 s after the frames next to it.

    Attributes:
        poseless: number of frames left out because no pose is known.
        gaps: how often successive frames are more than one period apart.
    """

    def __init__(self, options: L5KitOptions) -> None:
        self.poseless = 0
        self.gaps = 0
        self._period_ns = Fraction(10**9) / Fraction(options.rate_hz) if options.rate_hz else None
        self._tracks = Tracks()
        self._ego = EgoPath()
        self._held: deque[Held] = deque()
        self._unplaced: deque[Held] = deque()
        self._seen_ns: dict[int, int] = {}
        self._passed_ns = 0
        """All samples up to this time have come."""
        self._gone_ns = _NEVER_NS
        """Time of the last sample that was released."""
        self._apart_ns = 0
        """Largest time difference between a message and its sample so far."""
        self._count = 0
        self._start_ns = 0
        self._step = 0
        self._last_step: int | None = None
        self._rows = 0
        """Rows of agents in the frames so far."""

    def settled(self, *, final: bool = False) -> Iterator[Settled]:
        """What is known by now of agents of earlier frames, each once; with ``final`` of all of them."""
        return self._tracks.settled(final=final)

    def add(self, sample: PreparedFrame) -> None:
        """Add the next sample."""
        if not self._count:
            self._start_ns = sample.time_ns
        held = Held(self._count, sample)
        self._count += 1
        self._held.append(held)
        self._unplaced.append(held)
        self._ego.add(sample.time_ns, sample.pose)
        while len(self._unplaced) > 1:
            self._place(self._unplaced.popleft())

    def pass_by(self, time_ns: int, pose: Pose | None) -> None:
        """Note a sample that was shed, so that frames do not wait for the next one."""
        if not self._count:
            return
        self._ego.add(time_ns, pose)
        self._passed_ns = time_ns
        while self._unplaced:
            self._place(self._unplaced.popleft())

    def frames(self, *, final: bool = False) -> Iterator[Frame]:
        """The frames that can be made now; with ``final``, when no sample follows, all that are left."""
        while final and self._unplaced:
            self._place(self._unplaced.popleft())
        while self._held:
            due_ns = self._due_ns()
            if due_ns is None or not self._is_bounded(due_ns):
                return
            if not final and due_ns + TRACK_GAP_NS > self._placed_ns():
                return
            if self._is_covered(due_ns):
                frame = self._frame(due_ns)
                self._step += 1
                if frame is not None:
                    yield frame
            else:
                self._skip(due_ns)
            self._forget()

    def done(self, *, final: bool = False) -> Iterator[Held]:
        """Release the samples that no later frame needs, each once, in order; with ``final`` all."""
        needed = math.inf if final else self._needed()
        while self._held and self._held[0].number < needed:
            self._gone_ns = self._held[0].sample.time_ns
            yield self._held.popleft()

    def credit(self, frame: Frame, size: int) -> None:
        """Count a written frame of ``size`` bytes for the samples whose content it holds."""
        for held in self._held:
            if held.number == frame.nearest:
                held.bytes += size
                held.frames += 1
        by_number = {held.number: held for held in self._held}
        for (number, topic), count in frame.stored.items():
            if number in by_number:
                by_number[number].stored[topic] += count

    # ------------------------------------------------------------------ time
    def _due_ns(self) -> int | None:
        """When the next frame is due; None if that is not known yet."""
        if self._period_ns is not None:
            return self._start_ns + round(self._step * self._period_ns)
        own = (held.sample.time_ns for held in self._held if held.number == self._step)
        return next(own, None)

    def _half_ns(self) -> int:
        """Half a period, at most the largest distance of a measurement from its frame."""
        return _NEAR_NS if self._period_ns is None else min(round(self._period_ns / 2), _NEAR_NS)

    def _placed_ns(self) -> int:
        """Time up to which detections are placed, which takes the pose of the sample after them."""
        if not self._unplaced and self._held:
            return max(self._held[-1].sample.time_ns, self._passed_ns)
        last = len(self._held) - len(self._unplaced) - 1
        return self._held[last].sample.time_ns if last >= 0 else 0

    def _is_bounded(self, due_ns: int) -> bool:
        """Whether the samples before and after a frame are final."""
        last_ns = self._held[-1].sample.time_ns
        beside = self._period_ns is not None and due_ns - last_ns < self._half_ns()
        return due_ns <= last_ns or (beside and due_ns <= self._passed_ns)

    def _needed(self) -> int:
        """Number of the first sample that later frames depend on."""
        if not self._held:
            return 0
        last_ns, due_ns = self._held[-1].sample.time_ns, self._due_ns()
        # If so, the next sample is too far away for frames in between.
        apart = self._passed_ns > last_ns + BRIDGED_NS
        if due_ns is None:  # the next sample's own, whenever that will be
            due_ns = max(last_ns, self._passed_ns) + 1
        elif apart and not self._is_bounded(due_ns):
            due_ns = max(due_ns, self._passed_ns - self._half_ns())
        if self._period_ns is None:
            wanted_ns = self._own_ns(due_ns)[0]
        else:
            wanted_ns = due_ns - min(round(self._period_ns * _SHARED), _NEAR_NS)
        numbers = [self._count, *(held.number for held in self._unplaced)]
        if not apart or due_ns <= last_ns:
            earlier = (held for held in reversed(self._held) if held.sample.time_ns < due_ns)
            numbers.append(next(earlier, self._held[0]).number)
        numbers += [held.number for held in self._held if held.sample.newest_ns >= wanted_ns]
        seen = self._tracks.needs(due_ns, self._placed_ns() - self._apart_ns, wanted_ns)
        return min(numbers) if seen is None else min(*numbers, seen)

    def _oldest_ns(self) -> int:
        """Later frames need nothing from before this time."""
        due_ns = self._due_ns()
        if due_ns is None:
            due_ns = self._held[-1].sample.time_ns if self._held else 0
        return due_ns - TRACK_GAP_NS

    def _around(self, time_ns: int) -> tuple[Held | None, Held | None]:
        """The last sample up to a time and the first from it on."""
        before = next((held for held in reversed(self._held) if held.sample.time_ns <= time_ns), None)
        after = next((held for held in self._held if held.sample.time_ns >= time_ns), None)
        return before, after

    def _is_covered(self, due_ns: int) -> bool:
        before, after = self._around(due_ns)
        start_ns = -math.inf if before is None else before.sample.time_ns
        end_ns = math.inf if after is None else after.sample.time_ns
        half_ns = self._half_ns()
        return end_ns - start_ns <= BRIDGED_NS or due_ns - start_ns < half_ns or end_ns - due_ns <= half_ns

    def _skip(self, due_ns: int) -> None:
        """Continue with the first frame that is next to the sample after a gap."""
        after = next(held.sample.time_ns for held in self._held if held.sample.time_ns > due_ns)
        self._step += 1
        if self._period_ns is not None:
            behind = after - self._half_ns() - self._start_ns
            self._step = max(self._step, math.ceil(behind / self._period_ns))

    def _forget(self) -> None:
        oldest_ns = self._oldest_ns()
        self._tracks.forget(oldest_ns)
        self._ego.forget(oldest_ns - _NEAR_NS)

    # ------------------------------------------------------------------ content
    def _place(self, held: Held) -> None:
        """Transform a sample's detections to the world, except from messages that an earlier sample had."""
        found = held.sample.candidates
        times = zip(found.source.tolist(), found.time_ns.tolist(), strict=True)
        new = [time_ns > self._seen_ns.get(source, 0) for source, time_ns in times]
        found = found.taken(np.array(new, np.bool_))
        for time_ns in np.unique(found.time_ns).tolist():
            pose = self._ego.at(time_ns, beyond=True)
            if pose is None:
                continue
            seen = found.taken(found.time_ns == time_ns)
            self._apart_ns = max(self._apart_ns, abs(time_ns - held.sample.time_ns))
            level = np.concatenate([seen.place_m, np.zeros((len(seen), 1))], axis=1)
            world = (level @ pose.rotation.T + pose.position_m)[:, :2].tolist()
            bearing = (seen.bearing_rad + yaw_of(pose.rotation)).tolist()
            reach = (np.maximum(seen.typical_m[:, 0], seen.lateral_m) / 2 + 0.5).tolist()
            for index, (x, y) in enumerate(world):
                self._tracks.see(
                    Sighting(
                        int(seen.key[index]),
                        int(seen.source[index]),
                        held.number,
                        time_ns,
                        (x, y),
                        bearing[index],
                        float(seen.lateral_m[index]),
                        float(seen.height_m[index]),
                        seen.label[index],
                        reach[index],
                    )
                )
        for source in np.unique(found.source).tolist():
            self._seen_ns[source] = int(found.time_ns[found.source == source].max())

    def _frame(self, due_ns: int) -> Frame | None:
        pose = self._ego.at(due_ns)
        if pose is None:
            self.poseless += 1
            return None
        self.gaps += self._last_step is not None and self._step != self._last_step + 1
        self._last_step = self._step
        stored: Counter[tuple[int, str]] = Counter()
        # Heading and size come from sightings whose whole window is known.
        self._tracks.learn(due_ns + TRACK_GAP_NS - HALF_NS)
        ego_yaw_rad = math.atan2(pose.rotation[1, 0], pose.rotation[0, 0])
        shown = self._tracks.rows(due_ns, ego_yaw_rad, self._own_ns(due_ns))
        self._credit_agents(shown, stored)
        for number, each in enumerate(shown, self._rows):
            each.track.wrote(number, due_ns, ego_yaw_rad)
        self._rows += len(shown)
        agents = [np.zeros(0, AGENT), *(each.row for each in shown)]
        nearest = min(self._held, key=lambda held: abs(held.sample.time_ns - due_ns))
        return Frame(
            due_ns, pose, np.concatenate(agents), self._faces(due_ns, stored), nearest.number, stored
        )

    def _own_ns(self, due_ns: int) -> tuple[int, int]:
        """First and last time of messages that are shown in this frame only."""
        if self._period_ns is not None:
            return due_ns - self._half_ns() + 1, due_ns + self._half_ns()
        times = [self._gone_ns, *(held.sample.time_ns for held in self._held)]
        before = max(time for time in times if time < due_ns)
        if before == _NEVER_NS:
            before = due_ns - 2 * _NEAR_NS
        after = min((time for time in times if time > due_ns), default=due_ns + 2 * _NEAR_NS)
        return (before + due_ns) // 2 + 1, (due_ns + after) // 2

    def _is_of(self, due_ns: int, time_ns: int) -> bool:
        """Whether lights of this time may be shown in the frame."""
        if self._period_ns is None:
            first_ns, last_ns = self._own_ns(due_ns)
            return first_ns <= time_ns <= last_ns
        return abs(time_ns - due_ns) <= min(round(self._period_ns * _SHARED), _NEAR_NS)

    def _credit_agents(self, shown: list[Shown], stored: Counter[tuple[int, str]]) -> None:
        """Credit half of a row to each of the two sightings that it is interpolated from."""
        origins = {held.number: held.sample.origins for held in self._held}
        for each in shown:
            for sighting in each.sightings:
                topic = origins.get(sighting.sample, {}).get(sighting.source)
                if topic is not None:
                    stored[sighting.sample, topic] += AGENT.itemsize // 2

    def _faces(self, due_ns: int, stored: Counter[tuple[int, str]]) -> Records:
        found = [(held.number, held.sample.lights) for held in self._held if held.sample.lights is not None]
        if not found:
            return np.zeros(0, FACE)
        number, lights = min(found, key=lambda each: abs(each[1].time_ns - due_ns))
        if not self._is_of(due_ns, lights.time_ns):
            return np.zeros(0, FACE)
        stored[number, lights.topic] += lights.faces.nbytes
        return lights.faces
