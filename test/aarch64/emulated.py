"""A Debian for arm64 in a folder, and commands in it, which the kernel hands to QEMU."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

HANDLER = Path("/proc/sys/fs/binfmt_misc/qemu-aarch64")
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
_ENTER = """
mount -t proc proc "$0/proc" && mount --rbind /dev "$0/dev" &&
exec chroot "$0" env -i PATH=/venv/bin:/usr/bin HOME=/root LANG=C.UTF-8 "$@"
"""
"""In a mount namespace of its own: nothing stays mounted, however it ends."""
_UNPACK = 'dpkg-deb --fsys-tarfile "$1" | tar --extract --keep-directory-symlink --directory "$0"'


def lacking() -> str:
    """What this machine lacks, after QEMU's handler was enabled if it is only installed; empty if nothing."""
    if platform.machine() == "aarch64":
        return "nothing to emulate: this machine is aarch64, where `make test` tests it"
    if os.geteuid() != 0:
        return "needs root, for debootstrap and chroot"
    if not HANDLER.exists() and shutil.which("update-binfmts"):
        if not (HANDLER.parent / "register").exists():
            subprocess.run(["mount", "-t", "binfmt_misc", "binfmt_misc", HANDLER.parent], check=False)
        subprocess.run(["update-binfmts", "--enable", "qemu-aarch64"], check=False)
    packages = [
        package
        for package, is_there in (
            ("debootstrap", shutil.which("debootstrap") is not None),
            ("debian-archive-keyring", KEYRING.exists()),
            ("qemu-user-static binfmt-support", HANDLER.exists()),
        )
        if not is_there
    ]
    return f"apt-get install {' '.join(packages)}" if packages else ""


def make_root(root: Path, suite: str, mirror: str) -> None:
    """Unpack a Debian with Python; without a mirror, from debootstrap's own.

    Its second stage would run every package's scripts, for minutes under emulation; Python runs without.
    """
    made = root.with_name(f"{root.name}.part")
    shutil.rmtree(made, ignore_errors=True)
    options = ["--foreign", "--arch=arm64", "--variant=minbase", "--include=python3-venv,tzdata"]
    subprocess.run(["debootstrap", *options, suite, made, *([mirror] if mirror else [])], check=True)
    for package in sorted((made / "var/cache/apt/archives").glob("*.deb")):
        subprocess.run(["sh", "-ec", _UNPACK, made, package], check=True)
        package.unlink()
    shutil.copy(made / "usr/share/base-passwd/passwd.master", made / "etc/passwd")
    if (made / "proc").is_symlink():  # to itself, from inside: what debootstrap leaves in a container
        (made / "proc").unlink()
        (made / "proc").mkdir()
    made.rename(root)


def inside(root: Path, *words: str | Path) -> list[str]:
    """The words of a command that runs in the root, as the process that is started."""
    return ["unshare", "--mount", "--propagation", "private", "sh", "-c", _ENTER, *map(str, (root, *words))]


def fetch_wheels(root: Path, python: Sequence[str], constraints: Path, wanted: Sequence[str]) -> None:
    """Download wheels for the root's Python with this machine's pip, as it is set up; nothing is built."""
    told = "import platform, sys; print(*sys.version_info[:2], platform.libc_ver()[1].split('.')[1])"
    said = subprocess.run(inside(root, "python3", "-c", told), check=True, capture_output=True, text=True)
    major, minor, glibc = said.stdout.split()
    tags = [f"--platform=manylinux_2_{n}_aarch64" for n in range(17, int(glibc) + 1)]
    abis = [f"--abi=cp{major}{minor}", "--abi=abi3", "--abi=none"]
    of = [
        "--implementation=cp",
        f"--python-version={major}.{minor}",
        *abis,
        "--platform=manylinux2014_aarch64",
    ]
    folder = ["--dest", root / "wheels", "--constraint", constraints]
    subprocess.run(
        [*python, "download", "--quiet", "--only-binary=:all:", *of, *tags, *folder, *wanted], check=True
    )
