from __future__ import annotations

from pathlib import Path

from tests.clients import page


def test_it_trains_and_resumes_in_bits(tmp_path: Path) -> None:
    page.resumes_on_two_processes("ZeroRedundancyOptimizer", tmp_path)
