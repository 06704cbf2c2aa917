"""What a reader of a section sees first: what is missing, the answer, a short text, one figure."""

from collections.abc import Sequence
from typing import Final

from mpgd_lab.content import blocks

LONG: Final = 420  # characters of a paragraph that comes after the answer and the figure


def visible_blocks(section_blocks: Sequence[blocks.Block]) -> list[blocks.Block]:
    """Return the blocks that a reader sees unasked, in their order."""
    missing = [block for block in section_blocks if isinstance(block, blocks.Missing)]
    answers = [block for block in section_blocks if is_answer(block)]
    texts = [
        block for block in section_blocks if isinstance(block, blocks.Text) and not block.answer
    ]
    figures = [
        block for block in section_blocks if isinstance(block, blocks.Plate | blocks.Landscape)
    ]
    answered = answers or any(isinstance(block, blocks.Findings) for block in section_blocks)
    introduction = [text for text in texts[:1] if not answered or len(text.text) <= LONG]
    return [*missing, *answers, *introduction, *figures[:1]]


def folded_blocks(section_blocks: Sequence[blocks.Block]) -> list[blocks.Block]:
    """Return the other blocks, in their order."""
    first = visible_blocks(section_blocks)
    return [block for block in section_blocks if not any(block is own for own in first)]


def is_answer(block: blocks.Block) -> bool:
    """Return whether a block says what came out."""
    return isinstance(block, blocks.Text) and block.answer
