"""Progress, tables and colours on a terminal and in a pipe."""

from __future__ import annotations

import os
import pty
import re
import subprocess
import sys

import pytest

COMMAND = [sys.executable, "-m", "mpgd_lab.cli"]
TRACKING = """
import time
from mpgd_lab.terminal import Terminal
terminal = Terminal()
for _ in terminal.track(range(12), lambda i: f"run [{i}]"):
    time.sleep(0.1)
terminal.table("A table", ["name", "value"], [["[b]", "1"]])
"""


def on_terminal(command: list[str], **environment: str) -> tuple[int, str]:
    """Run a command on a pseudo-terminal; return its exit code and all it shows."""
    ours, theirs = pty.openpty()
    clean = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    process = subprocess.Popen(
        command,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=clean | {"TERM": "xterm-256color", "COLUMNS": "100"} | environment,
    )
    os.close(theirs)
    shown = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # Linux says so at the end of a terminal
            break
        if not piece:
            break
        shown += piece
    os.close(ours)
    return process.wait(), shown.decode()


def test_progress_on_a_terminal_is_a_bar_with_the_time_left() -> None:
    code, shown = on_terminal([sys.executable, "-c", TRACKING])
    assert code == 0
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", shown)
    assert re.search(r"run \[\d+\] .*━.* \d+/12 \d:\d\d:\d\d left", text)
    assert "\x1b[?25h" in shown  # the cursor is back
    assert "[b]" in text


PLANNED = """
from types import SimpleNamespace
from mpgd_lab.terminal import Terminal
terminal = Terminal()
dues = [("first", 12, 300.0), ("second", 0, 0.0), ("third", 1, 4000.0)]
terminal.plan([SimpleNamespace(name=n, runs=r, seconds=s) for n, r, s in dues])
terminal.begin("first")
for _ in terminal.track(range(2), lambda i: f"run {i}"):
    pass
"""


def test_a_plan_opens_and_every_line_says_how_much_is_left() -> None:
    shown = subprocess.run([sys.executable, "-c", PLANNED], capture_output=True, text=True)
    lines = shown.stdout.splitlines()
    assert lines[:4] == [
        "To train: 13 runs, about 1 h 12 min in all",
        "  first               12 runs  about 5 min",
        "  second             in store",
        "  third                 1 run  about 1 h 7 min",
    ]
    assert re.fullmatch(r"  1/2  run 0  \(0\.\d s; all: about \d+ min left\)", lines[4])


def test_progress_in_a_pipe_is_plain_lines() -> None:
    shown = subprocess.run([sys.executable, "-c", TRACKING], capture_output=True, text=True)
    lines = shown.stdout.splitlines()
    assert re.fullmatch(r"  1/12  run \[0\]  \(0\.\d s\)", lines[0])
    assert lines[11].startswith("  12/12  run [11]")
    assert "\x1b" not in shown.stdout
    assert "\r" not in shown.stdout


@pytest.mark.parametrize("command", [[*COMMAND, "--help"], [sys.executable, "-c", TRACKING]])
def test_colours_on_a_terminal_unless_no_color(command: list[str]) -> None:
    colours = re.compile(r"\x1b\[[0-9;]*3[0-9](;[0-9;]*)?m")
    coloured, plain = on_terminal(command), on_terminal(command, NO_COLOR="1")
    assert (coloured[0], plain[0]) == (0, 0)
    assert colours.search(coloured[1])
    assert not colours.search(plain[1])
