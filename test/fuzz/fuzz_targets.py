"""All fuzz targets by name; a module each, another one is a line here."""

from __future__ import annotations

import sys
from pathlib import Path

TESTS = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS / part) for part in ("video", "formats/edgefirst")]

from fuzz_bags import BAG, DB3  # noqa: E402
from fuzz_config import SET, YAML  # noqa: E402
from fuzz_containers import ARROW, ITARS, ZARR, ZIP  # noqa: E402
from fuzz_datasets import EDGEFIRST, L5KIT, NCORE  # noqa: E402
from fuzz_images import JPEG, PNG  # noqa: E402
from fuzz_json import NOTES, REPORTS, SESSIONS  # noqa: E402
from fuzz_mcap import MCAP  # noqa: E402
from fuzz_payloads import PAYLOADS  # noqa: E402
from fuzz_recordings import RECORDINGS, VALUES  # noqa: E402
from fuzz_video import H264, H265  # noqa: E402
from fuzzing import Target  # noqa: E402

_ALL = (
    PAYLOADS, MCAP, RECORDINGS, VALUES, H264, H265, JPEG, PNG, YAML, SET, EDGEFIRST, NCORE, L5KIT,
    ARROW, ZIP, ITARS, ZARR, BAG, DB3, NOTES, REPORTS, SESSIONS,
)  # fmt: skip
TARGETS: dict[str, Target] = {target.name: target for target in _ALL}
