"""What all tests share: where data lies, and no skip goes unnoticed in continuous integration."""

from __future__ import annotations

import os
import re
import shlex
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
import torch

from mpgd.noise.engines import has_cpu

if TYPE_CHECKING:
    from mpgd_lab.lab.server import Lab

NEEDS_KERNELS = re.compile(r"needs? compiled kernels")  # our own ImportErrors
OWN_LEG = re.compile(": make (gpu|data)")  # such a test runs there, where MPGD_NO_SKIPS is "all"
LEVEL = 1e-4 / 40  # of one statistical check: 1e-4 in all, over at most 40 of them


@pytest.fixture(autouse=True)
def _one_torch_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture(autouse=True, scope="session")
def _quoted_for_the_linker() -> None:
    """Let inductor link in a folder with a space, which it quotes for the compiler alone."""
    if " " in torch.__file__:
        from torch.utils import cpp_extension

        cpp_extension.TORCH_LIB_PATH = shlex.quote(cpp_extension.TORCH_LIB_PATH)


def hear_interrupts() -> None:
    """Run in a child before it starts: a shell lets its background jobs ignore Ctrl-C."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """Return the folder of the real data sets, or skip."""
    folder = os.environ.get("MPGD_DATA")
    if not folder:
        pytest.skip("MPGD_DATA does not name the folder of the data sets: make data")
    return Path(folder)


@pytest.hookimpl(tryfirst=True)  # before -m chooses
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that need the data sets."""
    for item in items:
        if "data_folder" in getattr(item, "fixturenames", ()):
            item.add_marker("data")


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    """Serve the lab on a free port."""
    from mpgd_lab.lab.server import make_server

    with make_server(0) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]):  # type: ignore[no-untyped-def]
    """Skip what asks for absent kernels; turn skips into failures where MPGD_NO_SKIPS is set.

    Tests that have a leg of their own share one line of the summary.
    """
    report = yield
    problem = call.excinfo.value if call.excinfo else None
    if report.failed and not has_cpu() and NEEDS_KERNELS.search(str(problem)):
        report.outcome = "skipped"
        report.longrepr = (str(item.path), item.location[1], f"Skipped: {problem}")
    wish, is_elsewhere = os.environ.get("MPGD_NO_SKIPS"), OWN_LEG.search(str(report.longrepr))
    if report.skipped and is_elsewhere:
        report.longrepr = ("tests", None, report.longrepr[2])
    if report.skipped and wish and (wish == "all" or not is_elsewhere):
        report.outcome = "failed"
        report.longrepr = f"skipped where nothing may be: {report.longrepr}"
    return report
