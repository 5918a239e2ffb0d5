"""The forward pass: filter and gate together, one step after another."""

from __future__ import annotations

from dataclasses import dataclass

from edgefirst_ros.ego.filter import Filter, Noise, Start
from edgefirst_ros.ego.gate import Gate, Place
from edgefirst_ros.ego.inertia import Step
from edgefirst_ros.ego.state import Node


@dataclass(frozen=True, slots=True)
class Vehicle:
    """What is known of the vehicle and its sensors beforehand.

    Attributes:
        rolls: it moves where it points, neither sideways nor up.
        max_gap_ns: after so long without a fix the motion is doubted sooner.
        fix_sigma_m: noise of fixes that tell none; learnt where 0.
    """

    rolls: bool = True
    max_gap_ns: int = 5_000_000_000
    fix_sigma_m: float = 0.0


class Forward:
    """Nodes from steps, and verdicts on fixes."""

    def __init__(self, gravity_m_s2: float, vehicle: Vehicle) -> None:
        self.filter = Filter(gravity_m_s2, Noise())
        self.gate = Gate(vehicle.max_gap_ns, fixed_m=vehicle.fix_sigma_m)

    def begin(self, step: Step, start: Start) -> Node:
        """The first node, at the end of a step."""
        return self.filter.begin(step, start)

    def advance(self, step: Step, place: Place | None) -> tuple[Node, bool]:
        """The node after a step, and whether the fix at its end, if there is one, is believed."""
        node = self.filter.predict(step)
        believed = place is not None and self.gate.take(self.filter, place)
        self.filter.constrain(step)
        return node, believed
