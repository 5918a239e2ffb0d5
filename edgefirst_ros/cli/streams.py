"""Standard streams that take whatever is printed: closed ones, other encodings, paths that are no text."""

from __future__ import annotations

import codecs
import io
import os
import sys

SUBSTITUTES = {"…": "...", "×": "x", "−": "-", "→": "->", "·": ".", "±": "+-", "²": "2"}
"""For encodings that lack these; any other character becomes a question mark."""
_HANDLER = "edgefirst.printable"


def open_streams() -> None:
    """Make standard output and error fit to print on; may be called again.

    One that is closed (``>&-``) goes nowhere: else the next file that is opened would get its number, and
    what a library prints would be written into that file. A path may hold bytes that are not text; they are
    printed unchanged.
    """
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if not _is_open(number):
            os.dup2(nowhere := os.open(os.devnull, os.O_RDWR), number)
            if nowhere != number:
                os.close(nowhere)
        if getattr(sys, name) is None:
            mode = "r" if name == "stdin" else "w"
            setattr(sys, name, open(number, mode, encoding="utf-8", closefd=False))  # noqa: SIM115
    codecs.register_error(_HANDLER, _printable)
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors=_HANDLER)


def _is_open(number: int) -> bool:
    try:
        os.fstat(number)
    except OSError:
        return False
    return True


def _printable(error: UnicodeError) -> tuple[str | bytes, int]:
    """What is printed in place of a character that the encoding lacks; an error handler of codecs."""
    if not isinstance(error, UnicodeEncodeError):
        raise error
    character = error.object[error.start]
    if "\udc80" <= character <= "\udcff":
        return bytes([ord(character) - 0xDC00]), error.start + 1
    return SUBSTITUTES.get(character, "?"), error.start + 1
