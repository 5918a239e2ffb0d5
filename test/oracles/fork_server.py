"""Runs scripts in forks of an interpreter that has imported what they need; for those of `make oracles`.

    python fork_server.py MODULE...

Each line of the input is the JSON list of a script, its arguments, and the files for its output and errors;
each is answered with the exit code. Importing NVIDIA's reader takes longer than most of what it is asked for,
and a fork is as fresh as a process of its own.
"""

from __future__ import annotations

import importlib
import json
import os
import runpy
import sys
import traceback
from contextlib import suppress


def run(script: str, arguments: list[str], out: str, err: str) -> None:
    """Be the script, up to its end."""
    for number, path in enumerate((out, err), 1):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
    sys.stdin = open(os.devnull)  # noqa: PTH123, SIM115 - this process is about to end
    sys.argv, sys.path[0] = [script, *arguments], os.path.dirname(script)  # noqa: PTH120
    code = 0
    try:
        runpy.run_path(script, run_name="__main__")
    except SystemExit as ended:
        code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
        if isinstance(ended.code, str):
            sys.stderr.write(ended.code + "\n")
    except BaseException:  # noqa: BLE001 - as an interpreter does
        traceback.print_exc()
        code = 1
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def main() -> None:
    """Serve until the input ends."""
    for name in sys.argv[1:]:
        with suppress(ImportError):
            importlib.import_module(name)
    for line in sys.stdin:
        child = os.fork()
        if not child:
            run(*json.loads(line))
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
