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

SOURCE = Path(mpgd.__file__).parents[1]
FILES = sorted(
    path for package in ("mpgd", "mpgd_lab") for path in (SOURCE / package).rglob("*.py")
)

LEVELS = {  # a folder, or a file beside the folders: imports go from higher to lower numbers
    "mpgd.parameters": 0,
    "mpgd.files": 0,
    "mpgd.library": 0,
    "mpgd.sharding": 0,
    "mpgd.maps": 1,
    "mpgd.stable": 2,
    "mpgd.noise": 3,
    "mpgd.optim": 4,
    "mpgd.limits": 4,
    "mpgd.curvature": 4,
    "mpgd.jax": 4,
    "mpgd.counter": 5,
    "mpgd.theory": 5,
    "mpgd": 6,  # the package's own __init__, which gathers the public names
    "mpgd_lab": 7,
}


# A law draws its samples from the noise of this law, and a noise names the law of its limit.
BACKWARDS = {("mpgd.stable.law", "mpgd.noise.memoryless")}


def module_name(path: Path) -> str:
    parts = path.relative_to(SOURCE).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def layer(module: str) -> str:
    """Return the folder or file of the library that ``module`` belongs to, or the laboratory."""
    parts = module.split(".")
    if parts[0] == "mpgd_lab":
        return "mpgd_lab"
    name = ".".join(parts[:2])
    return name if name in LEVELS else "mpgd"


def wrong_imports(source: str, module: str) -> list[str]:
    """Return the imports of a file, inside functions too, that point to its own layer or later."""
    names: list[str] = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names += [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert not node.level, f"{module}: imports are absolute"
            # `from mpgd import maps` names a layer, `from mpgd import MPGD` the package itself
            names += [f"mpgd.{a.name}" for a in node.names if node.module == "mpgd"] or [
                str(node.module)
            ]
    ours = [name for name in names if name.split(".")[0] in ("mpgd", "mpgd_lab")]
    here = layer(module)
    return [
        name
        for name in ours
        if layer(name) != here and LEVELS[layer(name)] >= LEVELS[here]
        if name != "mpgd.__version__" and (module, name) not in BACKWARDS
    ]


def test_imports_point_to_earlier_layers() -> None:
    wrong = {path.name: wrong_imports(path.read_text(), module_name(path)) for path in FILES}
    assert {name: found for name, found in wrong.items() if found} == {}


@pytest.mark.parametrize(
    ("source", "module", "is_wrong"),
    [
        ("from mpgd.noise import ChaoticNoise", "mpgd.maps.thaler", True),
        ("import mpgd.optim", "mpgd.noise.chaotic", True),
        ("def f():\n    from mpgd.limits import x", "mpgd.curvature.hessian", True),
        ("from mpgd import ThalerMap", "mpgd.noise.chaotic", True),  # through the top
        ("from mpgd_lab import report", "mpgd.theory.tails.index", True),
        ("import mpgd_lab.store", "mpgd", True),
        ("from mpgd.maps.thaler import ThalerMap\nimport numpy", "mpgd.noise.chaotic", False),
        ("from mpgd.noise.engines import tensor", "mpgd.noise.chaotic", False),
        ("from mpgd import maps, ThalerMap, __version__", "mpgd_lab.cli", False),
        ("from mpgd_lab.report import write", "mpgd_lab.cli", False),
    ],
)
def test_an_import_that_points_the_wrong_way_is_found(
    source: str, module: str, is_wrong: bool
) -> None:
    assert bool(wrong_imports(source, module)) == is_wrong


def test_a_file_name_occurs_once_in_a_package() -> None:
    """But for the four that every study has."""
    usual = {"__init__", "runs", "training", "section", "figure"}
    for package in ("mpgd", "mpgd_lab"):
        stems = [path.stem for path in FILES if path.is_relative_to(SOURCE / package)]
        assert {stem for stem in stems if stems.count(stem) > 1} <= usual


def loaded_by(statement: str) -> set[str]:
    """Return the top-level modules that a new process has after ``statement``."""
    code = f"import sys; {statement}; print(*sorted({{m.split('.')[0] for m in sys.modules}}))"
    environment = {"PYTHONPATH": str(SOURCE), "PATH": "", "HOME": str(Path.home())}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment
    )
    return set(done.stdout.split())


def test_import_mpgd_waits_with_torch_until_a_name_is_used() -> None:
    assert "torch" not in loaded_by("import mpgd, mpgd_lab.cli; mpgd.__version__; dir(mpgd)")
    assert "torch" in loaded_by("import mpgd; mpgd.noise")
    assert "torch" in loaded_by("from mpgd import MPGD")


def test_maps_and_stable_laws_need_no_torch() -> None:
    assert "torch" not in loaded_by("from mpgd import ThalerMap, StableLaw, maps, stable")
    used = "from mpgd import StableLaw; StableLaw(1.5).rvs(2, 0); StableLaw.fit(range(20))"
    assert loaded_by(used) & {"torch", "scipy"} == set()


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
    tree = ast.parse((SOURCE / "mpgd" / "__init__.py").read_text())
    imports = [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    seen = {a.name for node in imports if str(node.module).startswith("mpgd") for a in node.names}
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


def has_examples(path: Path) -> bool:
    """Return whether doctest finds something there; triton and jax have legs of their own."""
    return ">>> " in path.read_text() and "gpu" not in path.stem and path.parent.name != "jax"


@pytest.mark.parametrize("module", [module_name(path) for path in FILES if has_examples(path)])
def test_examples_of_docstrings_run(module: str) -> None:
    result = doctest.testmod(importlib.import_module(module))
    assert result.attempted
    assert result.failed == 0


def test_a_name_that_has_moved_is_found_and_says_where_it_is() -> None:
    with pytest.warns(DeprecationWarning, match=r"mpgd\.p_variation is now mpgd\.limits"):
        assert mpgd.p_variation is mpgd.limits.p_variation  # type: ignore[attr-defined]
