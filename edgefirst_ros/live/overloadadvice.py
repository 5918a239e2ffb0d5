"""What to say of a capture that sheds samples: how many of which format, why, and what would help."""

from __future__ import annotations

import os
from collections.abc import Mapping

from edgefirst_ros.config.model import Config
from edgefirst_ros.pipeline.executor import worker_count
from edgefirst_ros.pipeline.overload import Overload

BUSY = 0.8
"""Share of the cores beyond which they are taken to be fully used."""


def shed_counts(shed: Mapping[str, tuple[int, int]]) -> str:
    """Such as "ncore 300 of 900, edgefirst 12 of 900"."""
    return ", ".join(f"{name} {count:,} of {of:,}" for name, (count, of) in shed.items())


def shed_warnings(overload: Overload, config: Config) -> list[str]:
    """What formats lack for want of time, in a sentence."""
    if not overload.shed:
        return []
    keys = " (at times only key frames were decoded)" if overload.had_keyframes_only else ""
    text = (
        f"writing fell behind, so that samples were shed, evenly, to stay within overload.latency_s "
        f"{config.overload.latency_s:g}: {shed_counts(overload.shed)}{keys}; {advice(overload, config)}"
    )
    return [text]


def advice(overload: Overload, config: Config) -> str:
    """What would help, the most promising first."""
    costs = {name: cost_s for name, cost_s in overload.costs_s.items() if cost_s > 0}
    cores = os.cpu_count() or 1
    workers = worker_count(config.workers)
    found = []
    if config.workers and config.workers < cores:
        found.append(f"workers: 0 (now {config.workers} of {cores} cores)")
    if cores > 0 and os.getloadavg()[0] > BUSY * cores:
        found.append(f"a larger share of the CPU (the load is {os.getloadavg()[0]:.1f} on {cores} cores)")
    if len(config.formats) > 1 and costs:
        dear = max(costs, key=costs.__getitem__)
        listed = ", ".join(f"{name} {cost_s * 1e3:.0f} ms" for name, cost_s in sorted(costs.items()))
        found.append(f"fewer formats (a sample takes {listed}; without {dear} convert can make it later)")
    found.append("fewer samples (every_n, rate_hz or keyframes)")
    if not config.workers:
        found.append(f"more cores (there are {workers})")
    return "what would help: " + "; ".join(found)
