"""Where the repository is, and what is kept beside it."""

from __future__ import annotations

import importlib.util
import os
import sys
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from types import ModuleType

REPOSITORY = Path(__file__).resolve().parent.parent
MORE_RECORDINGS = sorted(Path(os.environ.get("EDGEFIRST_SHARED", os.devnull), "data").glob("*.mcap"))
"""Of a device, each with its truth beside it, for the tests that otherwise have a simulated one only."""


def tool(name: str) -> ModuleType:
    """A module of docs/tools, which is no package."""
    spec = importlib.util.spec_from_file_location(name, REPOSITORY / "docs" / "tools" / f"{name}.py")
    if spec is None or spec.loader is None:
        raise FileNotFoundError(name)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # where dataclasses look
    spec.loader.exec_module(module)
    return module


class Content(bytes):
    """A file's; where two differ, pytest shows which, and not megabytes of what they hold."""

    def __repr__(self) -> str:
        return f"<{len(self)} bytes, sha256 {sha256(self).hexdigest()[:12]}>"


def identity(of: Path | int) -> tuple[int, int]:
    """Device and inode of a path or a descriptor."""
    state = os.fstat(of) if isinstance(of, int) else of.stat()
    return state.st_dev, state.st_ino


def opened() -> list[tuple[int, int]]:
    """The identity of each descriptor of this process; other threads may open and close theirs meanwhile."""
    found = []
    for path in Path("/proc/self/fd").iterdir():
        with suppress(OSError):
            found.append(identity(int(path.name)))
    return found


def contents(folder: Path, *without: str) -> dict[str, bytes]:
    """All files below a folder by their paths in it, but those whose names end so."""
    paths = (path for path in sorted(folder.rglob("*")) if path.is_file() and not path.name.endswith(without))
    return {path.relative_to(folder).as_posix(): Content(path.read_bytes()) for path in paths}
