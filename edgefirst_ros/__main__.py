"""Entry point of the command: light, so that an interruption finds it before everything is imported."""

from __future__ import annotations

import sys

EXIT_INTERRUPTED = 130


def main() -> None:
    """Run edgefirst-ros."""
    try:
        from edgefirst_ros.cli.app import main as command  # noqa: PLC0415 - takes a moment

        command()
    except KeyboardInterrupt:
        sys.stderr.write("interrupted\n")
        sys.exit(EXIT_INTERRUPTED)


if __name__ == "__main__":
    main()
