"""A disk whose power can be cut: what was not flushed is gone. Needs root."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Self

from trials import Options

SIZE_MB = 400
PROGRAMS = {
    "nbdkit": "nbdkit",
    "nbdfuse": "libnbd-bin",
    "mkfs.ext4": "e2fsprogs",
    "e2fsck": "e2fsprogs",
    "mkfs.xfs": "xfsprogs",
    "losetup": "mount",
}
"""Programs and the packages of Debian that have them."""
_MAKE = {
    "ext4": ["mkfs.ext4", "-q", "-E", "lazy_itable_init=0,lazy_journal_init=0"],
    "xfs": ["mkfs.xfs", "-q"],
    "ext4-nojournal": ["mkfs.ext4", "-q", "-E", "lazy_itable_init=0", "-O", "^has_journal"],
}
_REPAIR = {"ext4-nojournal": ["e2fsck", "-f", "-y"]}
"""What the others do from their journals when they are mounted."""
_REPAIRED = (0, 1)
_LIMIT_S = 60.0


def lacking(_: Options) -> str:
    """What this machine lacks; empty if nothing."""
    found = []
    if os.geteuid() != 0:
        found.append("power cuts: need root")
    if not Path("/dev/fuse").exists() or not Path("/dev/loop-control").exists():
        found.append("power cuts: need /dev/fuse and /dev/loop-control")
    packages = [
        package for program, package in PROGRAMS.items() if shutil.which(program, path=_path()) is None
    ]
    if packages:
        found.append(f"power cuts: apt-get install {' '.join(dict.fromkeys(packages))}")
    return "".join(f"{line}\n" for line in found)


class CutDisk:
    """A mounted file system on a network block device that forgets what was not flushed.

    The mount is of a loop device, on a file (nbdfuse), on a cache (nbdkit). To kill the cache is a power cut:
    everything that was written and not flushed since is gone, and every further access fails.

    Args:
        folder: for its image and mount points; made, and removed at the end.
        filesystem: ext4, xfs or ext4-nojournal, as cards often have it.

    Attributes:
        root: where it is mounted.

    Raises:
        RuntimeError: it cannot be set up.
    """

    def __init__(self, folder: Path, filesystem: str) -> None:
        self._folder, self._filesystem = folder, filesystem
        self.root = folder / "root"
        self._image, self._socket, self._file = folder / "image", folder / "socket", folder / "fuse" / "disk"
        self._nbdkit: subprocess.Popen[bytes] | None = None
        self._nbdfuse: subprocess.Popen[bytes] | None = None
        self._loop = ""

    def __enter__(self) -> Self:
        self.root.mkdir(parents=True)
        self._file.parent.mkdir()
        with self._image.open("wb") as image:
            image.truncate(SIZE_MB << 20)
        try:
            self._attach()
            _run(*_MAKE[self._filesystem], self._loop)
            self._mount()
            _run("sync", "-f", self.root)
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._detach()
        shutil.rmtree(self._folder, ignore_errors=True)

    def cut(self) -> None:
        """Cut the power. Whoever writes gets errors; ``restart`` brings it back."""
        if self._nbdkit is not None:
            self._nbdkit.kill()
            self._nbdkit.wait()

    def restart(self) -> None:
        """Bring back what the disk had; the file system is repaired, from its journal if it has one.

        Raises:
            RuntimeError: it cannot.
        """
        self.cut()
        self._detach()
        self._attach()
        if repair := _REPAIR.get(self._filesystem):
            _run(*repair, self._loop, codes=_REPAIRED)
        self._mount()

    def _mount(self) -> None:
        _run("mount", "-t", self._filesystem.partition("-")[0], self._loop, self.root)

    def _attach(self) -> None:
        quiet = subprocess.DEVNULL
        self._socket.unlink(missing_ok=True)
        command = ["nbdkit", "-f", "-U", str(self._socket), "--filter=cache", "file", str(self._image)]
        # The cache is an unlinked file, which ends with the process.
        self._nbdkit = subprocess.Popen([*command, "cache=writeback"], stdin=quiet, stderr=quiet)
        _until(self._socket.exists, "nbdkit")
        _until(self._is_there, "nbdfuse")
        self._loop = _run("losetup", "--find", "--show", self._file).strip()

    def _is_there(self) -> bool:
        """Whether the file is; tries again, as the socket is there before anyone listens."""
        if self._nbdfuse is None or self._nbdfuse.poll() is not None:
            command = ["nbdfuse", str(self._file), "--unix", str(self._socket)]
            quiet = subprocess.DEVNULL
            self._nbdfuse = subprocess.Popen(command, stdin=quiet, stderr=quiet)
        return self._file.exists()

    def _detach(self) -> None:
        """Let go of everything, whatever state it is in."""
        _unmount(self.root)
        if self._loop:
            _try("losetup", "--detach", self._loop)
            self._loop = ""
        _unmount(self._file.parent)
        for process in (self._nbdfuse, self._nbdkit):
            if process is not None:
                with suppress(ProcessLookupError):
                    process.send_signal(signal.SIGTERM)
                with suppress(subprocess.TimeoutExpired):
                    process.wait(5)
                process.kill()
                process.wait()
        self._nbdkit = self._nbdfuse = None


def _run(*command: str | Path, codes: Collection[int] = (0,)) -> str:
    done = subprocess.run(
        [*map(str, command)],
        capture_output=True,
        text=True,
        check=False,
        timeout=_LIMIT_S,
        env=_environment(),
    )
    if done.returncode not in codes:
        raise RuntimeError(f"{' '.join(map(str, command))}: {done.stderr.strip() or done.returncode}")
    return done.stdout


def _unmount(folder: Path) -> None:
    for options in ((), ("--lazy",)):
        # Where the disk fails, asking the folder itself fails, too.
        mounts = Path("/proc/self/mounts").read_text(encoding="utf-8").splitlines()
        if str(folder) in {line.split(" ")[1] for line in mounts}:
            _try("umount", *options, folder)


def _try(*command: str | Path) -> None:
    with suppress(RuntimeError, subprocess.TimeoutExpired):
        _run(*command)


def _until(condition: Callable[[], bool], what: str) -> None:
    end_s = time.monotonic() + _LIMIT_S
    while not condition():
        if time.monotonic() > end_s:
            raise RuntimeError(f"{what} did not start")
        time.sleep(0.01)


def _path() -> str:
    return f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin"


def _environment() -> dict[str, str]:
    return {**os.environ, "PATH": _path()}
