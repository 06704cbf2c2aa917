"""A notebook becomes a page with its outputs."""

from __future__ import annotations

import base64

import pytest

pytest.importorskip("mkdocs", reason='these need pip install "mpgd[docs]"')

from tools.site.notebooks import converted

PICTURE = {"image/png": base64.b64encode(b"pixels").decode(), "text/plain": "<Figure>"}


def test_cells_and_outputs_follow_one_another() -> None:
    cells = [
        {"cell_type": "markdown", "source": ["# Title\n", "see [it](../docs/train.md)"]},
        {
            "cell_type": "code",
            "source": ["print(1)"],
            "outputs": [
                {"output_type": "stream", "text": ["1\n"]},
                {"output_type": "display_data", "data": PICTURE},
                {"output_type": "execute_result", "data": {"text/plain": ["2"]}},
            ],
        },
    ]
    page, pictures = converted({"cells": cells}, "name")
    assert page.split("\n\n") == [
        "# Title\nsee [it](../train.md)",
        "*This page is [`examples/name.ipynb`](name.ipynb) with its outputs.*",
        "```python\nprint(1)\n```",
        "```output\n1\n```",
        "![<Figure>](name-1.png)",
        "```output\n2\n```",
    ]
    assert pictures == {"name-1.png": b"pixels"}


def test_with_an_address_of_the_repository_a_link_runs_the_notebook() -> None:
    cells = [{"cell_type": "markdown", "source": ["# Title"]}]
    page, _ = converted({"cells": cells}, "name", "https://github.com/somebody/mpgd/")
    assert "/github/somebody/mpgd/blob/main/examples/name.ipynb)" in page
