"""A radar's tracks as messages: cars that drive past a rig that drives a circle itself."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any
from uuid import UUID

import numpy as np
from ncoremade import CALIBRATION, START_NS, camera, observation, pose
from valid_messages import HEADER
from wire_encoder import encode

from edgefirst_ros.formats.ncore.poses import inverse, matrix
from edgefirst_ros.model.radar import decode_radar_tracks, radar_cloud
from edgefirst_ros.model.sample import EgoPose, Observation, Role
from edgefirst_ros.model.transform import Transform

MS = 1_000_000
REAR = Transform("base_link", "rear", (-1.0, 0.0, 0.5), (0.0, 0.0, 1.0, 0.0))
KNOWN = replace(CALIBRATION, transforms=CALIBRATION.transforms | {"rear": REAR})


@dataclass(frozen=True)
class Car:
    """What drives straight on in the world, and what the radar calls it."""

    uuid: UUID
    start_m: tuple[float, float, float]
    velocity_m_s: tuple[float, float, float]
    size_m: tuple[float, float, float]
    classification: int = 2

    def at(self, time_ns: int) -> np.ndarray:
        return np.array(self.start_m) + (time_ns - START_NS) / 1e9 * np.array(self.velocity_m_s)

    @property
    def heading_rad(self) -> float:
        return float(np.arctan2(self.velocity_m_s[1], self.velocity_m_s[0]))


ALIKE = "01020304-0000-0000-0000-00000000000"
CARS = [
    Car(UUID(f"{ALIKE}1"), (20.0, 5.0, 1.0), (8.0, 2.0, 0.0), (4.5, 1.75, 1.5)),
    Car(UUID(f"{ALIKE}2"), (30.0, -6.0, 1.0), (-9.0, 1.0, 0.0), (12.0, 2.5, 3.25), classification=32003),
]
"""They differ in the last byte alone of what the radar calls them."""


def tracks(time_ns: int, *cars: Car, frame: str = "radar", role: Role = Role.RADAR_TARGETS) -> Observation:
    """A radar_msgs/RadarTracks of cars, in the frame of the radar at this time."""
    rig, mount = pose(time_ns), KNOWN.transforms[frame]
    assert rig.position_m is not None
    assert rig.rotation_xyzw is not None
    world_radar = inverse(
        matrix(rig.position_m, rig.rotation_xyzw) @ matrix(mount.translation_m, mount.rotation_xyzw)
    )
    sent: list[dict[str, Any]] = [
        {
            "uuid": {"uuid": car.uuid.bytes},
            "position": _axes(world_radar @ [*car.at(time_ns), 1.0]),
            "velocity": _axes(world_radar[:3, :3] @ car.velocity_m_s),
            "size": _axes(car.size_m),
            "classification": car.classification,
        }
        for car in cars
    ]
    data = encode("radar_msgs/RadarTracks", {"header": HEADER, "tracks": sent})
    datum = radar_cloud(decode_radar_tracks(data).datum, {})
    return observation(role, f"/{frame}/tracks", time_ns, datum, frame, calibration=KNOWN)


def _axes(values: Any) -> dict[str, float]:  # noqa: ANN401 - of numpy or Python
    return {axis: float(value) for axis, value in zip("xyz", values, strict=False)}


def passing(*cars: Car, role: Role = Role.RADAR_TARGETS) -> list[Observation | EgoPose]:
    found: list[Observation | EgoPose] = []
    for ms in range(0, 1000, 50):
        now = START_NS + ms * MS
        found += [pose(now), camera(now, ms, calibration=KNOWN), tracks(now, *cars, role=role)]
    return found
