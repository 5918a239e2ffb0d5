"""Entry point of the command; imports little, so that it can be interrupted while the rest is imported."""

from __future__ import annotations

import os
import sys

from edgefirst_ros.cli import importing, lastresort

EXIT_INTERRUPTED = 130


def main() -> None:
    """Run the command ``edgefirst-ros``."""
    lastresort.open_streams()
    # Starting BLAS's threads takes longer than anything that the package has them compute.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        lastresort.watch_threads()
        with importing():
            from edgefirst_ros.cli.app import app as command  # noqa: PLC0415 - takes a moment
        try:
            command()
        except SystemExit as end:
            sys.exit(lastresort.settle(end.code, sys.argv))
    except (KeyboardInterrupt, Exception) as error:
        if lastresort.is_interruption(error):
            sys.stderr.write("interrupted\n")
            sys.exit(EXIT_INTERRUPTED)
        if os.environ.get(lastresort.DEBUG):
            raise
        sys.exit(lastresort.tell(error, sys.argv))


if __name__ == "__main__":
    main()
