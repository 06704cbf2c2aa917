"""The command line: parsing, progress and exit codes.

Each command is a frozen dataclass that `tyro` fills from the arguments, and its ``run``.
"""

from __future__ import annotations

import io
import os
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import redirect_stderr
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

import mpgd
from mpgd.files import cache_folder, check_place
from mpgd.parameters import check_choice, check_integer
from mpgd_lab.catalogue import EXPERIMENTS, PROTOCOLS, USUAL, find, load, suggestion
from mpgd_lab.exit_codes import (
    FAILED,
    INTERRUPTED,
    OK,
    PIPE_CLOSED,
    USAGE,
    UsageError,
    fail,
    one_line,
    termination,
    usage_errors,
)
from mpgd_lab.store import installed, versions
from mpgd_lab.terminal import Terminal, show

if os.environ.get("NO_COLOR"):  # which tyro does not know, but it reads this when imported
    os.environ["PYTHON_TYRO_ANSI_CODES"] = "False"
import tyro

if TYPE_CHECKING:
    from mpgd_lab.experiment import Experiment

_arg: Any = partial(tyro.conf.arg, help_behavior_hint="")  # whose default is told by its help
FLAG: Final = _arg()

CORES: Final = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1
SEEDS: Final = 10  # of --fresh: the fewest with which a table of 24 can hold a verdict
HELP: Final = """Gradient descent with chaotic, heavy-tailed perturbations.

Examples:
  mpgd reproduce                            train a sample of the published runs again, compare,
                                            and write the report, into ./results
  mpgd reproduce noise --out figures        the same of one experiment
  mpgd reproduce airfoil --seeds 20 --data DIR
  mpgd reproduce digits --fresh             train it without the published runs
  mpgd report results -o report.html        one page with everything that was run
  mpgd report --published                   the same of the published results
  mpgd lab                                  sliders for every parameter, in your browser
  mpgd noise --gamma 0.7 --beta 0.5         constants of a noise, distance to its limit
  mpgd noise --gamma 0.7 --plot noise.png   the same as a figure
  mpgd info --json                          versions and folders, for a script
  mpgd completion bash                      completion at the Tab key; its --help says how
  mpgd --version

Exit codes:
  0    done
  1    a run failed
  2    wrong arguments
  130  Ctrl-C, 143 terminated; finished runs are kept and not run again
  141  the reader of the output closed the pipe

Environment:
  NO_COLOR=1         no colours
  MPGD_TRACEBACK=1   show where an error came from
  MPGD_CACHE, MPGD_DATA   folders of tables and of data sets"""


@dataclass(frozen=True)
class Reproduce:
    """Run the paper's experiments; what is finished is not run again."""

    names: Annotated[
        tyro.conf.Positional[tuple[str, ...]],
        _arg(
            metavar="[NAMES ...]",
            help="Experiments to run; if none is named, all but cifar10 that have published runs "
            "and whose data is found. There are: "
            f"{', '.join(EXPERIMENTS)}. A file such as my_study.py may hold another.",
        ),
    ] = ()
    protocol: Annotated[
        tyro.conf.UseAppendAction[tuple[str, ...]],
        _arg(
            metavar="NAME[,NAME]",
            help="Protocols to run; may be repeated. text: the paper to the letter; corrected: the "
            "same with fresh signs; released: as the authors' scripts do. By default all that are "
            f"published; with --fresh {','.join(USUAL)}.",
        ),
    ] = ()
    seeds: Annotated[int | None, _arg(metavar="N")] = None
    """Train seeds 1 to N of every scheme, where an experiment trains, instead of a sample of the
    published runs; with --fresh, 10 by default."""
    fresh: Annotated[bool, FLAG] = False
    """Train without the published runs: nothing is compared, the page shows what ran here."""
    data: Annotated[Path | None, _arg(metavar="DIR")] = None
    """Folder of the data sets; looked into before MPGD_DATA and the cache."""
    workers: int = CORES
    """Processes that train."""
    cluster: Annotated[str | None, _arg(metavar="ADDRESS")] = None
    """Address of a Dask scheduler that trains instead, such as tcp://host:8786."""
    device: Literal["cpu", "cuda"] = "cpu"
    """Where cifar10 trains."""
    size: Literal["tiny", "reduced", "full"] = "tiny"
    """How much of cifar10: tiny is a smoke test, reduced takes hours, full wants a GPU."""
    out: Path = Path("results")
    """Folder for the report, and for results in its `runs`."""
    verbose: Annotated[bool, FLAG] = False
    """Print tables and verdicts of every experiment."""
    quiet: Annotated[bool, FLAG] = False
    """Print nothing but errors, and with --json the summary."""
    json: Annotated[bool, FLAG] = False
    """Print a summary as JSON at the end; everything else goes to standard error."""

    @property
    def protocols(self) -> tuple[str, ...]:
        """The protocols to run, in their usual order."""
        asked = [name for part in self.protocol for name in part.split(",")]
        for name in asked:
            check_choice("protocol", name, PROTOCOLS)
        return tuple(name for name in PROTOCOLS if name in asked) or USUAL

    def run(self) -> None:
        """Check or run the experiments one after the other, and write the report."""
        from mpgd_lab.runner import Context
        from mpgd_lab.runner.plan import check_options
        from mpgd_lab.session import Choice, run_session

        began = time.perf_counter()
        terminal = Terminal(self.quiet, sys.stderr if self.json else None, self.verbose)
        with usage_errors():
            names = find(self.names)
            studies = [load(name) for name in names]
            where = (self.workers, self.cluster, self.device, self.size, self.verbose)
            seeds = SEEDS if self.seeds is None else self.seeds
            context = Context(self.out, terminal, self.protocols, seeds, self.data, *where)
            check_options(studies, context, ("seeds",) * (self.seeds is None))
        context.store.check_writable()
        asked = self.protocols if self.protocol else ()
        choice = Choice(bool(self.names), self.fresh, self.seeds, asked)
        checks, left_out = run_session(studies, context, choice, terminal)
        own = [study for study in studies if study.name not in EXPERIMENTS]
        both = not self.fresh and len(own) < len(studies)
        page = self.out / "report.html"
        written = write_report(self.out, page, terminal, own, both, self.data)
        if self.json:
            facts = {"out": str(self.out), "experiments": names, "left_out": left_out}
            facts |= {"checks": {one.study: one.counts for one in checks}}
            show(facts | {"seconds": time.perf_counter() - began, "report": written}, as_json=True)


@dataclass(frozen=True)
class Report:
    """Write one page with all results of a folder: figures, tables and verdicts."""

    folder: Annotated[tyro.conf.Positional[Path | None], _arg(metavar="[DIR]")] = None
    """Folder that `mpgd reproduce` wrote to, by default results."""
    output: Annotated[Path | None, _arg(metavar="FILE", aliases=["-o"])] = None
    """What to write: .html is one page, .md a document, a name without an ending a folder of them;
    by default DIR/report.html."""
    study: Annotated[tuple[Path, ...], _arg(metavar="FILE ...")] = ()
    """Files that hold experiments of your own, whose sections are shown too."""
    published: Annotated[bool, FLAG] = False
    """Show the results that come with the package, with DIR together with those, and whether they
    agree; nothing is trained."""
    publish: Annotated[Path | None, _arg(metavar="FILE")] = None
    """Write the folder's results to one compressed file instead of a page; with --published
    together with those that come with the package."""
    quiet: Annotated[bool, FLAG] = False
    """Print nothing but errors."""
    json: Annotated[bool, FLAG] = False
    """Print what was written as JSON."""

    def run(self) -> None:
        """Write the page."""
        terminal = Terminal(self.quiet or self.json)
        with usage_errors():
            if self.published and self.publish and not self.folder:
                raise ValueError("--published --publish adds the results of a folder; name it")
            own = self.folder or Path("results")
            if self.publish:
                written = publish(own, self.publish, self.published, terminal)
            else:
                studies = [load(str(file)) for file in self.study]
                folder = self.folder if self.published else own
                output = self.output or (folder or Path()) / "report.html"
                written = write_report(folder, output, terminal, studies, self.published)
        if self.json:
            show(written, as_json=True)


@dataclass(frozen=True)
class Lab:
    """Open a page with sliders: descent in wells and valley, the orbit and its sums, live."""

    port: Annotated[int | None, _arg(metavar="N")] = None
    """Where to listen on this machine; by default 8642, or any free port if that is taken."""
    no_browser: Annotated[bool, FLAG] = False
    """Print the address and open no browser."""
    export: Annotated[Path | None, _arg(metavar="DIR")] = None
    """Write a page that needs no server to this folder, with a small grid of settings."""

    def run(self) -> None:
        """Serve the page until Ctrl-C, or write it."""
        if self.port is not None:
            with usage_errors():
                check_integer("port", self.port, 0, 65535)
        from mpgd_lab.lab import export, serve

        if self.export:
            size = export(self.export)
            Terminal().say(f"the lab is in {self.export}    ({size / 1e6:.1f} MB)")
        else:
            serve(self.port, Terminal().say, not self.no_browser)


@dataclass(frozen=True)
class Noise:
    """Show the constants of a chaotic noise and how near its sums are to the stable limit."""

    gamma: float = 0.6
    """Intermittency exponent, in (0.5, 0.99]; the tail index is alpha = 1/gamma."""
    beta: float = 0.0
    """Skewness of the limit, in [-1, 1]."""
    steps: int = 1000
    """Values in each sum."""
    count: int = 10_000
    """Number of sums."""
    seed: int = 0
    """A non-negative integer."""
    signs: Literal["fresh", "product"] = "fresh"
    """A fresh sign after each visit to Z, or the product of all so far, as the paper prints it."""
    plot: Annotated[Path | None, _arg(metavar="FILE")] = None
    """Write a figure to this file: .png, .pdf or .svg."""
    json: Annotated[bool, FLAG] = False
    """Print the numbers as JSON."""

    def run(self) -> None:
        """Print the numbers and write the figure."""
        from mpgd_lab.studies.driver.training import describe, plot, sentence

        with usage_errors():
            if self.plot and self.plot.suffix not in PLOTS:
                raise ValueError(f"plot must end in {', '.join(PLOTS)}, got {str(self.plot)!r}")
            noise = mpgd.ChaoticNoise(self.gamma, self.beta, signs=self.signs)
            if self.plot:
                check_place(self.plot)
            numbers = describe(noise, self.steps, self.count, self.seed)
            if self.plot:
                plot(noise, self.steps, self.count, self.seed, self.plot)
        show(numbers, self.json)
        if not self.json:
            print(sentence(numbers))


@dataclass(frozen=True)
class Info:
    """Show versions, engines, threads and folders."""

    json: Annotated[bool, FLAG] = False
    """Print as JSON."""

    def run(self) -> None:
        """Print what this installation is."""
        import torch

        from mpgd.noise.engines import cpu, has_cpu, has_triton

        cache, named = cache_folder(), os.environ.get("MPGD_DATA")
        data = Path(named) if named else cache and cache / "data"
        extras = ("scipy", "tyro", "rich", "matplotlib")
        facts: dict[str, Any] = {**versions(), **{name: installed(name) for name in extras}}
        there = {"torch": True, "cpu": has_cpu(), "triton": has_triton()}
        facts["engines"] = [name for name, is_there in there.items() if is_there]
        facts["cpu_kernels"] = cpu.instructions() or f"none: {cpu.reason()}"
        facts |= {"threads": torch.get_num_threads(), "cache_folder": cache and str(cache)}
        facts |= {"data_folder": data and str(data), "data_found": bool(data and data.is_dir())}
        show(facts, self.json)


@dataclass(frozen=True)
class Completion:
    """Print a script with which your shell completes commands and options at the Tab key."""

    shell: tyro.conf.Positional[Literal["bash", "zsh", "fish"]]
    """bash: put `eval "$(mpgd completion bash)"` into ~/.bashrc. zsh: write the output to a file
    _mpgd in a folder of $fpath. fish: write it to ~/.config/fish/completions/mpgd.fish."""

    def run(self) -> None:
        """Print the script."""
        from mpgd_lab.completion import script

        print(script(self.shell, parse), end="")


PLOTS: Final = (".png", ".pdf", ".svg")
Command = Reproduce | Report | Lab | Noise | Info | Completion
COMMANDS: Final = ("reproduce", "report", "lab", "noise", "info", "completion")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    arguments = sys.argv[1:] if arguments is None else arguments
    kept = "; finished runs are kept" if arguments[:1] == ["reproduce"] else ""
    if list(arguments) == ["--version"]:
        print(f"mpgd {mpgd.__version__}")
        return OK
    try:
        with termination(kept):
            parse(arguments or ["--help"]).run()
            print(end="", flush=True)
    except SystemExit as leaving:
        return leaving.code if isinstance(leaving.code, int) else (FAILED if leaving.code else OK)
    except KeyboardInterrupt:
        signal.signal(signal.SIGINT, signal.SIG_IGN)  # another would only show where we were
        return fail(INTERRUPTED, f"interrupted{kept}")
    except UsageError as mistake:
        return fail(USAGE, str(mistake))
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # for the last flush
        return PIPE_CLOSED
    except (ValueError, TypeError, ImportError, OSError, RuntimeError, MemoryError) as problem:
        return fail(FAILED, str(problem) or type(problem).__name__)
    return OK


def parse(arguments: Sequence[str]) -> Command:
    """Return the command the arguments ask for; tyro exits by itself on help and mistakes."""
    if arguments and not arguments[0].startswith("-") and arguments[0] not in COMMANDS:
        name = arguments[0]
        raise UsageError(f"no command is named {name!r}; {suggestion(name, COMMANDS)}")
    conf = tyro.conf
    config = (conf.FlagCreatePairsOff, conf.OmitArgPrefixes, conf.OmitSubcommandPrefixes)
    every: Any = Command
    try:
        with redirect_stderr(io.StringIO()) as said:
            command: Command = tyro.cli(
                every, prog="mpgd", description=HELP, args=arguments, config=config
            )
    except SystemExit as leaving:
        if leaving.code == USAGE:
            raise UsageError(one_line(said.getvalue())) from leaving
        raise
    return command


def publish(folder: Path, file: Path, published: bool, terminal: Terminal) -> dict[str, Any]:
    """Write the results of a folder to one file and say how large it is."""
    from mpgd_lab import report

    count, size = report.publish(folder, file, published), file.stat().st_size
    terminal.say(f"{count:,} records, {size:,} bytes: {file}")
    return {"file": str(file), "records": count, "bytes": size}


def write_report(
    folder: Path | None,
    file: Path,
    terminal: Terminal,
    studies: Sequence[Experiment],
    published: bool = False,
    data: Path | None = None,
) -> dict[str, Any]:
    """Write the report of a folder of results, say where it is, and last what came out."""
    from mpgd_lab import report

    written = asdict(report.write(folder, file, studies, published, data)) | {"file": str(file)}
    if written["missing"]:
        names = written["missing"]
        terminal.say(f"no runs of {', '.join(names)}: mpgd reproduce {' '.join(names)} trains them")
    for name in written["unusable"]:
        terminal.say(f"not usable: {name}")
    terminal.link(file)
    terminal.say(written["answer"])
    return written


if __name__ == "__main__":
    sys.exit(main())
