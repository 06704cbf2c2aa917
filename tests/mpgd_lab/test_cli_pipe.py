"""The command line in a pipe and for a script: hints, closed output, JSON, Tab."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from mpgd_lab import cli
from mpgd_lab.report.summary import NOTHING
from mpgd_lab.runner import Context

COMMAND = [sys.executable, "-m", "mpgd_lab.cli"]


def in_pipe(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, env=os.environ | environment
    )


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["nois"], "no command is named 'nois'; did you mean 'noise'?"),
        (["laboratory"], "no command is named 'laboratory'; there are: reproduce, report, lab, "),
        (["reproduce", "valey"], "no experiment is named 'valey'; did you mean 'valley'?"),
        (["lab", "--port", "70000"], "port must be an integer in [0, 65535], got 70000"),
        (
            ["report", "-o", "page.pdf"],
            "a report is an .html or .md file, or a folder, got 'page.pdf'",
        ),
    ],
)
def test_a_mistake_has_a_hint_and_no_traceback(arguments: list[str], text: str) -> None:
    shown = in_pipe(*arguments)
    assert (shown.returncode, shown.stdout) == (cli.USAGE, "")
    assert shown.stderr.startswith(f"mpgd: {text}")
    assert shown.stderr.count("\n") == 1


@pytest.mark.parametrize("words", [("info",), ("reproduce", "valley", "--seeds", "1")])
def test_a_reader_that_has_gone_is_no_traceback(words: tuple[str, ...], tmp_path: Path) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [*COMMAND, *words]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, cwd=tmp_path)
    os.close(writer)
    assert (done.returncode, done.stderr) == (cli.PIPE_CLOSED, "")


def test_closed_output_is_no_traceback() -> None:
    done = subprocess.run(["sh", "-c", 'exec "$0" "$@" >&-', *COMMAND, "info"], capture_output=True)
    assert (done.returncode, done.stderr) == (cli.OK, b"")


OFFERED = {
    "re": {"report", "reproduce"},
    "noise --ga": {"--gamma"},
    "report --js": {"--json"},
    "reproduce air": {"airfoil"},
    "reproduce --quiet cifar": {"cifar10", "cifar10_step"},
    "reproduce --seeds air": set(),
    "noise air": set(),
}


@pytest.mark.parametrize("word", OFFERED)
def test_bash_completes(word: str, tmp_path: Path) -> None:
    """The script is loaded into a bash of its own and asked as the Tab key would."""
    script = tmp_path / "completion"
    script.write_text(in_pipe("completion", "bash").stdout)
    words = ["mpgd", *word.split()]
    ask = (
        f"source {script}; COMP_WORDS=({' '.join(words)}); COMP_CWORD={len(words) - 1}; "
        '_mpgd; printf "%s\\n" "${COMPREPLY[@]}"'
    )
    done = subprocess.run(["bash", "--norc", "-c", ask], capture_output=True, text=True)
    assert set(done.stdout.split()) == OFFERED[word]


@pytest.mark.skipif(not shutil.which("fish"), reason="fish is not installed")
def test_fish_completes_names_of_experiments(tmp_path: Path) -> None:
    script = tmp_path / "completion"
    script.write_text(in_pipe("completion", "fish").stdout)
    ask = f"source {script}; complete -C 'mpgd reproduce cifar'"
    done = subprocess.run(["fish", "--no-config", "-c", ask], capture_output=True, text=True)
    assert set(done.stdout.split()) == {"cifar10", "cifar10_step"}


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts_are_well_formed(shell: str, tmp_path: Path) -> None:
    shown = in_pipe("completion", shell)
    assert shown.returncode == cli.OK
    assert "reproduce" in shown.stdout
    assert "--gamma" in shown.stdout
    if shutil.which(shell):
        script = tmp_path / "script"
        script.write_text(shown.stdout)
        assert subprocess.run([shell, "-n", str(script)]).returncode == 0


def nothing(context: Context) -> None:
    context.reporter.say("working")


@pytest.fixture
def idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put an experiment that computes nothing in the place of every one."""
    load = cli.load
    monkeypatch.setattr(cli, "load", lambda name: replace(load(name), run=nothing))


@pytest.mark.usefixtures("idle")
def test_reproduce_ends_with_the_report(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["reproduce", "noise", "--fresh", "--out", str(tmp_path)]) == cli.OK
    page = tmp_path / "report.html"
    assert capsys.readouterr().out.splitlines()[-2:] == [str(page), NOTHING]
    assert "<html" in page.read_text()


@pytest.mark.usefixtures("idle")
def test_reproduce_as_json_is_nothing_but_json_on_standard_output(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MPGD_DATA", str(tmp_path))
    monkeypatch.setenv("MPGD_CACHE", str(tmp_path))
    assert cli.main(["reproduce", "--json", "--fresh", "--out", str(tmp_path / "out")]) == cli.OK
    shown = capsys.readouterr()
    facts = json.loads(shown.out)
    assert {"noise", "valley"} <= set(facts["experiments"])
    assert facts["left_out"]["airfoil"] == "no data: airfoil"
    assert facts["report"]["file"] == str(tmp_path / "out" / "report.html")
    assert facts["report"]["records"] == 0
    assert facts["seconds"] >= 0
    assert "working" in shown.err
    assert (
        cli.main(["reproduce", "--json", "--fresh", "--quiet", "--out", str(tmp_path / "out")])
        == cli.OK
    )
    assert capsys.readouterr().err == ""


@pytest.mark.usefixtures("idle")
def test_report_says_where_and_what(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    cli.main(["reproduce", "noise", "--fresh", "--quiet", "--out", str(tmp_path)])
    (tmp_path / "runs" / "foreign.json").write_text("{}")
    page = tmp_path / "page.html"
    assert cli.main(["report", str(tmp_path), "-o", str(page)]) == cli.OK
    lines = capsys.readouterr().out.splitlines()
    assert lines[-2:] == [str(page), NOTHING]
    assert "not usable: foreign.json" in lines
    assert page.stat().st_size > 1000
    assert cli.main(["report", str(tmp_path), "--json"]) == cli.OK
    facts = json.loads(capsys.readouterr().out)
    assert facts["file"] == str(tmp_path / "report.html")
    assert facts["unusable"] == ["foreign.json"]
    assert cli.main(["report", str(tmp_path), "--quiet"]) == cli.OK
    assert capsys.readouterr().out == ""


def test_report_without_results_is_code_1(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["report", str(tmp_path / "nowhere")]) == cli.FAILED
    assert str(tmp_path / "nowhere") in capsys.readouterr().err
