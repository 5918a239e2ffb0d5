"""All fuzz targets by name; a module each, another one is a line here."""

from __future__ import annotations

from fuzz_mcap import MCAP
from fuzz_payloads import PAYLOADS
from fuzz_recordings import RECORDINGS
from fuzzing import Target

TARGETS: dict[str, Target] = {target.name: target for target in (PAYLOADS, MCAP, RECORDINGS)}
