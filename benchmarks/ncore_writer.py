"""Our NCore writer against nvidia-ncore's, on the same frames, in the same run.

    python benchmarks/ncore_writer.py [--sets N] [--repeat N] [--store itar|directory] [--python PYTHON]

A set is a 200 kB JPEG, a lidar sweep of 60 000 points and a radar scan of 200. Both writers get the same
frames, write one sequence, finish it and write its meta file, which has the MD5 of the stores. Each runs in
a process of its own, so that peak memory is its own; they take turns, and the best of each counts. Ours runs
in one thread, as theirs does (both compute some more in others: ours MD5, theirs Blosc), and with two
threads that prepare, as the pipeline has it. The floor is what no writer of such files does without: Blosc,
MD5 and the writes, in one thread. Ours waits for the disk at the end, theirs does not. PYTHON is an
interpreter with nvidia-ncore, by default the one that EDGEFIRST_NCORE_PYTHON names. TMPDIR says where to
write.

What counts is all of it, the meta file too: ours hashes while it writes, theirs afterwards. The ratio of CPU
time bears a busy machine, that of sets a second does not.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).resolve().parent
TARGET = 2.5
"""By CPU of all; the floor is at 5.4."""


def run(command: list[str], folder: Path) -> dict[str, float]:
    """One run of one writer in its own process."""
    shutil.rmtree(folder, ignore_errors=True)
    done = subprocess.run([*command, str(folder)], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{done.stderr}")
    result: dict[str, float] = json.loads(done.stdout)
    result["MB"] = sum(f.stat().st_size for f in folder.rglob("*") if f.is_file()) / 1e6
    shutil.rmtree(folder)
    return result


def main() -> int:
    """Print a table; 1 if the target is missed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", type=int, default=300)
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--store", choices=("itar", "directory"), default="itar")
    parser.add_argument("--python", default=os.environ.get("EDGEFIRST_NCORE_PYTHON"))
    args = parser.parse_args()
    if not args.python:
        parser.error("no interpreter with nvidia-ncore: give --python or set EDGEFIRST_NCORE_PYTHON")
    writers = {
        "nvidia-ncore": [args.python, str(HERE / "ncore_writer_theirs.py")],
        "edgefirst_ros": [sys.executable, str(HERE / "ncore_writer_ours.py"), "1"],
        "edgefirst_ros, 2 threads": [sys.executable, str(HERE / "ncore_writer_ours.py"), "2"],
        "floor": [sys.executable, str(HERE / "ncore_writer_ours.py"), "0"],
    }
    runs: dict[str, list[dict[str, float]]] = {name: [] for name in writers}
    with tempfile.TemporaryDirectory(dir=os.environ.get("TMPDIR")) as folder:
        for _ in range(args.repeat):
            for name, command in writers.items():
                runs[name].append(run([*command, str(args.sets), args.store], Path(folder) / "out"))
    print(f"{args.sets} sets, store {args.store}, best of {args.repeat}")
    print("| writer | sets/s | sets/s with meta file | CPU ms a set, all | peak memory MB | written MB |")
    print("|---|---|---|---|---|---|")
    best = {}
    for name, results in runs.items():
        least = {key: min(result[key] for result in results) for key in results[0]}
        best[name] = least
        rates = args.sets / least["write_s"], args.sets / (least["write_s"] + least["meta_s"])
        cpu_ms = least["cpu_s"] / args.sets * 1000
        sizes = f"{least['peak_mb']:.0f} | {least['MB']:.0f}"
        print(f"| {name} | {rates[0]:.0f} | {rates[1]:.0f} | {cpu_ms:.2f} | {sizes} |")
    theirs = best.pop("nvidia-ncore")
    for name, ours in best.items():
        whole = (theirs["write_s"] + theirs["meta_s"]) / (ours["write_s"] + ours["meta_s"])
        memory = ours["peak_mb"] / theirs["peak_mb"]
        cpu, ratio = theirs["cpu_s"] / ours["cpu_s"], theirs["write_s"] / ours["write_s"]
        print(f"{name}: {ratio:.2f} times, all {whole:.2f} times, by CPU {cpu:.2f}, memory {memory:.2f}")
    ours = best["edgefirst_ros"]
    return int(theirs["cpu_s"] / ours["cpu_s"] < TARGET or ours["peak_mb"] > theirs["peak_mb"])


if __name__ == "__main__":
    sys.exit(main())
