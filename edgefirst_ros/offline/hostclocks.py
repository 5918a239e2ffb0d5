"""How far the clocks of two devices of a rig are apart, by what each has recorded itself."""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from edgefirst_ros.config.model import MAIVIN_TOPICS
from edgefirst_ros.config.topics import full_type
from edgefirst_ros.model.errors import ConfigError, DecodeError, RecordingError
from edgefirst_ros.model.navigation import Imu, NavSatFix
from edgefirst_ros.model.registry import decode
from edgefirst_ros.offline.drives import RecordedDrive
from edgefirst_ros.sources.device import Shift
from edgefirst_ros.sources.suggest import OF_CAMERAS
from edgefirst_ros.timing.apart import Apart, Turns, apart
from edgefirst_ros.timing.common import WITHIN_S
from edgefirst_ros.timing.finding import (
    LEAST_SPREAD_NS,
    RECORDINGS_OWN,
    Arrivals,
    Evidence,
    MessageTimes,
    Rule,
    find_clocks,
)

IMU, FIX = "sensor_msgs/msg/Imu", "sensor_msgs/msg/NavSatFix"
MOST_TIMES = 4_000
"""Messages that an IMU's clock is found from: 20 s at 200 Hz."""
BACK_NS, ON_NS = 1_000_000_000, 3_600_000_000_000
"""Receipt that goes back by this, or on by that, shows a step of the clock; no recorder pauses so long."""
FAR_NS = 5_000_000_000
"""No message is received so long after it was measured."""
LEAST_EPOCHS, EPOCHS_NS, EPOCH_NS, EPOCH_SHARE = 10, 50_000_000, 1_000_000, 0.9
"""So many fixes of which this share is at whole multiples of 50 ms, to within 1 ms, have the receiver's time,
which measures then: a host stamps at any time."""
AGREE_S = 0.005
"""Clocks that are no farther apart, as far as is known, are taken for one time: that one server keeps."""


@dataclass(slots=True)
class _Times:
    """Stamps and times of receipt, in nanoseconds."""

    stamps_ns: array[int] = field(default_factory=lambda: array("q"))
    receipts_ns: array[int] = field(default_factory=lambda: array("q"))

    @property
    def both(self) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        return np.array(self.stamps_ns, np.int64), np.array(self.receipts_ns, np.int64)


@dataclass(slots=True)
class Heard:
    """What a device's recording tells of its clock: an hour of an IMU at 200 Hz takes 30 MB."""

    imu: _Times = field(default_factory=_Times)
    rates: array[float] = field(default_factory=lambda: array("d"))
    fixes: _Times = field(default_factory=_Times)
    first_ns: int = 0
    last_ns: int = 0
    is_stepped: bool = False

    def turns(self, start_ns: int) -> tuple[Turns, float]:
        """How it turned, in seconds of its host's clock from a time on, and how sure they are, in seconds."""
        stamps_ns, receipts_ns = self.imu.both
        if not len(stamps_ns):
            return (np.empty(0), np.empty((0, 3))), 0.0
        pairs = zip(self.imu.stamps_ns[:MOST_TIMES], self.imu.receipts_ns[:MOST_TIMES], strict=True)
        times = [MessageTimes("imu", stamp_ns, receive_ns, receive_ns) for stamp_ns, receive_ns in pairs]
        rule = Rule(latency_ns=MAIVIN_TOPICS["imu"].times.latency_ns)
        (clock,) = find_clocks([Evidence("imu", rule, times)], [RECORDINGS_OWN])
        at_ns = (stamps_ns if clock.source == "stamp" else receipts_ns) + clock.offset_ns
        sure_ns = LEAST_SPREAD_NS if clock.uncertainty_ns is None else clock.uncertainty_ns
        # A damaged stamp says any time.
        sound = np.abs(receipts_ns - at_ns) <= FAR_NS
        at_ns, places = np.unique(at_ns[sound], return_index=True)
        return ((at_ns - start_ns) / 1e9, np.array(self.rates).reshape(-1, 3)[sound][places]), sure_ns / 1e9

    @property
    def gps(self) -> tuple[int, float] | None:
        """How far its clock is ahead of GPS time, and how sure, in ns; None if no fixes have it."""
        stamps_ns, receipts_ns = self.fixes.both
        off_ns = (stamps_ns + EPOCHS_NS // 2) % EPOCHS_NS - EPOCHS_NS // 2
        if len({*self.fixes.stamps_ns}) < LEAST_EPOCHS or np.mean(np.abs(off_ns) < EPOCH_NS) < EPOCH_SHARE:
            return None
        late_ns = receipts_ns - stamps_ns
        told = Arrivals(late_ns, MAIVIN_TOPICS["gps"].times.latency_ns).offset()
        # By so much it drifts against GPS time.
        begin_ns, end_ns = (int(half.min()) for half in np.array_split(late_ns, 2))
        return told and (told[0], float(np.hypot(told[1], end_ns - begin_ns)))


def hear(device: RecordedDrive) -> Heard:
    """Read a device's recording for what tells of its clock.

    Raises:
        RecordingError: it cannot be read.
    """
    imus = sorted({info.topic for info in device.topics() if full_type(info.schema) == IMU})
    imu = min(imus, key=lambda topic: bool(OF_CAMERAS.search(topic)), default="")
    heard = Heard()
    device.keep()
    for message in device.messages(lambda topic, kind: topic == imu or full_type(kind) == FIX):
        heard.first_ns = heard.first_ns or message.receive_ns
        if heard.last_ns:
            heard.is_stepped |= not -BACK_NS <= message.receive_ns - heard.last_ns <= ON_NS
        heard.last_ns = max(heard.last_ns, message.receive_ns)
        if message.fault or not (message.topic == imu or full_type(message.schema) == FIX):
            continue
        try:
            stamp_ns, _, datum = decode(message)
        except DecodeError:
            continue
        if isinstance(datum, Imu) and np.isfinite(datum.angular_velocity_rad_s).all():
            heard.rates.extend(datum.angular_velocity_rad_s)
            times = heard.imu
        elif isinstance(datum, NavSatFix):
            times = heard.fixes
        else:
            continue
        times.stamps_ns.append(stamp_ns)
        times.receipts_ns.append(message.receive_ns)
    return heard


@dataclass(frozen=True, slots=True)
class Compared:
    """What was found of a device's clock: by what (motion, gps, given), how sure, and a sentence."""

    shift: Shift
    sure_s: float | None
    by: str
    text: str

    def described(self, name: str) -> dict[str, Any]:
        """For the report, of the device of that name."""
        found: dict[str, Any] = {"name": name}
        if self.by:
            found["ahead_s"] = round(self.shift.ahead_ns / 1e9, 6)
            found["drift_ppm"] = round(self.shift.drift * 1e6, 2)
            found["uncertainty_s"] = None if self.sure_s is None else round(self.sure_s, 6)
            found["by"] = self.by
        return found


def compared(one: tuple[str, Heard], other: tuple[str, Heard], given_s: float | None) -> Compared:
    """How far the clock of a device is ahead of the first one's.

    Args:
        one: name of the first device, and what was heard of it.
        other: likewise, of another one.
        given_s: what is known of it already.

    Raises:
        ConfigError: nothing says it; the message has what does.
        RecordingError: they are of one device, were not recorded at one time, or a clock was stepped.
    """
    (first, a), (name, b) = one, other
    both = f"--rig: {first} and {name}"
    for device, heard in (one, other):
        if heard.is_stepped:
            raise RecordingError(
                f"--rig: {device}: its clock was stepped while it recorded; cut it there first"
            )
    turns, sure_s = a.turns(a.first_ns)
    others, other_sure_s = b.turns(a.first_ns)
    gps = _by_gps(a, b)
    found = _found(turns, others, given_s, gps)
    if found and found[0].is_same:
        raise RecordingError(f"{both} are one device's: their IMUs measure the same")
    advice = f"--rig-offset {name}=SECONDS says by how much its clock is ahead of {first}'s"
    if len(found) > 1 or (found and given_s is not None and abs(found[0].ahead_s - given_s) > WITHIN_S):
        several = " or ".join(f"{each.ahead_s:.2f} s" for each in found)
        advice = advice if given_s is None else f"--rig-offset says {given_s:g} s"
        raise ConfigError([f"{both}: by their motion the clock of {name} is {several} ahead; {advice}"])
    if found:
        result = _by_motion(
            found[0], float(np.hypot(sure_s, other_sure_s)), given_s or 0.0, a.first_ns, first
        )
    elif given_s is not None:
        result = _steady(given_s, None, "given", f"{first}'s, as --rig-offset says")
    elif gps is not None:
        why = f"{first}'s by GPS time, ± {gps[1] * 1e3:.0f} ms, as their motion does not say it"
        result = _steady(*gps, "gps", why)
    else:
        imus = (
            "their IMUs have no turning in common"
            if len(turns[0]) and len(others[0])
            else "not both have an IMU"
        )
        why = f"nothing says how far apart their clocks are, if they recorded at one time: {imus}"
        raise ConfigError([f"{both}: {why}, nor do their fixes have GPS time; {advice}"])
    begin_ns, end_ns = (each + result.shift.of(each) for each in (b.first_ns, b.last_ns))
    gap_s = max(begin_ns - a.last_ns, a.first_ns - end_ns) / 1e9
    if gap_s > 0:
        raise RecordingError(f"{both} were not recorded at one time, but {gap_s:,.1f} s apart: {result.text}")
    return result


def _found(one: Turns, other: Turns, given_s: float | None, gps: tuple[float, float] | None) -> list[Apart]:
    """What the motion says, near to what else is known if that tells which; elsewhere if it is not there."""
    if given_s is not None:
        return apart(one, other, [given_s]) or apart(one, other)
    found = apart(one, other)
    return found if len(found) == 1 or gps is None else apart(one, other, [gps[0]]) or found


def _by_motion(found: Apart, clocks_s: float, near_s: float, start_ns: int, first: str) -> Compared:
    sure_s = float(np.hypot(found.sure_s, clocks_s))
    pieces = f"{found.pieces} piece{'s' * (found.pieces > 1)} of the drive"
    why = f"as their IMUs turn in {pieces}, ± {sure_s * 1e3:.1f} ms"
    if max(abs(found.ahead_s - near_s), abs(found.drift) * found.span_s) <= min(sure_s, AGREE_S):
        # As of clocks that one server sets: what is measured of their difference is noise.
        return _steady(near_s, sure_s, "motion", f"{first}'s, {why}")
    at_ns = start_ns + round((found.at_s + found.ahead_s) * 1e9)
    gains = f" and gains {found.drift * 1e6:+.1f} ppm" if found.drift else ""
    text = f"{_ahead(found.ahead_s)} {first}'s{gains}, {why}"
    return Compared(Shift(round(found.ahead_s * 1e9), at_ns, found.drift), sure_s, "motion", text)


def _steady(ahead_s: float, sure_s: float | None, by: str, why: str) -> Compared:
    return Compared(Shift(round(ahead_s * 1e9)), sure_s, by, f"{_ahead(ahead_s)} {why}")


def _ahead(ahead_s: float) -> str:
    if not ahead_s:
        return "its clock agrees with"
    return f"its clock is {abs(ahead_s):,.4f} s {'ahead of' if ahead_s > 0 else 'behind'}"


def _by_gps(one: Heard, other: Heard) -> tuple[float, float] | None:
    """By how much a host's clock is ahead of the first one's by GPS time, and how sure, in seconds."""
    if (told := one.gps) is None or (other_told := other.gps) is None:
        return None
    return (other_told[0] - told[0]) / 1e9, float(np.hypot(told[1], other_told[1])) / 1e9
