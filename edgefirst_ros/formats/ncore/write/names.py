"""Unique names of component instances: as configured, or the name of the coordinate frame."""

from __future__ import annotations

from collections.abc import Mapping

from edgefirst_ros.formats.ncore.extrinsics import RIG, WORLD, WORLD_GLOBAL
from edgefirst_ros.formats.ncore.prepare.parts import LONGEST_NAME, safe_instance_name
from edgefirst_ros.messages.transform import bare

_TAKEN = {RIG, WORLD, WORLD_GLOBAL}


class InstanceNames:
    """Gives every topic its instance name and remembers it from one sequence to the next."""

    def __init__(self, sensor_ids: Mapping[str, str]) -> None:
        self._configured = dict(sensor_ids)
        self._names: dict[tuple[str, str], str] = {}
        self._frames: dict[str, tuple[str, str]] = {}
        self._by_cube: set[str] = set()

    def sensor(self, component: str, topic: str, frame_id: str, role_name: str) -> str:
        """Name of a sensor: configured, or its frame, or its role where it has no frame."""
        if (component, topic) not in self._names:
            wanted = self._configured.get(topic) or bare(frame_id) or role_name
            name = self.unique(wanted)
            self._names[component, topic] = name
            self._frames[name] = (component, bare(frame_id))
        return self._names[component, topic]

    def same_frame(self, component: str, frame_id: str) -> list[str]:
        """Sensors of a component that have this frame; all of them if none has it."""
        mine = {name: frame for name, (kind, frame) in self._frames.items() if kind == component}
        return [name for name, frame in mine.items() if frame and frame == bare(frame_id)] or list(mine)

    def radar(self, topic: str, frame_id: str, *, cube: bool = False) -> str:
        """Name of the radar that sends scans or cubes; those of one frame belong to the same radar."""
        if ("radars", topic) not in self._names:
            mates = self.same_frame("radars", frame_id)
            mates = mates if cube else [name for name in mates if name in self._by_cube]
            if mates and topic not in self._configured:
                self._names["radars", topic] = mates[0]
            elif cube:
                self._by_cube.add(self.sensor("radars", topic, frame_id, "radar"))
            if not cube:
                self._by_cube.discard(self._names.get(("radars", topic), ""))
        return self.sensor("radars", topic, frame_id, "radar")

    def other(self, component: str, topic: str, wanted: str) -> str:
        """Name of an instance that is not a sensor."""
        if (component, topic + wanted) not in self._names:
            self._names[component, topic + wanted] = self.unique(wanted)
        return self._names[component, topic + wanted]

    def unique(self, wanted: str) -> str:
        """The name made safe, with a number behind it if it is taken."""
        safe = safe_instance_name(wanted)
        taken = _TAKEN | set(self._names.values())
        name, number = safe, 2
        while name in taken:
            name, number = f"{safe[: LONGEST_NAME - 4]}_{number}", number + 1
        return name
