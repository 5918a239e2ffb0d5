"""Where the repository is, and what is kept beside it."""

from __future__ import annotations

import os
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parent.parent
SHARED = Path(os.environ.get("EDGEFIRST_SHARED", REPOSITORY.parent / "shared"))
"""The acceptance recording and the conformance checkers."""
