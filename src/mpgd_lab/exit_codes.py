"""Exit codes of the command line, errors as one line, and a clean exit on SIGTERM."""

from __future__ import annotations

import os
import re
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


def one_line(box: str) -> str:
    r"""Return what tyro says in a box as one line, without the help of the option it means.

    Examples:
        >>> one_line("╭─ Value error ─╮\n│ Missing value │\n│ ───────────── │\n│ For help, see")
        'missing value'
    """
    sides = ("│ ", "  ")  # the latter where the output has no such characters
    lines = [line[2:].rstrip("│ ") for line in box.splitlines() if line.startswith(sides)]
    said, *more = re.split(r"\n[─-]+\n", "\n".join(lines))
    text = " ".join(line.strip() for line in said.split("\n") if not line.startswith(" " * 8))
    meant = re.search(r"meant:\s+(\S+)", "".join(more))
    aside = r" \(applied to [^)]*\)|\s+Arguments are applied to.*?matter\.|\.?\s+Got errors:.*"
    text = text[:1].lower() + re.sub(aside, "", text[1:])
    return f"{text}; did you mean {meant[1]!r}?" if meant else text


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
