"""A plain factor graph over a drive, untuned: what the estimate must not be worse than.

GTSAM's ``CombinedImuFactor`` between nodes and a robust ``GPSFactor`` at fixes; no orientation of an AHRS, no
slow wander of the receiver, nothing of a car. The descent begins at the truth: no
hypothesis is lost. Fixes that a receiver repeats to the last digit are left out.
"""

from __future__ import annotations

import importlib
import math
from typing import Any

import numpy as np
from cars import GRAVITY_M_S2, IMU_HZ, Drive, Floats, rotations_of

FIX_SIGMA_M = 2.0
NEAREST_S, FARTHEST_S = 0.2, 1.0


def estimated(drive: Drive, time_s: Floats) -> tuple[Floats, Floats]:
    """Positions (n, 3) in the drive's ENU and rotations (n, 3, 3) at times (n,).

    Raises:
        ImportError: GTSAM is not installed.
        ValueError: the drive has no IMU.
    """
    gtsam: Any = importlib.import_module("gtsam")
    if not len(drive.rate_rad_s):
        raise ValueError("a drive without an IMU")
    good = ~drive.fixes.is_frozen
    fixes_s, places = drive.fixes.time_s[good], drive.fixes.position_m[good]
    samples, fix_of = _nodes(fixes_s, len(drive.truth.time_s))
    truth = drive.truth
    x, v, b = (gtsam.symbol_shorthand.X, gtsam.symbol_shorthand.V, gtsam.symbol_shorthand.B)

    params = gtsam.PreintegrationCombinedParams.MakeSharedU(GRAVITY_M_S2)
    params.setAccelerometerCovariance(np.eye(3) * 2e-2**2)
    params.setGyroscopeCovariance(np.eye(3) * 2e-4**2)
    params.setIntegrationCovariance(np.eye(3) * 1e-8)
    params.setBiasAccCovariance(np.eye(3) * 1e-3**2)
    params.setBiasOmegaCovariance(np.eye(3) * 1e-5**2)
    near = gtsam.noiseModel.Diagonal.Sigmas(np.array(drive.kind.fixes.sigma_m or [FIX_SIGMA_M] * 3))
    robust = gtsam.noiseModel.Robust.Create(gtsam.noiseModel.mEstimator.Huber.Create(1.345), near)

    graph, values = gtsam.NonlinearFactorGraph(), gtsam.Values()
    spread = gtsam.noiseModel.Diagonal.Sigmas(np.array([0.1] * 3 + [0.01] * 3))
    graph.add(gtsam.PriorFactorConstantBias(b(0), gtsam.imuBias.ConstantBias(), spread))
    rates = (drive.rate_rad_s[1:] + drive.rate_rad_s[:-1]) / 2
    forces = (drive.force_m_s2[1:] + drive.force_m_s2[:-1]) / 2
    for node, sample in enumerate(samples.tolist()):
        values.insert(x(node), gtsam.Pose3(gtsam.Rot3(truth.rotation[sample]), truth.position_m[sample]))
        values.insert(v(node), truth.velocity_m_s[sample])
        values.insert(b(node), gtsam.imuBias.ConstantBias())
        if node in fix_of:
            graph.add(gtsam.GPSFactor(x(node), places[fix_of[node]], robust))
        if node:
            between = gtsam.PreintegratedCombinedMeasurements(params, gtsam.imuBias.ConstantBias())
            for k in range(samples[node - 1], sample):
                between.integrateMeasurement(forces[k], rates[k], 1 / IMU_HZ)
            keys = (x(node - 1), v(node - 1), x(node), v(node), b(node - 1), b(node))
            graph.add(gtsam.CombinedImuFactor(*keys, between))
    found = gtsam.LevenbergMarquardtOptimizer(graph, values).optimize()

    poses = [found.atPose3(x(node)) for node in range(len(samples))]
    speeds = np.array([found.atVector(v(node)) for node in range(len(samples))])
    nodes_s = samples / IMU_HZ
    return (
        _cubic(nodes_s, np.array([pose.translation() for pose in poses]), speeds, time_s),
        _turned(nodes_s, np.array([pose.rotation().toQuaternion().coeffs() for pose in poses]), time_s),
    )


def _nodes(fixes_s: Floats, count: int) -> tuple[Any, dict[int, int]]:
    """Samples of the IMU at nodes, and the index of the fix at those that have one."""
    least, most = NEAREST_S * IMU_HZ, FARTHEST_S * IMU_HZ
    chosen: dict[int, int] = {}
    samples = [0]
    for index, sample in enumerate(np.rint(fixes_s * IMU_HZ).astype(int).tolist()):
        if sample - max(chosen, default=-IMU_HZ) >= least and sample > 0:
            chosen[sample] = index
    for sample in [*chosen, count - 1]:
        begin = samples[-1]
        between = max(1, math.ceil((sample - begin) / most))
        samples += [begin + round((sample - begin) * part / between) for part in range(1, between + 1)]
    samples = sorted(set(samples))
    return np.array(samples), {samples.index(sample): index for sample, index in chosen.items()}


def _cubic(nodes_s: Floats, places: Floats, speeds: Floats, time_s: Floats) -> Floats:
    k = np.clip(np.searchsorted(nodes_s, time_s, side="right") - 1, 0, len(nodes_s) - 2)
    step_s = (nodes_s[k + 1] - nodes_s[k])[:, None]
    u = (time_s - nodes_s[k])[:, None] / step_s
    return np.asarray(
        (1 + 2 * u) * (1 - u) ** 2 * places[k]
        + u * (1 - u) ** 2 * step_s * speeds[k]
        + u**2 * (3 - 2 * u) * places[k + 1]
        + u**2 * (u - 1) * step_s * speeds[k + 1]
    )


def _turned(nodes_s: Floats, xyzw: Floats, time_s: Floats) -> Floats:
    """Between nodes that are at most a second apart the shortest turn, straight through the quaternions."""
    k = np.clip(np.searchsorted(nodes_s, time_s, side="right") - 1, 0, len(nodes_s) - 2)
    u = ((time_s - nodes_s[k]) / (nodes_s[k + 1] - nodes_s[k]))[:, None]
    side = np.sign(np.sum(xyzw[k] * xyzw[k + 1], axis=1))[:, None]
    mixed = (1 - u) * xyzw[k] + u * side * xyzw[k + 1]
    return rotations_of(mixed / np.linalg.norm(mixed, axis=1)[:, None])
