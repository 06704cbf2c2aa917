"""Imports point one way, `import mpgd` is light, and every public name is documented."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import subprocess
import sys
from pathlib import Path

import pytest

import mpgd

SOURCE = Path(mpgd.__file__).parent
FILES = sorted(path for path in SOURCE.rglob("*.py") if "__pycache__" not in path.parts)

LEVELS = {
    "parameters": 0,
    "files": 0,
    "maps": 1,
    "noise": 2,
    "optim": 3,
    "limits": 3,
    "curvature": 3,
    "jax": 3,
    "counter": 4,
    "theory": 4,
    "experiments": 5,
    "report": 6,
    "lab": 6,
    "endings": 6,
    "terminal": 6,
    "completion": 6,
    "": 7,  # the package's own __init__, which gathers the public names
    "cli": 8,
    "__main__": 9,
}


def module_name(path: Path) -> str:
    parts = path.relative_to(SOURCE.parent).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def layer(module: str) -> str:
    """Return the folder, or the file, directly below mpgd that ``module`` belongs to."""
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else ""


def imported(tree: ast.AST, module: str, is_package: bool) -> list[str]:
    """Return all modules of mpgd that a file imports, inside functions too."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                parts = module.split(".")
                kept = len(parts) - node.level + (1 if is_package else 0)
                base = ".".join([*parts[:kept], *([node.module] if node.module else [])])
            # "from mpgd import maps" names a layer; "from mpgd.maps import x" need not look at x
            found += [f"mpgd.{a.name}" for a in node.names] if base == "mpgd" else [base]
    return [name for name in found if name == "mpgd" or name.startswith("mpgd.")]


def wrong_imports(source: str, module: str, is_package: bool = False) -> list[str]:
    here = layer(module)
    found = []
    for name in imported(ast.parse(source), module, is_package):
        there = layer(name)
        if there == "__version__":  # no layer's
            continue
        if there not in LEVELS:  # "from mpgd import X" of a public name: the package itself
            there = ""
        if there != here and LEVELS[there] >= LEVELS[here]:
            found.append(name)
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(SOURCE)))
def test_imports_point_to_earlier_layers(path: Path) -> None:
    module = module_name(path)
    assert layer(module) in LEVELS, f"{path} belongs to no layer: add it to LEVELS"
    assert wrong_imports(path.read_text(), module, path.name == "__init__.py") == []


@pytest.mark.parametrize(
    ("source", "module"),
    [
        ("from mpgd.noise import ChaoticNoise", "mpgd.maps.thaler"),
        ("import mpgd.optim", "mpgd.noise.chaotic"),
        ("def f():\n    from mpgd.limits import x", "mpgd.curvature.hessian"),  # the same level
        ("from ..noise import chaotic", "mpgd.maps.thaler"),
        ("from mpgd import ThalerMap", "mpgd.noise.chaotic"),  # a public name: through the top
        ("from mpgd import report", "mpgd.theory.tails"),
        ("import mpgd", "mpgd.parameters"),
    ],
)
def test_an_import_that_points_the_wrong_way_is_found(source: str, module: str) -> None:
    assert wrong_imports(source, module) != []


@pytest.mark.parametrize(
    ("source", "module"),
    [
        ("from mpgd.maps.thaler import ThalerMap\nimport numpy", "mpgd.noise.chaotic"),
        ("from .counter import mix\nfrom ..parameters import check_beta", "mpgd.noise.chaotic"),
        ("from mpgd.noise.engines import fused", "mpgd.noise.chaotic"),
        ("from mpgd import maps, ThalerMap, __version__", "mpgd.cli"),
        ("from mpgd import __version__", "mpgd.experiments.store"),
    ],
)
def test_an_import_that_points_the_right_way_is_not(source: str, module: str) -> None:
    assert wrong_imports(source, module) == []


def loaded_by(statement: str) -> set[str]:
    """Return the top-level modules that a new process has after ``statement``."""
    code = f"import sys; {statement}; print(*sorted({{m.split('.')[0] for m in sys.modules}}))"
    environment = {"PYTHONPATH": str(SOURCE.parent), "PATH": "", "HOME": str(Path.home())}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    )
    return set(done.stdout.split())


def test_import_mpgd_waits_with_torch_until_a_name_is_used() -> None:
    assert "torch" not in loaded_by("import mpgd, mpgd.cli; mpgd.__version__; dir(mpgd)")
    assert "torch" in loaded_by("import mpgd; mpgd.noise")
    assert "torch" in loaded_by("from mpgd import MPGD")


def test_public_names_load_no_extra() -> None:
    loaded = loaded_by("from mpgd import *")
    assert {"torch", "numpy"} <= loaded
    heavy = {"numba", "llvmlite", "scipy", "matplotlib", "sklearn", "jax", "rich", "tyro"}
    assert loaded & heavy == set()
    assert "scipy" in loaded_by("import scipy.stats")  # the check can fail


@pytest.mark.parametrize("name", mpgd.__all__)
def test_every_public_name_has_a_docstring_with_a_runnable_example(name: str) -> None:
    documented = inspect.getdoc(getattr(mpgd, name)) or ""
    assert documented
    assert "Example" in documented
    assert ">>> " in documented


def test_all_is_complete() -> None:
    """What type checkers see is what is there at run time."""
    assert len(set(mpgd.__all__)) == len(mpgd.__all__)
    tree = ast.parse((SOURCE / "__init__.py").read_text())
    froms = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    seen = {a.name for node in froms if str(node.module).startswith("mpgd.") for a in node.names}
    assert seen == set(mpgd.__all__)
    assert seen <= set(dir(mpgd))


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="module 'mpgd' has no attribute 'MGPD'"):
        _ = mpgd.MGPD  # type: ignore[attr-defined]


def test_without_jax_the_error_names_the_cure() -> None:
    """Blocked in a new process, so that it is absent where it is installed too."""
    for missing in ("jax", "optax"):
        block = f"import sys; sys.modules[{missing!r}] = None; import mpgd.jax"
        done = subprocess.run([sys.executable, "-c", block], capture_output=True, text=True)
        assert done.returncode == 1
        assert "ImportError: mpgd.jax needs jax and optax" in done.stderr
        assert done.stderr.rstrip().endswith('install them with: pip install "mpgd[jax]"')


@pytest.mark.parametrize(
    "module",
    [
        module_name(path)
        for path in FILES
        if path.name not in ("__main__.py", "gpu.py")  # the latter need triton and have none
        and path.parent.name != "jax"  # tests/jax runs these, where jax is
    ],
)
def test_doctests_run(module: str) -> None:
    result = doctest.testmod(importlib.import_module(module))
    assert result.failed == 0
