"""How a command ends: exit codes, errors as one line, and a clean way out on SIGTERM."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

OK, FAILED, USAGE, INTERRUPTED, UNREAD, TERMINATED = 0, 1, 2, 130, 141, 143


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
    """Turn the library's words about a wrong argument into a usage error."""
    try:
        yield
    except (ValueError, TypeError) as mistake:
        raise UsageError(str(mistake)) from mistake


@contextmanager
def termination(kept: str) -> Iterator[None]:
    """Leave cleanly on SIGTERM: temporary files are removed on the way out."""

    def leave(number: int, frame: FrameType | None) -> None:
        print(f"mpgd: terminated{kept}", file=sys.stderr)
        sys.exit(TERMINATED)

    before = signal.signal(signal.SIGTERM, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
