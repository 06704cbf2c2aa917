"""What Triton makes of the kernel, ahead of time and without a GPU: no spill, no fused sum.

A register that is spilled costs memory traffic; a fused multiply-add rounds once where the torch
engine rounds twice, and changes bits.
"""

from __future__ import annotations

import os
import pickle
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pytest
import torch

from mpgd.noise.engines import has_triton

pytestmark = pytest.mark.skipif(not has_triton(), reason="triton is not installed: make gpu")

TARGETS = [("cuda", 80, 32), ("cuda", 90, 32), ("hip", "gfx942", 64)]
PLAIN = dict.fromkeys(("has_shared", "twins", "normal_m", "normal_n"), False)
PLAIN |= dict.fromkeys(("draws_m", "draws_n"), True)
NORMAL = dict.fromkeys(("normal_m", "normal_n"), True)
VARIANTS: list[tuple[torch.dtype, dict[str, bool]]] = [
    (torch.float32, PLAIN),
    (torch.float16, PLAIN | {"has_shared": True, "draws_m": False}),
    (torch.bfloat16, PLAIN | {"twins": True}),
    (torch.float32, PLAIN | NORMAL | {"twins": True}),
]
# Integers are multiplied and added too: mad.lo.s64, v_mad_u64_u32.
FUSED = {
    "cuda": r"\bfma\.|\bFFMA\b|\bHFMA2?\b|\bDFMA\b",
    "hip": r"\bv_(?:pk_)?(?:fma|fmac|mac|mad|dot)\w*_(?:f|bf)(?:16|32|64)\b.*",
}
# AMD adds and multiplies float16 numbers by an instruction with three operands, one of them
# without effect: a b + (-0) and 1 a + b. It rounds as often as an addition or a product does.
HARMLESS = re.compile(r"v_fma_mix_f32 .*(?:, neg\(0\)|, 1\.0,)")

# A process of its own: with TRITON_INTERPRET=1 nothing is compiled.
COMPILE = """
import pickle, sys
import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource
from mpgd.noise.engines.gpu import BLOCK, OPTIONS
from mpgd.noise.engines.gpu_displacement import KINDS, displace_rows

target, dtype, uses, size, fusion = pickle.load(sys.stdin.buffer)
constants = {"kind": KINDS[dtype], **uses, "size": size or BLOCK}
pointers = {name: "*i64" for name in ("head", "places", "table0", "table1")}
source = ASTSource(
    fn=displace_rows,
    signature=pointers | {name: "constexpr" for name in constants},
    constexprs=constants,
    attrs={(k,): [["tt.divisibility", 16]] for k in range(len(pointers))},
)
options = OPTIONS | ({"enable_fp_fusion": True} if fusion else {})
made = triton.compile(source, target=GPUTarget(*target), options=options)
wanted = {k: made.asm[k] for k in ("ptx", "cubin", "amdgcn") if k in made.asm}
sys.stdout.buffer.write(pickle.dumps((triton.__path__[0], wanted)))
"""


def compiled(
    target: Any, dtype: torch.dtype, uses: dict[str, bool], size: int = 0, fusion: bool = False
) -> tuple[str, str]:
    """Return the assembly of the kernel, and what it says about registers."""
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    done = subprocess.run(
        [sys.executable, "-c", COMPILE],
        input=pickle.dumps((target, dtype, uses, size, fusion)),
        capture_output=True,
        env=environment,
    )
    assert done.returncode == 0, done.stderr.decode()
    place, code = pickle.loads(done.stdout)
    if target[0] == "hip":
        return code["amdgcn"], code["amdgcn"]
    tools = Path(place) / "backends" / "nvidia" / "bin"
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(code["cubin"])
        file.flush()
        machine, use = (
            subprocess.run([tools / tool, option, file.name], capture_output=True, text=True).stdout
            for tool, option in (("nvdisasm", "-c"), ("cuobjdump", "-res-usage"))
        )
    assert "FADD" in machine
    return code["ptx"] + machine, use


def fused(target: Any, assembly: str) -> list[str]:
    """Return the instructions that multiply, add and round once."""
    found = re.findall(FUSED[target[0]], assembly)
    return [line for line in found if not HARMLESS.match(line)]


def spills(target: Any, text: str) -> int:
    """Return how many registers, or bytes of stack, hold what did not fit."""
    pattern = r"\.[vs]gpr_spill_count:\s+(\d+)" if target[0] == "hip" else r"STACK:(\d+)"
    found = [int(n) for n in re.findall(pattern, text)]
    assert found
    return sum(found)


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: str(t[1]))
@pytest.mark.parametrize(("dtype", "uses"), VARIANTS, ids=str)
def test_there_is_no_spill_no_fused_multiply_add_and_no_flush_to_zero(
    dtype: torch.dtype, uses: dict[str, bool], target: Any
) -> None:
    assembly, use = compiled(target, dtype, uses)
    assert spills(target, use) == 0
    assert fused(target, assembly) == []
    assert ".ftz" not in assembly
    assert not re.search(r"\b(cvt|add|mul)\.\S*f64|\b[DI]2?[A-Z]*\.F64", assembly)


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: str(t[1]))
@pytest.mark.parametrize("number", [0, 1])
def test_fusion_would_be_seen(number: int, target: Any) -> None:
    """Twin: Triton's default fuses."""
    assembly, _ = compiled(target, *VARIANTS[number], fusion=True)
    assert fused(target, assembly)


@pytest.mark.parametrize("target", TARGETS, ids=lambda t: str(t[1]))
def test_a_spill_would_be_seen(target: Any) -> None:
    """Twin: blocks four times as long do not fit into the registers."""
    _, use = compiled(target, *VARIANTS[2], size=2048)
    assert spills(target, use) > 0
