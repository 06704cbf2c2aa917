"""The command line as a user meets it: in this process, and as a process of its own."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import mpgd
from mpgd_lab import catalogue as experiments
from mpgd_lab import cli
from mpgd_lab.__main__ import main
from mpgd_lab.runner import Context
from tests.conftest import hear_interrupts

COMMAND = [sys.executable, "-m", "mpgd_lab.cli"]


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run the command line in a new process."""
    return subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, env=os.environ | environment
    )


def experiment(monkeypatch: pytest.MonkeyPatch, function: Callable[[Context], None]) -> None:
    """Put ``function`` in the place of every experiment's loop."""
    load = cli.load
    monkeypatch.setattr(cli, "load", lambda name: replace(load(name), run=function))


def test_help_has_commands_examples_and_exit_codes() -> None:
    shown = run("--help", NO_COLOR="1")
    assert shown.returncode == 0
    for text in (*cli.COMMANDS, "Examples:", "Exit codes:", "130"):
        assert text in shown.stdout
    assert "\x1b[" not in shown.stdout


def test_help_names_every_experiment(capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["reproduce", "--help"])
    text = capsys.readouterr().out
    assert all(name in text for name in experiments.EXPERIMENTS)


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--version"]) == cli.OK
    assert capsys.readouterr().out == f"mpgd {mpgd.__version__}\n"


def test_info_as_json(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MPGD_DATA", "/nowhere")
    assert cli.main(["info", "--json"]) == cli.OK
    facts = json.loads(capsys.readouterr().out)
    assert facts["mpgd"] == mpgd.__version__
    assert "torch" in facts["engines"]
    assert (facts["data_folder"], facts["data_found"]) == ("/nowhere", False)


def test_info_of_a_user_without_a_home(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mpgd_lab.cli.cache_folder", lambda: None)
    monkeypatch.delenv("MPGD_DATA", raising=False)
    assert cli.main(["info", "--json"]) == cli.OK
    facts = json.loads(capsys.readouterr().out)
    assert (facts["cache_folder"], facts["data_folder"]) == (None, None)
    assert facts["data_found"] is False


def test_noise_as_json_and_as_a_plot(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    size = ["--steps", "100", "--count", "500", "--beta", "0.5"]
    path = tmp_path / "noise.png"
    assert cli.main(["noise", *size, "--json", "--plot", str(path)]) == cli.OK
    numbers = json.loads(capsys.readouterr().out)
    assert numbers["laminar_value"] == pytest.approx(0.581047544906, abs=1e-12)
    assert 0 < numbers["ks_limit"] < 0.2
    assert path.stat().st_size > 10_000
    assert cli.main(["noise", *size]) == cli.OK
    shown = capsys.readouterr().out
    assert "y_star" in shown
    assert shown.splitlines()[-1].startswith("Sums of 100 values should follow a stable law of")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["noise", "--gamma", "0.5"], "gamma must lie in (0.5, 0.99], got 0.5"),
        (["noise", "--gamma", "nan"], "gamma must lie in (0.5, 0.99], got nan"),
        (["noise", "--beta", "1.1"], "beta must lie in [-1, 1], got 1.1"),
        (["noise", "--seed", "-1"], "seed must be an integer in [0, "),
        (["noise", "--count", "0"], "count must be an integer >= 1, got 0"),
        (["noise", "--count", "9", "--steps", "9", "--plot", "a.gif"], "plot must end in .png"),
        (["reproduce", "airfoil", "--device", "cuda"], "--device has no effect on airfoil"),
        (["reproduce", "noise", "limit", "--seeds", "7"], "--seeds has no effect on noise, limit"),
        (["noise", "--gama", "0.6"], "unrecognized options: --gama, 0.6; did you mean '--gamma'?"),
        (["noise", "--gamma", "x"], "error parsing --gamma: could not convert string to float"),
        (["noise", "--gamma"], "missing value for argument '--gamma'"),
        (
            ["lab", "--port", "x"],
            "error parsing --port: no type matching {None}|INT could be instantiated from ['x']\n",
        ),
        (["completion"], "missing from mpgd completion: {bash,zsh,fish}\n"),
        (["reproduce", "nosie"], "no experiment is named 'nosie'; did you mean 'noise'?"),
    ],
)
def test_a_users_mistake_is_one_line_and_code_2(
    arguments: list[str], text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(arguments) == cli.USAGE
    shown = capsys.readouterr()
    assert text in shown.err
    assert shown.err.count("\n") == 1
    assert shown.out == ""


def test_alone_it_prints_its_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main([]) == cli.OK
    assert "Examples:" in capsys.readouterr().out


@pytest.mark.parametrize("command", cli.COMMANDS)
def test_help_shows_no_default_that_says_nothing(
    command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main([command, "--help"]) == cli.OK
    text = " ".join(capsys.readouterr().out.replace("│", " ").split())
    assert not re.search(r"\(default: (None|False|)\)", text)


def test_no_traceback_unless_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    shown = run("noise", "--gamma", "2")
    assert (shown.returncode, shown.stdout) == (2, "")
    assert shown.stderr == "mpgd: gamma must lie in (0.5, 0.99], got 2.0\n"
    monkeypatch.setenv("MPGD_TRACEBACK", "1")
    with pytest.raises(cli.UsageError, match=r"got 2\.0"):
        cli.main(["noise", "--gamma", "2"])


def test_a_folder_that_cannot_be_written_is_code_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    assert cli.main(["reproduce", "--out", str(tmp_path / "file")]) == cli.FAILED
    assert f"cannot write results in {tmp_path / 'file'}" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ImportError('figures need matplotlib: pip install "mpgd[lab]"'), 1),
        (ValueError("line 3 of airfoil.dat is malformed"), 1),
        (KeyboardInterrupt(), 130),
    ],
)
def test_what_goes_wrong_in_a_run_has_its_code(
    error: BaseException,
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def fails(context: Context) -> None:
        raise error

    experiment(monkeypatch, fails)
    assert cli.main(["reproduce", "--fresh", "--out", str(tmp_path)]) == code
    assert str(error) in capsys.readouterr().err


def test_progress_is_plain_lines_elsewhere_and_quiet_is_quiet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def works(context: Context) -> None:
        for _ in context.reporter.track(["one", "two"], str):
            pass
        context.reporter.table("A table", ["a", "b"], [["1", "[2]"]])

    experiment(monkeypatch, works)
    arguments = ["reproduce", "--fresh", "--out", str(tmp_path)]
    assert cli.main([*arguments, "--verbose"]) == cli.OK
    shown = capsys.readouterr().out
    assert "2/2  two" in shown
    assert "[2]" in shown
    assert "\x1b" not in shown
    assert cli.main([*arguments, "--quiet"]) == cli.OK
    assert capsys.readouterr().out == ""


LOST = """
import os, signal, sys
from mpgd_lab.exit_codes import termination

class Dying:
    def __del__(self):
        os.kill(os.getpid(), signal.SIGTERM)
        for _ in range(1000):  # the handler runs here, and Python drops what it raises
            pass

with termination(""):
    dying = Dying()
    del dying
    signal.sigtimedwait([], 60)  # the second signal ends this
    print("went on")
"""


def test_a_termination_that_python_drops_is_repeated() -> None:
    done = subprocess.run([sys.executable, "-c", LOST], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (143, "", "mpgd: terminated\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["report", "--published", "-o", "nowhere/page.html"], "there is no folder nowhere"),
        (["noise", "--plot", "nowhere/x.png"], "cannot write nowhere/x.png: there is no folder"),
    ],
)
def test_what_cannot_be_written_is_said_before_any_work(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(arguments) != 0
    assert said in capsys.readouterr().err


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_ends_a_run_with_a_message(number: int, code: int, tmp_path: Path) -> None:
    """The first finished run shows that work is under way; it is kept."""
    process = subprocess.Popen(
        [*COMMAND, "reproduce", "noise", "--fresh", "--out", str(tmp_path)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=hear_interrupts,
    )
    while process.poll() is None and not list(tmp_path.glob("runs/*.json")):
        time.sleep(0.02)
    process.send_signal(number)
    _, errors = process.communicate()
    assert process.returncode == code
    assert errors.splitlines()[-1].startswith("mpgd: ")
    assert errors.endswith("finished runs are kept\n")
    assert not list(tmp_path.glob("runs/*.tmp"))
    assert list(tmp_path.glob("runs/*.json"))


def test_a_missing_extra_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    size = ["--steps", "9", "--count", "9"]
    assert cli.main(["noise", *size, "--plot", str(tmp_path / "a.png")]) == cli.FAILED
    expected = 'mpgd: figures need matplotlib: pip install "mpgd[lab]"\n'
    assert capsys.readouterr().err == expected


def test_without_tyro_the_command_says_what_to_install(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sys.modules, "tyro", None)
    assert main(["reproduce"]) == cli.FAILED
    needs = 'mpgd reproduce needs the extra `lab`: pip install "mpgd[lab]"\n'
    assert capsys.readouterr().err == needs
