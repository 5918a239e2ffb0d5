"""Class names of detectors to kinds of objects, and the sizes of each kind."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

Size = tuple[float, float, float]
"""Length, width, height in metres."""


class Kind(StrEnum):
    """Kinds of objects on and beside a road."""

    UNKNOWN = "UNKNOWN"
    CAR = "CAR"
    VAN = "VAN"
    TRAM = "TRAM"
    BUS = "BUS"
    TRUCK = "TRUCK"
    EMERGENCY_VEHICLE = "EMERGENCY_VEHICLE"
    OTHER_VEHICLE = "OTHER_VEHICLE"
    BICYCLE = "BICYCLE"
    MOTORCYCLE = "MOTORCYCLE"
    CYCLIST = "CYCLIST"
    MOTORCYCLIST = "MOTORCYCLIST"
    PEDESTRIAN = "PEDESTRIAN"
    ANIMAL = "ANIMAL"


@dataclass(frozen=True, slots=True)
class Prior:
    """How large objects of a kind are: typically, at least and at most."""

    typical_m: Size
    least_m: Size
    most_m: Size

    def around(self, typical_m: Size) -> Prior:
        """With another typical size, the range widened to 0.7 and 1.4 times that where it is narrower."""
        least, most = (
            tuple(pick(bound, share * size) for bound, size in zip(bounds, typical_m, strict=True))
            for pick, share, bounds in ((min, 0.7, self.least_m), (max, 1.4, self.most_m))
        )
        return Prior(typical_m, (least[0], least[1], least[2]), (most[0], most[1], most[2]))


PRIORS: Mapping[Kind, Prior] = {
    Kind.UNKNOWN: Prior((1.0, 1.0, 1.0), (0.1, 0.1, 0.1), (60.0, 60.0, 10.0)),
    Kind.CAR: Prior((4.5, 1.8, 1.5), (2.5, 1.4, 1.1), (6.0, 2.3, 2.3)),
    Kind.VAN: Prior((5.2, 2.0, 2.0), (3.8, 1.6, 1.5), (7.5, 2.5, 3.2)),
    Kind.TRAM: Prior((30.0, 2.6, 3.6), (10.0, 2.1, 2.8), (60.0, 3.2, 4.6)),
    Kind.BUS: Prior((11.0, 2.5, 3.2), (5.5, 1.9, 2.2), (25.0, 2.9, 4.6)),
    Kind.TRUCK: Prior((8.0, 2.5, 3.2), (4.5, 1.7, 1.6), (22.0, 3.0, 4.6)),
    Kind.EMERGENCY_VEHICLE: Prior((6.0, 2.2, 2.6), (4.0, 1.7, 1.3), (13.0, 2.9, 4.2)),
    Kind.OTHER_VEHICLE: Prior((4.5, 1.8, 1.8), (1.0, 0.7, 0.7), (16.0, 4.5, 4.5)),
    Kind.BICYCLE: Prior((1.8, 0.6, 1.2), (1.0, 0.3, 0.7), (2.3, 1.0, 2.1)),
    Kind.MOTORCYCLE: Prior((2.1, 0.8, 1.3), (1.3, 0.4, 0.8), (3.0, 1.4, 2.1)),
    Kind.CYCLIST: Prior((1.8, 0.6, 1.7), (1.0, 0.3, 1.1), (2.3, 1.1, 2.2)),
    Kind.MOTORCYCLIST: Prior((2.1, 0.8, 1.7), (1.3, 0.4, 1.1), (3.0, 1.4, 2.2)),
    Kind.PEDESTRIAN: Prior((0.5, 0.6, 1.75), (0.2, 0.2, 0.6), (1.2, 1.2, 2.3)),
    Kind.ANIMAL: Prior((1.0, 0.4, 0.7), (0.1, 0.1, 0.1), (5.0, 2.0, 4.0)),
}
"""Common vehicles by makers' data sheets and the limits of road traffic law, rounded outwards."""

_ANIMALS = ("animal", "bird", "cat", "dog", "horse", "sheep", "cow", "elephant", "bear", "zebra", "giraffe")

KINDS: Mapping[str, Kind] = {
    **dict.fromkeys(("car", "automobile", "suv", "taxi", "sedan", "vehicle"), Kind.CAR),
    **dict.fromkeys(("van", "minivan"), Kind.VAN),
    **dict.fromkeys(("tram", "train", "streetcar"), Kind.TRAM),
    **dict.fromkeys(("bus", "coach"), Kind.BUS),
    **dict.fromkeys(("truck", "lorry", "pickup"), Kind.TRUCK),
    **dict.fromkeys(("ambulance", "fire truck", "police car"), Kind.EMERGENCY_VEHICLE),
    **dict.fromkeys(("tractor", "trailer", "forklift", "golf cart", "boat"), Kind.OTHER_VEHICLE),
    **dict.fromkeys(("bicycle", "bike"), Kind.BICYCLE),
    **dict.fromkeys(("motorcycle", "motorbike", "scooter"), Kind.MOTORCYCLE),
    **dict.fromkeys(("cyclist", "rider"), Kind.CYCLIST),
    "motorcyclist": Kind.MOTORCYCLIST,
    **dict.fromkeys(("person", "pedestrian", "people", "human", "child"), Kind.PEDESTRIAN),
    **dict.fromkeys(_ANIMALS, Kind.ANIMAL),
}
"""Class names of COCO and of common road datasets by ``class_key``; any other name is UNKNOWN."""

_SEPARATORS = re.compile(r"[\s_\-]+")


def class_key(name: str) -> str:
    """A class name as the mappings spell it: lower case, words separated by one space."""
    return _SEPARATORS.sub(" ", name).strip().lower()


def kind_of(name: str) -> Kind:
    """The kind of object that a class name stands for; UNKNOWN if the name is not known."""
    return KINDS.get(class_key(name), Kind.UNKNOWN)
