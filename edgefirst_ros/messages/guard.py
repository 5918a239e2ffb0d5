"""Whatever is wrong with one message costs that message: unforeseen errors become refusals."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

from edgefirst_ros.errors import DecodeError, EdgeFirstError

LOGGER = logging.getLogger(__name__)
"""Gets the traceback of every error that becomes a refusal."""

Given = TypeVar("Given")
Made = TypeVar("Made")


def guarded(what: str, make: Callable[[Given], Made], given: Given) -> Made:
    """What ``make`` makes of the given.

    Raises:
        DecodeError: see ``refusal_of``.
    """
    try:
        return make(given)
    except Exception as error:
        refusal = refusal_of(what, error)
        if refusal is error:
            raise
        raise refusal from error


def refusal_of(what: str, error: BaseException, *, log: bool = True) -> BaseException:
    """The refusal that an error of ``what`` becomes.

    Errors of this package stay what they are, and so do those of the disk. The reason names the type of the
    error only, so that it can be counted.
    """
    # Pillow raises OSError for damaged pictures, without a number.
    if isinstance(error, EdgeFirstError) or (isinstance(error, OSError) and error.errno is not None):
        return error
    if log:
        LOGGER.debug("%s failed", what, exc_info=error)
    return DecodeError(f"{what} failed: {type(error).__name__}")
