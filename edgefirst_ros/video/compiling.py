"""Whether H.265 can be judged here; what that takes is compiled before a live stream needs it.

That is done once for each machine, in a process of its own: in ours it would hold the interpreter's lock for
much of some 20 s, while messages come. What the process has compiled is taken from numba's cache, on disk.
"""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import cache
from importlib.util import find_spec

COMMAND = (sys.executable, "-m", "edgefirst_ros.video.compiling")
TOLD_AFTER_S = 5.0
"""What is in the cache is found sooner."""
PATIENCE_S = 600.0
NICENESS = 10
COMPILING = (
    "compiling the check of H.265 pictures, once for this machine; H.265 that comes meanwhile waits for it"
)
COMPILED = "the check of H.265 pictures is compiled"

UNJUDGED = (
    "H.265 that is damaged in place is not found and becomes ruined pictures: numba, which that needs, "
    "is not installed (pip install numba)"
)

_lock = threading.Lock()
_done: threading.Event | None = None


@cache
def judges_h265() -> bool:
    """Whether H.265 can be told from what was damaged in place: numba has no wheel for every machine."""
    return find_spec("numba") is not None


def compile_ahead(
    tell: Callable[[str], None], *, command: Sequence[str] = COMMAND, told_after_s: float = TOLD_AFTER_S
) -> None:
    """Begin to compile, unless that was begun before; returns at once, whatever comes of it.

    Args:
        tell: is told, from another thread, that it takes its time, and when it is over.
        command: what compiles.
        told_after_s: nothing is told of what takes no longer.
    """
    global _done  # noqa: PLW0603 - one cache a machine, one process that fills it
    with _lock:
        if _done is not None or not judges_h265():
            return
        _done = threading.Event()
    threading.Thread(
        target=_compile, args=(tell, command, told_after_s, _done), name="h265-compile", daemon=True
    ).start()


def may_be_h265(topic: str, kind: str) -> bool:
    """Whether a topic of a camera, by its name and type, can carry H.265."""
    if any(codec in topic.lower() for codec in ("265", "hevc")):
        return True
    return kind.endswith(("/CompressedVideo", "/FFMPEGPacket")) and "264" not in topic


def wait_compiled(timeout_s: float = PATIENCE_S) -> bool:
    """Wait for what was begun; whether it is over."""
    return _done is None or _done.wait(timeout_s)


def _compile(
    tell: Callable[[str], None], command: Sequence[str], told_after_s: float, done: threading.Event
) -> None:
    silent = subprocess.DEVNULL
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    try:
        with subprocess.Popen(
            command, stdin=silent, stdout=silent, stderr=silent, env=environment
        ) as process:
            with suppress(subprocess.TimeoutExpired):
                process.wait(told_after_s)
                return
            tell(COMPILING)
            if process.wait() == 0:
                tell(COMPILED)
    except OSError:
        pass  # then it is compiled when the first picture comes
    finally:
        done.set()


def main() -> None:
    """Compile, or find it compiled."""
    with suppress(OSError):
        os.nice(NICENESS)
    from edgefirst_ros.video.intact import compile_parser  # noqa: PLC0415 - only this process pays for it

    compile_parser()


if __name__ == "__main__":
    main()
