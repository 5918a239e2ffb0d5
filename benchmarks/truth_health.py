"""Sensors that fail while they go on sending: whether the verdict finds it, with begin and length."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from faults import GpsErrors, ImuErrors
from scenarios import Figure, at_most, driven, exactly, scenario, seconds, told

from edgefirst_ros.model.reasons import Code, Finding, Severity
from edgefirst_ros.report.judge import Verdict, judge
from edgefirst_ros.report.models import parsed

BEGIN_S, END_S = 7.0, 19.0
"""Of a fault within a drive of 24 s: half of it."""
CONTENT = frozenset({Code.FROZEN, Code.BLACK, Code.BLANK, Code.ZERO_POINTS, Code.EMPTY_SECTORS})
QUICK: dict[str, Any] = {"fps": 10, "width": 320, "height": 180, "lidar_points": 1500, "imu_hz": 50}
NOISE = ImuErrors(gyroscope_sigma_rad_s=0.01, accelerometer_sigma_m_s2=0.05)
FIXES = GpsErrors(sigma_m=(0.3, 0.5))
"""A receiver that never has noise is taken for frozen where the rig brakes."""
SPAN = ((BEGIN_S, END_S),)
FAULTS: dict[str, tuple[Code, str, dict[str, Any]]] = {
    "video black": (Code.BLACK, "/camera/h264", {"black": SPAN}),
    "stills black": (Code.BLACK, "/camera/jpeg", {"black": SPAN, "jpeg": True}),
    "video frozen": (Code.FROZEN, "/camera/h264", {"frozen": {"camera": SPAN}}),
    "stills frozen": (Code.FROZEN, "/camera/jpeg", {"frozen": {"camera": SPAN}, "jpeg": True}),
    "cloud frozen": (Code.FROZEN, "/lidar/points", {"frozen": {"lidar/points": SPAN}}),
    "half of the points at zero": (Code.ZERO_POINTS, "/lidar/points", {"zero_points": ((*SPAN[0], 0.5),)}),
    "IMU frozen": (Code.FROZEN, "/imu", {"frozen": {"imu": SPAN}}),
}
"""Its code, topic and options."""
SOUND: dict[str, dict[str, Any]] = {
    "driving": {},
    "with noise": {"grain": 3.0, "imu": NOISE},
    "stops": {"stops": ((6.0, 14.0),), "gps": FIXES},
    "parked, nothing moves": {"stops": ((0.0, 24.0),), "traffic": "none", "gps": FIXES},
    "parked at night": {"stops": ((0.0, 24.0),), "brightness": 0.1, "grain": 2.0, "gps": FIXES},
    "rays that met nothing are zeros": {"lidar_missing": "zero", "lidar_organised": True},
    "stills": {"jpeg": True},
}


def judged(folder: Path, options: dict[str, Any]) -> tuple[Verdict, dict[str, Any]]:
    """The verdict on a drive with these options, and its report."""
    done, _ = driven(folder, **{**QUICK, "seconds": seconds(24.0), **options})
    return judge(parsed(done.report)), done.report


def graded(verdict: Verdict) -> list[Finding]:
    """What is said of the content of sensors and counts for the grade."""
    return [each for each in verdict.findings if each.code in CONTENT and each.severity > Severity.NOTE]


@scenario("health: faults", "each fault found, begin and length within 1 s, no other one")
def faults(folder: Path) -> Iterator[Figure]:
    """One sensor of each drive fails for half of it."""
    for number, (name, (code, topic, options)) in enumerate(FAULTS.items()):
        verdict, report = judged(folder / str(number), options)
        found = [each for each in graded(verdict) if each.code is code and each.topics == (topic,)]
        start_ns = report["sequences"][0]["start_ns"]
        yield exactly(f"{name}: found", len(found), 1)
        yield exactly(f"{name}: others", len(graded(verdict)) - len(found), 0)
        for each in found:
            begin_s, end_s = ((at or 0) - start_ns for at in (each.begin_ns, each.end_ns))
            yield at_most(f"{name}: begin off", abs(begin_s / 1e9 - BEGIN_S), 1.0, "s")
            yield at_most(f"{name}: length off", abs((end_s - begin_s) / 1e9 - (END_S - BEGIN_S)), 1.0, "s")
        yield told(f"{name}: grade", verdict.grade)


@scenario("health: absent", "no GPS and a frozen receiver are said and graded; no mounting of a frozen IMU")
def absent(folder: Path) -> Iterator[Figure]:
    """What has no place in time."""
    verdict, _ = judged(folder / "gps", {"silent": {"gps": ((0.0, 1e6),)}})
    yield exactly("without GPS: grade", verdict.grade, "fair")
    verdict, _ = judged(folder / "receiver", {"frozen": {"gps": ((3.0, 1e6),)}})
    yield exactly("frozen receiver: graded", str(verdict.grade != "good"), "True")
    verdict, report = judged(folder / "imu", {"frozen": {"imu": ((0.0, 1e6),)}})
    yield exactly("frozen IMU: grade", verdict.grade, "poor")
    yield exactly("frozen IMU: mountings advised", sum("xyzw" in each for each in report["warnings"]), 0)


@scenario("health: sound", "0 false alarms on drives whose sensors are sound")
def sound(folder: Path) -> Iterator[Figure]:
    """Also of such as stand, at night, in a world without noise."""
    for number, (name, options) in enumerate(SOUND.items()):
        verdict, _ = judged(folder / str(number), options)
        yield exactly(f"{name}: false alarms", len(graded(verdict)), 0)
        yield exactly(f"{name}: grade", verdict.grade, "good")
