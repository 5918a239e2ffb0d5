"""Whether the trials see every call that changes something: the same conversion under strace."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from syscalls import RULES, Target

OTHERS = (
    "openat2,mknod,mknodat,splice,vmsplice,preadv,mmap,msync,ioctl,io_uring_enter,io_submit,"
    "setxattr,fsetxattr,lsetxattr,removexattr,fremovexattr,lremovexattr"
)
"""Calls that could change something, too, and that the trials do not stop at."""
_LINE = re.compile(r"\d+ +(?P<name>\w+)\((?P<arguments>.*)")
_HARMLESS = re.compile(
    r"mmap\((?!.*PROT_WRITE.*MAP_SHARED)|ioctl\(\d+<.*>(\(deleted\))?, (TCGETS|FIOCLEX)|preadv\("
)


def lacking() -> str:
    """What this machine lacks for it."""
    return "" if shutil.which("strace") else "kills: apt-get install strace\n"


def difference(seen: Counter[str], arguments: Sequence[str | Path], output: Path) -> str:
    """How the calls that the command makes below a folder differ from those seen by name; empty if not."""
    calls = ",".join(f"?{call}" for call in (*RULES, *OTHERS.split(",")))
    command = [sys.executable, "-m", "edgefirst_ros", *map(str, arguments)]
    log = output.with_suffix(".strace")
    done = subprocess.run(
        ["strace", "-f", "-y", "-qq", "-o", log, "-e", f"trace={calls}", *command],
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        return f"ends with {done.returncode} under strace: {done.stderr[-200:]}"
    counts, others = _counted(log.read_text(errors="replace").splitlines(), str(output))
    # Folders are made by whoever comes first, and then again in vain; the group commit syncs by the clock.
    other = {"mkdir", "fsync", "fdatasync", "syncfs"}
    different = sorted(call for call in {*seen, *counts} - other if seen[call] != counts[call])
    fault = "; ".join(f"{call}: {seen[call]} seen, {counts[call]} by strace" for call in different)
    return fault or (f"a call that no trial stops at: {others[0]}" if others else "")


def _counted(lines: list[str], root: str) -> tuple[Counter[str], list[str]]:
    """Calls that change something below a folder, by name, and those that the trials do not know."""
    counts: Counter[str] = Counter()
    others = []
    for line in lines:
        match = _LINE.match(line)
        if match is None or root not in line:
            continue
        name, arguments = match["name"], match["arguments"]
        if name not in RULES:
            if not _HARMLESS.search(line):
                others.append(line[:200])
        elif RULES[name].target is not Target.OPEN or re.search(r"O_CREAT|O_TRUNC|O_TMPFILE", arguments):
            counts[name] += 1
    return counts, others
