"""Envelopes of made-up messages, and a writer that keeps what it is given."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np

from edgefirst_ros.config.model import Config
from edgefirst_ros.config.topics import Route
from edgefirst_ros.formats.format import Written
from edgefirst_ros.model.cdr import Stamped
from edgefirst_ros.model.pointcloud import PointCloud
from edgefirst_ros.model.sample import Datum, Sample, SequenceInfo
from edgefirst_ros.pipeline.envelope import Envelope
from edgefirst_ros.pipeline.ledger import Ledger

MS = 1_000_000
START_NS = 1_777_626_000_000_000_000
INFO = SequenceInfo("host_2026", "host", START_NS)
CLOUD = PointCloud(np.zeros(1, [("x", np.float32)]), 1, 1)


class Post:
    """Makes placed envelopes, in order of arrival, whose tickets are of one ledger."""

    def __init__(self, config: Config) -> None:
        self.ledger = Ledger()
        self._config = config
        self._arrival = 0

    def envelope(self, name: str, at_ms: float, datum: Datum = CLOUD) -> Envelope:
        """A message of a configured topic, ``at_ms`` after the start, received at once."""
        rule = self._config.topics[name]
        topic, time_ns = f"/{rule.topic}", START_NS + round(at_ms * MS)
        ticket = self.ledger.receive(topic, "some/msg/Type", 1)
        self._arrival += 1
        envelope = Envelope(
            topic,
            time_ns,
            time_ns,
            time_ns,
            self._arrival,
            (1, self._arrival),
            Stamped(time_ns, "frame", datum),
            ticket,
            Route(topic, name, rule),
        )
        envelope.place(time_ns)
        return envelope


class Keeper:
    """A format of samples that keeps them; ``left_out`` may say what becomes of one instead."""

    unit = "samples"
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    def __init__(
        self, name: str = "keeper", left_out: Callable[[Sample], Written | None] = lambda _: None
    ) -> None:
        self.name = name
        self.samples: list[Sample] = []
        self.begun: list[SequenceInfo] = []
        self._left_out = left_out

    def begin(self, sequence: SequenceInfo) -> None:
        self.begun.append(sequence)

    def prepare(self, sample: Sample) -> Sample:
        return sample

    def write(self, prepared: Sample) -> Written:
        written = self._left_out(prepared)
        if written is not None:
            return written
        self.samples.append(prepared)
        return Written({each.topic: 1 for each in prepared.companions.values()}, bytes=1)

    def close(self) -> list[Path]:
        return []

    def abort(self) -> None:
        pass


def times_ms(envelopes: Iterable[Envelope]) -> list[float]:
    """Milliseconds after the start."""
    return [(each.time_ns - START_NS) / MS for each in envelopes]
