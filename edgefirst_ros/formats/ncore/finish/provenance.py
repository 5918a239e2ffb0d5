"""Where a sequence comes from and what carried its sensors, under the names that NVIDIA's converters use.

Those of Waymo and PAI write them, and NuRec, stereo matching and simulators look for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import permutations

import numpy as np

from edgefirst_ros.formats.ncore.finish.facts import Facts
from edgefirst_ros.formats.ncore.poses import REAR_AXLE, TransformRow, frames_in_rig, inverse
from edgefirst_ros.formats.ncore.prepare.parts import Json
from edgefirst_ros.model.transform import bare

VEHICLE_BOX = "vehicle-bbox"
"""In the sequence's metadata: a box in the rig's frame, as NVIDIA's exporters read it."""
STEREO_PAIRS = "stereo_pairs"
RIG_ORIGIN = "rig_origin"
"""In the poses' metadata: where the rig's origin is, by the configuration."""
AT_REAR_AXLE = "middle of the rear axle on the ground"

_OVERHANG = 0.2
"""Of cars' lengths what is behind the rear axle: 0.18 to 0.22 of usual ones."""
_SAME_BASELINE = 0.1
"""How well a CameraInfo's baseline fits the way between two mounts: a tenth, for calibrations differ."""


def rear_axle_m(facts: Facts) -> tuple[float, ...] | None:
    """Where the rig's origin goes in the frame that is located; None: it is that frame's."""
    found = facts.sequence.get("vehicle", {}).get("rear_axle_m")
    return None if found is None else tuple(found)


def placed_rig(facts: Facts) -> tuple[Iterable[TransformRow], str]:
    """Transforms and the rig's frame.

    NCore's rig has its origin at the middle of the rear axle on the ground, and so have the readers' box of
    the vehicle and the distance within which cuboids are taken for it. Where the configuration says where
    that is, the rig is a frame of its own there, and the robot's base one like any other.
    """
    base, rows = facts.sequence.get("rig_frame", "base_link"), facts.transforms.values()
    origin_m = rear_axle_m(facts)
    if origin_m is None:
        return rows, base
    x, y, z = origin_m
    return [*rows, (base, REAR_AXLE, (x, y, z), (0.0, 0.0, 0.0, 1.0))], REAR_AXLE


def provenance(facts: Facts, assumed: int, frames: int) -> Json:
    """What the poses say of themselves.

    Args:
        facts: the journal.
        assumed: how many frames are placed without a transform.
        frames: how many there are.
    """
    kinds = {series.kind for series in facts.series.values()}
    if not facts.pose_times_us or facts.rig_poses().is_unknown:
        motion = "assumed"
    elif facts.origin is None:
        motion = "odometry"
    else:
        motion = "gnss-imu" if "imu" in kinds else "gnss"
    calibration = "transforms" if not assumed else "assumed" if assumed == frames else "transforms-assumed"
    meta: Json = {
        "calibration_type": f"edgefirst_ros:{calibration}",
        "egomotion_type": f"edgefirst_ros:{motion}",
    }
    if rear_axle_m(facts) is not None:
        meta[RIG_ORIGIN] = AT_REAR_AXLE
    return meta


def sequence_meta(facts: Facts, cameras: Sequence[str]) -> Json:
    """The generic_meta_data that all stores of a sequence share."""
    told = facts.sequence
    meta: Json = {key: told[key] for key in ("host", "name", "part") if key in told}
    meta |= {"converter": "edgefirst_ros", "source": "simulation" if facts.is_simulated else "real"}
    meta |= {key: told[key] for key in ("converter_version", "pictures")}
    vehicle = told["vehicle"]
    if platform := vehicle.get("platform"):
        meta["platform_class"] = platform
    if "length_m" in vehicle:
        length, width, height = (float(vehicle[f"{side}_m"]) for side in ("length", "width", "height"))
        overhang = float(vehicle.get("rear_overhang_m", _OVERHANG * length))
        centroid = [length / 2 - overhang, 0.0, height / 2]
        meta[VEHICLE_BOX] = {"centroid": centroid, "dim": [length, width, height], "rot": [0.0, 0.0, 0.0]}
        assumed = [name for name in ("rear_axle_m", "rear_overhang_m") if name not in vehicle]
        if assumed:
            meta["vehicle_assumed"] = assumed
    if pairs := [*_side_by_side(facts, cameras)]:
        meta[STEREO_PAIRS] = [{"left": left, "right": right} for left, right in pairs]
    return meta


def _side_by_side(facts: Facts, cameras: Sequence[str]) -> Iterator[tuple[str, str]]:
    """Left and right cameras of which the right one's CameraInfo says how far it is from the left one.

    ROS leaves open which that is: it counts if a camera of the same size is just there.
    """
    frames = frames_in_rig(*placed_rig(facts))
    for left, right in permutations(cameras, 2):
        infos = [facts.camera_info.get(name, {}) for name in (left, right)]
        baseline_m = infos[1].get("baseline_m", 0.0)
        names = [bare(facts.instances["cameras", name].get("frame_id", "")) for name in (left, right)]
        is_pair = baseline_m > 0 and "baseline_m" not in infos[0] and infos[0].get("size") == infos[1]["size"]
        if is_pair and names[0] != names[1] and frames.keys() >= {*names}:
            between_m = (inverse(frames[names[0]]) @ frames[names[1]])[:3, 3]
            if np.abs(between_m - [baseline_m, 0.0, 0.0]).max() <= _SAME_BASELINE * baseline_m:
                yield left, right
