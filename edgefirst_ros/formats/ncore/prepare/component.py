"""Custom components: data that NCore has no component for, under a reverse-domain name.

A subclass of Component says which observations it takes and which arrays they become; the writer stores
them crash-safely like everything else::

    class Velocity(Component):
        name = "com.example.velocity"

        def record(self, observation):
            if not isinstance(observation.measurement.datum, Odometry):
                return None
            return OwnRecord({"linear_m_s": np.array(observation.measurement.datum.linear_m_s)})

    NCoreWriter(root, options, components=[Velocity()])

On disk an instance is a zarr group ``<name>/<instance>`` with ``timestamps_us`` (N,) uint64 and, for each of
these times, a group ``records/<timestamp_us>`` of the arrays. Everyone's component reader finds it there::

    class Reader(ncore.data.v4.ComponentReader):
        get_component_name = staticmethod(lambda: "com.example.velocity")
        supports_component_version = staticmethod(lambda version: version == "v1")

        def linear_m_s(self, timestamp_us):
            return self._group["records"][str(timestamp_us)]["linear_m_s"][:]
"""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from edgefirst_ros.errors import ConfigError
from edgefirst_ros.formats.ncore.prepare.parts import COMPRESSOR, ComponentEntry
from edgefirst_ros.formats.zarr2.array import array_records
from edgefirst_ros.formats.zarr2.metadata import Record, group
from edgefirst_ros.sample import Observation

_REVERSE_DOMAIN = re.compile(r"[a-z][a-z0-9-]*(\.[A-Za-z0-9_-]+)+")


_LONGEST = 64


@dataclass(frozen=True, slots=True)
class OwnRecord:
    """What one observation becomes.

    Attributes:
        arrays: by name; any dtype but Python objects.
        attributes: JSON, beside the arrays.
        instance: which instance of the component it belongs to.
    """

    arrays: Mapping[str, npt.NDArray[Any]]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    instance: str = "default"


class Component(ABC):
    """A custom component; ``name`` is a reverse domain, ``version`` changes with its layout."""

    name: ClassVar[str]
    version: ClassVar[str] = "v1"

    @abstractmethod
    def record(self, observation: Observation) -> OwnRecord | None:
        """What to store of an observation, None for nothing; pure, called from any thread."""

    def meta(self) -> dict[str, Any]:
        """generic_meta_data of every instance."""
        return {}


def own_entry(component: Component, observation: Observation) -> ComponentEntry | None:
    """The entry that a component makes of an observation."""
    record = component.record(observation)
    if record is None:
        return None
    time_us = observation.measurement.time_ns // 1000
    records: list[Record] = group("")
    for name, array in record.arrays.items():
        records += array_records(name, np.asarray(array, order="C"), COMPRESSOR)
    return ComponentEntry(
        component=component.name,
        collection="records",
        name=record.instance,
        frame_id=observation.measurement.frame_id,
        start_us=time_us,
        end_us=time_us,
        records=tuple(records),
        attributes=dict(record.attributes),
        meta=component.meta(),
        version=component.version,
    )


def check_components(components: Sequence[Component]) -> None:
    """Check that names are reverse domains, so that they clash with no other component.

    Raises:
        ConfigError: naming every component that is not.
    """
    names = [component.name for component in components]
    faults = [
        f"component {name!r} needs a reverse-domain name such as com.example.velocity, up to {_LONGEST} long"
        for name in names
        if not _REVERSE_DOMAIN.fullmatch(name) or len(name) > _LONGEST
    ]
    faults += [f"component {name!r} is there twice" for name in sorted(set(names)) if names.count(name) > 1]
    if faults:
        raise ConfigError(faults)
