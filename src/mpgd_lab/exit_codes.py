"""Exit codes of the command line, errors as one line, and a clean exit on SIGTERM."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer
from types import FrameType

RESEND_AFTER = 0.05  # seconds
OK, FAILED, USAGE, INTERRUPTED, PIPE_CLOSED, TERMINATED = 0, 1, 2, 130, 141, 143


class UsageError(Exception):
    """The arguments are wrong: exit code 2."""


def fail(code: int, text: str) -> int:
    """Print the error, or the traceback where MPGD_TRACEBACK is set."""
    if os.environ.get("MPGD_TRACEBACK"):
        raise
    print(f"mpgd: {text.strip()}", file=sys.stderr)
    return code


@contextmanager
def usage_errors() -> Iterator[None]:
    """Raise the library's errors about wrong arguments as usage errors."""
    try:
        yield
    except (ValueError, TypeError) as mistake:
        raise UsageError(str(mistake)) from mistake


@contextmanager
def termination(kept: str) -> Iterator[None]:
    """Exit through an exception on SIGTERM, so that temporary files are removed.

    Python drops an exception raised while an object is destroyed and passes it to
    `sys.unraisablehook`. If it was ours, the signal is sent again, a moment later.
    """
    received: list[int] = []

    def leave(number: int, frame: FrameType | None) -> None:
        if not received:
            print(f"mpgd: terminated{kept}", file=sys.stderr)
        received.append(number)
        sys.exit(TERMINATED)

    def again(lost: sys.UnraisableHookArgs) -> None:
        if lost.exc_type is not SystemExit:
            usual(lost)
            return
        later = Timer(RESEND_AFTER, os.kill, (os.getpid(), signal.SIGTERM))
        later.daemon = True
        later.start()

    usual, before = sys.unraisablehook, signal.signal(signal.SIGTERM, leave)
    sys.unraisablehook = again
    try:
        yield
        if received:
            sys.exit(TERMINATED)
    finally:
        sys.unraisablehook = usual
        signal.signal(signal.SIGTERM, before)
