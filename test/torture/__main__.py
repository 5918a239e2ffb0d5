"""``make torture``: what survives kills, power cuts, errors and full disks. Exits with 1 if not all does."""

from __future__ import annotations

import argparse
import importlib
import os
import shutil
import signal
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent), str(HERE.parent / "formats/ncore")]
# Threads of numeric libraries do not survive a fork, and there is nothing here for them to do.
os.environ |= {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}

from scenarios import FORMATS, import_everything  # noqa: E402
from trials import Options, Table, say  # noqa: E402

PARTS = {"a": "killing", "b": "powercut", "c": "failing", "d": "fulldisk"}


def main() -> int:
    """Run the parts; 1 if anything failed, 2 if something that it takes is lacking."""
    given = _arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # unmount before
    with tempfile.TemporaryDirectory(prefix="torture-") as folder:
        options = Options(
            Path(folder).resolve(),
            given.formats.split(","),
            given.scenarios.split(",") if given.scenarios else (),
            given.only,
            given.jobs,
            given.seed,
            given.most,
            given.cuts,
            given.filesystems.split(","),
            strace=not given.no_strace,
        )
        parts = {name: importlib.import_module(PARTS[name]) for name in given.parts.split(",")}
        if lacking := "".join(dict.fromkeys(part.lacking(options) for part in parts.values())):
            say(lacking)
            return 2
        import_everything(options.work)
        table = Table()
        try:
            for part in parts.values():
                part.run_part(options, table)
        finally:
            text = table.text(f"make torture SEED={given.seed}")
            say(text)
            if given.output:
                given.output.write_text(f"{text}\n")
            shutil.rmtree(options.work, ignore_errors=True)
    if not table.results:
        say("nothing was tried: no trial has such a name")
        return 2
    return 1 if table.failed else 0


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--parts", default=",".join(PARTS), help="a: kills, b: power cuts, c: errors, d: full disks"
    )
    parser.add_argument("--formats", default=",".join(FORMATS))
    parser.add_argument("--scenarios", default="", help="names of conversions, as the table shows them")
    parser.add_argument(
        "--no-strace", action="store_true", help="do not look for calls that no trial stops at"
    )
    parser.add_argument("--only", default="", help="pattern of trial names, as the table shows them")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--most", type=int, default=300, help="crash points of one command; 0: all")
    parser.add_argument(
        "--cuts", type=int, default=20, help="power cuts of a live capture on each file system"
    )
    parser.add_argument("--filesystems", default="ext4,xfs,ext4-nojournal")
    parser.add_argument("--output", type=Path, help="also write the table to this file")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
