"""A compiled kernel follows every source it is made of, not only its own file."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import mpgd
from mpgd.files import warn_once

numba = pytest.importorskip("numba", reason="these need numba: pip install 'mpgd[fast]'")
compiled = pytest.importorskip("mpgd.noise.engines.compiled")

SOURCE = Path(mpgd.__file__).parent
CHILD = """
import importlib, json, pkgutil, sys
import torch, mpgd
from numba.core.dispatcher import Dispatcher

torch.set_num_threads(1)
names = {}
for module in pkgutil.walk_packages(mpgd.__path__, "mpgd."):
    text = open(module.module_finder.find_spec(module.name).origin).read()
    if "@jitted" in text or "compiled.jitted" in text:
        for name, found in vars(importlib.import_module(module.name)).items():
            if isinstance(found, Dispatcher) and found.targetoptions.get("nogil"):
                names[f"{found.py_func.__module__}.{name}"] = found.py_func.__qualname__

def walk(engine):
    p = torch.nn.Parameter(torch.ones(600))
    optimizer = mpgd.MPGD([p], lr=0.1, sigma=0.1, engine=engine)
    for _ in range(3):
        p.grad = torch.zeros(600)
        optimizer.step()
    values = mpgd.ChaoticNoise(0.6, engine=engine).path(3, (600,))
    return [p.detach().double().tolist(), values.tolist()]

print(json.dumps({"names": names, "numba": walk("numba"), "torch": walk("torch")}))
"""


def run(folder: Path) -> dict[str, dict[str, str]]:
    environment = {
        **os.environ,
        "PYTHONPATH": str(folder),
        "NUMBA_DISABLE_PERFORMANCE_WARNINGS": "1",
    }
    done = subprocess.run(
        [sys.executable, "-c", CHILD], capture_output=True, text=True, env=environment, check=False
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_a_change_in_an_inlined_function_reaches_every_kernel(tmp_path: Path) -> None:
    """The hash is inlined into kernels of several files from a constant of yet another one."""
    package = tmp_path / "mpgd"
    shutil.copytree(SOURCE, package, ignore=shutil.ignore_patterns("__pycache__"))
    counter = package / "noise" / "counter.py"
    before = run(tmp_path)
    assert before["numba"] == before["torch"]
    text = counter.read_text()
    assert "0xD6E8FEB86659FD93" in text
    counter.write_text(text.replace("0xD6E8FEB86659FD93", "0xD6E8FEB86659FD95"))
    after = run(tmp_path)
    assert after["numba"] == after["torch"]
    assert after["numba"][0] != before["numba"][0]  # the optimizer's kernel
    assert after["numba"][1] != before["numba"][1]  # the noise's own
    changed = {name for name, old in before["names"].items() if after["names"][name] != old}
    modules = {name: name.rpartition(".")[0] for name in before["names"]}
    hashing = {
        n for n, module in modules.items() if "mpgd.noise.counter_hash" in compiled.reached(module)
    }
    assert changed == hashing
    assert {name.rpartition(".")[2] for name in changed} >= {"step_rows", "advance_values"}
    assert changed < before["names"].keys()  # a kernel that hashes nothing stays as it is


def test_a_kernel_that_cannot_be_kept_is_compiled_in_memory_and_one_line_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "file" / "cache"))
    monkeypatch.setattr(numba.config, "CACHE_LOCATOR_CLASSES", "UserProvidedCacheLocator")
    warn_once.cache_clear()
    kernels = [compiled.jitted(function) for function in (lambda x: 2 * x, lambda x: 3 * x)]
    assert [kernel(5) for kernel in kernels] == [10, 15]
    assert not any(map(compiled.is_kept, kernels))
    (line,) = caplog.messages
    assert "every process compiles them; set NUMBA_CACHE_DIR" in line


@pytest.mark.parametrize(
    "line",
    [
        "from mpgd.noise.counter_hash import MULTIPLIER",
        "import mpgd.noise.counter_hash",
        "    from mpgd.noise import (\n        counter,\n    )",
    ],
)
def test_imports_are_found_however_they_are_written(line: str) -> None:
    assert "mpgd.noise.counter_hash" in compiled.imports(f"import numpy\n{line}\n")


def test_everything_a_kernel_inlines_is_reached() -> None:
    found = compiled.reached("mpgd.optim.kernels")
    assert {"mpgd.noise.counter_hash", "mpgd.noise.driver", "mpgd.maps.tables"} <= found
    assert "mpgd.noise.engines.intrinsics" in found
    assert not any(name.startswith("mpgd.limits") for name in found)
