"""What an estimate is worth on drives of ``cars.py``, beside a plain graph and the fixes alone."""

from __future__ import annotations

import math
import multiprocessing
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, fields, replace

import cars
import crafts
import ego_ours
import gtsam_baseline
import numpy as np
from cars import Booleans, Drive, Floats
from ego_ours import Estimate

POSE_HZ = 30.0
"""As often as a camera gives pictures."""
EDGE_S = 0.5
"""Left out at both ends of a drive."""
SURE = ("measured", "interpolated")
MAX_GAP_S = 5.0
"""``ego.max_gap_s``: in a longer gap between fixes a pose may be lost."""
WAY_M = 20.0
"""Before so much way no heading is asked for, unless a sensor gives it or later driving may tell."""
HOLD_S, MOVING_M_S = 2.0, 1.0
"""``ego.hold_s``: fixes alone give no heading of a car that does not move for longer."""
LOST_PERCENT = 2.0
NEES = (0.5, 2.0)
FAR_SIGMAS, FAR_M = 5.0, 3.0
STEP_CM, STEP_DEG = 2.5, 0.5
"""What NuRec asks from frame to frame; demanded of nineteen frames of twenty."""
EXACT_M = 0.005
"""Demanded where fixes are exact: chords between them are off by a millimetre, which no sensor carries."""
MORE_DEG = 2.0
"""How much further off than one and a half times the baseline's a heading may be."""
FOUND_DEG = 5.0
"""How far what is said of a turned IMU may be off."""


@dataclass(frozen=True)
class Judged:
    """Figures of one drive, seed and way; NaN where there is nothing to judge.

    RMS, largest errors and steps are of all poses that have a position or rotation, and of the same ones for
    the baseline and the fixes; NEES, by degree of freedom, and ``far`` of those called measured or
    interpolated. ``failed`` names what is demanded and missed, ``odd`` the NEES that are out of bounds.
    Errors that wander over minutes are drawn only a few times in a drive, so one in five leaves the bounds
    where standard deviations are true, too: the mean over seeds counts (``over_seeds``).
    """

    drive: str
    seed: int
    way: str
    length_s: float
    rms_m: float
    most_m: float
    interpolated_rms_m: float
    interpolated_most_m: float
    baseline_rms_m: float
    baseline_most_m: float
    heading_deg: float
    tilt_deg: float
    baseline_heading_deg: float
    nees_horizontal: float
    nees_vertical: float
    nees_position: float
    nees_tilt: float
    nees_heading: float
    nees_rotation: float
    lost_percent: float
    far: int
    step_cm: float
    step_deg: float
    cpu_s: float
    wander_rms_m: float
    refused: dict[str, int]
    found_deg: float
    failed: tuple[str, ...] = ()
    odd: tuple[str, ...] = ()


def judged(drive: Drive, way: str, estimate: Estimate, baseline: tuple[Floats, Floats] | None) -> Judged:
    """An estimate against the truth and against what others make of the same drive."""
    kind, time_s = drive.kind, estimate.time_s
    true, true_rotation = drive.truth.places_at(time_s), drive.truth.rotations_at(time_s)
    off = estimate.position_m - true
    turned = cars.logarithm(np.swapaxes(true_rotation, 1, 2) @ _whole(estimate.rotation))
    turned[np.isnan(estimate.rotation[:, 0, 0])] = np.nan
    given, oriented = ~np.isnan(off[:, 0]), ~np.isnan(turned[:, 0])
    sure_place = np.isin(estimate.position_basis, SURE) & given
    sure_turn = np.isin(estimate.rotation_basis, SURE) & oriented
    places = _ratios(off, estimate.position_sigma_m, sure_place)
    turns = _ratios(turned, estimate.rotation_sigma_rad, sure_turn)
    is_far = (np.linalg.norm(off, axis=1) > FAR_M) & (places > FAR_SIGMAS**2).any(axis=1)

    line = np.stack([np.interp(time_s, drive.fixes.time_s, a) for a in drive.fixes.position_m.T], axis=1)
    other = np.full(len(time_s), np.nan) if baseline is None else _far(baseline[0] - true)
    other_heading = math.nan
    if baseline is not None:
        turn = np.swapaxes(true_rotation, 1, 2) @ baseline[1]
        other_heading = _rms(np.degrees(cars.heading_rad(turn)))

    asked = _asked(drive, time_s, way)
    is_lost = ~given if kind.found_deg else ~given | ~oriented
    steps_m, steps_rad = _steps(estimate, true, true_rotation)
    said = abs(estimate.found_deg[1 if kind.turned_deg else 0])
    found = Judged(
        kind.name,
        drive.seed,
        way,
        round(float(drive.truth.time_s[-1]), 3),
        *_rms_most(_far(off), given),
        *_rms_most(_far(line - true), given),
        *_rms_most(other, given),
        _rms(np.degrees(_headings(true_rotation, estimate.rotation))[oriented]),
        _rms(np.degrees(np.linalg.norm(turned[oriented, :2], axis=1))),
        other_heading,
        _mean(places[:, :2]),
        _mean(places[:, 2:]),
        _mean(places),
        _mean(turns[:, :2]),
        _mean(turns[:, 2:]),
        _mean(turns),
        100.0 * float(is_lost[asked].mean()) if asked.any() else math.nan,
        int(is_far.sum()),
        _p95(100 * steps_m),
        _p95(np.degrees(steps_rad)),
        estimate.cpu_s,
        _rms(np.linalg.norm(drive.fixes.wander_m[:, :2], axis=1)),
        estimate.refused,
        said,
    )
    failed = tuple(name for name, is_met in _demands(drive, found) if not is_met)
    return replace(found, failed=failed, odd=_odd(kind.name, found.nees_position, found.nees_rotation))


def _odd(name: str, position: float, rotation: float) -> tuple[str, ...]:
    """Which NEES of a drive is outside of the bounds; NaN is."""
    kind = crafts.DRIVES[name]
    if kind.exact:
        return ()  # no estimate claims the micrometres that simulated fixes are true to
    ratios = [("NEES position", position)]
    if not kind.found_deg:
        ratios.append(("NEES rotation", rotation))
    return tuple(what for what, ratio in ratios if not NEES[0] <= ratio <= NEES[1])


def _demands(drive: Drive, found: Judged) -> Iterator[tuple[str, bool]]:
    """What is demanded and whether it is met; NaN meets nothing."""
    kind = drive.kind
    if found.way == "whole" and not math.isnan(found.baseline_rms_m):
        # The baseline knows the whole drive, which a pose two seconds after its time does not.
        yield "baseline", found.rms_m <= 1.1 * found.baseline_rms_m + 0.1
        if not kind.found_deg:
            yield "heading", found.heading_deg <= 1.5 * found.baseline_heading_deg + MORE_DEG
    yield "interpolated", found.rms_m <= max(found.interpolated_rms_m, EXACT_M if kind.exact else 0.0)
    yield "lost", found.lost_percent <= LOST_PERCENT
    yield "far", found.far == 0
    if kind.exact:
        yield "step", found.step_cm < STEP_CM and found.step_deg < STEP_DEG
    if kind.found_deg:
        yield "said", abs(found.found_deg - kind.found_deg) <= FOUND_DEG
    else:
        yield "claimed", math.isnan(found.found_deg)


def _asked(drive: Drive, time_s: Floats, way: str) -> Booleans:
    """Which poses (n,) are asked for: where there are fixes and there can be a heading."""
    fixes_s = drive.fixes.time_s[~drive.fixes.is_frozen]
    after = np.searchsorted(fixes_s, time_s)
    before_s = np.concatenate([[-np.inf], fixes_s])[after]
    gap_s = np.concatenate([fixes_s, time_s[-1:] + EDGE_S])[after] - before_s
    asked = gap_s <= MAX_GAP_S
    if drive.kind.ahrs is not None:
        return np.asarray(asked)
    truth = drive.truth
    if way == "lag" or drive.kind.imu is None:
        way_m = np.interp(time_s, truth.time_s, truth.driven_m)
        asked &= way_m - np.interp(fixes_s[0], truth.time_s, truth.driven_m) > WAY_M
    if drive.kind.imu is None:
        moving_s = truth.time_s[truth.speed_m_s > MOVING_M_S]
        index = np.clip(np.searchsorted(moving_s, time_s), 1, len(moving_s) - 1)
        nearest_s = np.minimum(np.abs(moving_s[index] - time_s), np.abs(moving_s[index - 1] - time_s))
        asked &= nearest_s <= HOLD_S
    return np.asarray(asked)


def _ratios(off: Floats, sigma: Floats, chosen: Booleans) -> Floats:
    """Squares (n, 3) of errors in standard deviations; infinite where there is none, NaN where not chosen."""
    ratios = np.where(np.isnan(sigma), np.inf, (off / sigma) ** 2)
    return np.asarray(np.where(chosen[:, None], ratios, np.nan))


def _whole(rotations: Floats) -> Floats:
    """With unit matrices where there is none."""
    return np.asarray(np.where(np.isnan(rotations), np.eye(3), rotations))


def _headings(true: Floats, found: Floats) -> Floats:
    """Differences of headings (n,) in radians, NaN where there is none."""
    off = cars.heading_rad(found) - cars.heading_rad(true)
    return np.asarray((off + np.pi) % (2 * np.pi) - np.pi)


def _steps(estimate: Estimate, true: Floats, true_rotation: Floats) -> tuple[Floats, Floats]:
    """How far each pose seen from the one before it is off: metres and radians."""
    known = ~np.isnan(estimate.position_m[:, 0]) & ~np.isnan(estimate.rotation[:, 0, 0])
    both = known[1:] & known[:-1]
    moves, turns = [], []
    for place, rotation in ((estimate.position_m, estimate.rotation), (true, true_rotation)):
        back = np.swapaxes(rotation[:-1], 1, 2)[both]
        moves.append(np.einsum("nij,nj->ni", back, np.diff(place, axis=0)[both]))
        turns.append(back @ rotation[1:][both])
    turned = np.swapaxes(turns[1], 1, 2) @ turns[0]
    return np.linalg.norm(moves[0] - moves[1], axis=1), np.linalg.norm(cars.logarithm(turned), axis=1)


def _far(off: Floats) -> Floats:
    """Horizontally."""
    return np.asarray(np.linalg.norm(off[:, :2], axis=1))


def _rms(values: Floats) -> float:
    return float(np.sqrt(np.mean(values**2))) if len(values) else math.nan


def _mean(values: Floats) -> float:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else math.nan


def _p95(values: Floats) -> float:
    return float(np.quantile(values, 0.95)) if len(values) else math.nan


def _rms_most(values: Floats, chosen: Booleans) -> tuple[float, float]:
    of = values[chosen]
    return (_rms(of), float(of.max())) if len(of) else (math.nan, math.nan)


def run(name: str, seed: int, length_s: float, ways: Sequence[str]) -> list[Judged]:
    """One drive, estimated in each of these ways."""
    drive = cars.made(crafts.DRIVES[name], seed, length_s)
    time_s = np.arange(EDGE_S, length_s - EDGE_S, 1 / POSE_HZ)
    baseline = None
    if drive.kind.imu is not None:
        try:
            baseline = gtsam_baseline.estimated(drive, time_s)
        except ImportError:
            baseline = None  # its demand is left out then
    return [judged(drive, way, ego_ours.estimated(drive, time_s, way), baseline) for way in ways]


def run_all(
    names: Sequence[str], seeds: Sequence[int], length_s: float, ways: Sequence[str], jobs: int
) -> Iterator[Judged]:
    """All of these drives, as they are done."""
    chosen = [(name, seed, length_s, ways) for name in names for seed in seeds]
    if jobs == 1:
        for each in chosen:
            yield from run(*each)
        return
    # Fresh processes: a fork would share the threads of libraries.
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn")) as pool:
        for done in as_completed([pool.submit(run, *each) for each in chosen]):
            yield from done.result()


COLUMNS = (
    f"{'drive':24} {'seed':>4} {'way':5} | {'RMS (most) ours':>16} {'interpolated':>15} {'baseline':>15} m"
    f" | {'heading':>7} {'base':>5} {'tilt':>5} ° | NEES {'horiz':>6} {'vert':>6} {'tilt':>6} {'head':>6}"
    f" {'place':>6} {'turn':>6} | {'lost':>5} % {'far':>5} | {'step':>6} cm {'°':>5} | {'CPU':>5} s | missed"
)


def line(of: Judged) -> str:
    """One line of the table."""
    pairs = (
        (of.rms_m, of.most_m, 16),
        (of.interpolated_rms_m, of.interpolated_most_m, 15),
        (of.baseline_rms_m, of.baseline_most_m, 15),
    )
    metres = " ".join(f"{f'{_short(rms)} ({_short(most)})':>{width}}" for rms, most, width in pairs)
    odd = f" ({', '.join(of.odd)})" if of.odd else ""
    nees = (of.nees_horizontal, of.nees_vertical, of.nees_tilt, of.nees_heading)
    ratios = " ".join(f"{_short(ratio):>6}" for ratio in (*nees, of.nees_position, of.nees_rotation))
    return (
        f"{of.drive:24} {of.seed:4d} {of.way:5} | {metres}   | {_short(of.heading_deg):>7}"
        f" {_short(of.baseline_heading_deg):>5} {_short(of.tilt_deg):>5}   |"
        f"      {ratios} | {of.lost_percent:5.1f}   {of.far:5d} | {of.step_cm:6.2f}    {of.step_deg:5.2f}"
        f" | {of.cpu_s:5.2f}   | {', '.join(of.failed) or 'nothing'}{odd}"
    )


def _short(value: float) -> str:
    """With three digits."""
    if value < 0.1:
        return f"{value:.3f}"
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:.0f}"


def over_seeds(several: Sequence[Judged]) -> tuple[str, bool]:
    """One line for a drive and way: mean NEES, how many seeds miss what; and whether nothing is missed."""
    means = {
        each.name: float(np.mean([getattr(of, each.name) for of in several]))
        for each in fields(Judged)
        if each.name.startswith("nees_") or each.name in {"rms_m", "lost_percent", "cpu_s"}
    }
    missed = sorted({name for of in several for name in of.failed})
    counted = [f"{name} {sum(name in of.failed for of in several)}" for name in missed]
    odd = _odd(several[0].drive, means["nees_position"], means["nees_rotation"])
    text = (
        f"{several[0].drive:24} {several[0].way:5} {len(several):2d} seeds: RMS {_short(means['rms_m'])} m,"
        f" NEES position {_short(means['nees_position'])} rotation {_short(means['nees_rotation'])}, lost"
        f" {means['lost_percent']:.1f} %, CPU {means['cpu_s']:.2f} s;"
        f" missed: {', '.join([*counted, *odd]) or 'nothing'}"
    )
    return text, not counted and not odd


def as_json(of: Judged) -> dict[str, object]:
    """Its figures for a line of JSON, null where there is none."""
    return {
        name: None if isinstance(value, float) and not math.isfinite(value) else value
        for name, value in asdict(of).items()
    }
