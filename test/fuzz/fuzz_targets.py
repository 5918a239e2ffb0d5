"""All fuzz targets by name; a module each, another one is a line here."""

from __future__ import annotations

import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS / part) for part in ("video", "formats/edgefirst")]

from fuzz_config import SET, YAML  # noqa: E402
from fuzz_datasets import EDGEFIRST, L5KIT, NCORE  # noqa: E402
from fuzz_images import JPEG, PNG  # noqa: E402
from fuzz_mcap import MCAP  # noqa: E402
from fuzz_payloads import PAYLOADS  # noqa: E402
from fuzz_recordings import RECORDINGS  # noqa: E402
from fuzz_video import H264, H265  # noqa: E402
from fuzzing import Target  # noqa: E402

_ALL = (PAYLOADS, MCAP, RECORDINGS, H264, H265, JPEG, PNG, YAML, SET, EDGEFIRST, NCORE, L5KIT)
TARGETS: dict[str, Target] = {target.name: target for target in _ALL}
