"""Kill an NCore writer at random moments and see what recovery keeps.

    python benchmarks/ncore_kill.py [--trials 20] [--seed N] [--python PYTHON]

Every trial starts a writer of all components in a process of its own, kills it with SIGKILL at a random time,
recovers, and looks for every frame, box, label, cube and raw message that had been acknowledged. With PYTHON,
an interpreter with nvidia-ncore (by default EDGEFIRST_NCORE_PYTHON), NVIDIA's reader reads everything too.
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "test" / "formats" / "ncore"))

from ncorekill import kill_trial

from edgefirst_ros.formats.datasets import check


def main() -> int:
    """Print a table; 1 if anything acknowledged was lost or does not read."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--python", default=os.environ.get("EDGEFIRST_NCORE_PYTHON"))
    args = parser.parse_args()
    dice = random.Random(args.seed)
    print("| # | store | profile | killed after s | acknowledged | lost | more | official reader |")
    print("|---|---|---|---|---|---|---|---|")
    bad = 0
    for number in range(1, args.trials + 1):
        options = {
            "store": dice.choice(["itar", "directory"]),
            "profile": dice.choice(["separate-sensors", "single"]),
            "radar_cube": True,
        }
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder) / "out"
            trial = kill_trial(root, dice.uniform(0.0, 2.0), **options)
            official = "not run"
            if args.python:
                found = check(root, official_python=Path(args.python))
                official = "reads all" if all(each.ok for each in found) else "FAILS"
        cells = [number, *list(options.values())[:2], f"{trial.after_s:.2f}", trial.acknowledged]
        print("|", " | ".join(map(str, [*cells, len(trial.lost), trial.more, official])), "|", flush=True)
        bad += bool(trial.lost or trial.errors or official == "FAILS")
    print(f"{args.trials - bad} of {args.trials} trials lost nothing that was acknowledged")
    return int(bool(bad))


if __name__ == "__main__":
    sys.exit(main())
