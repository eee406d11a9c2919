"""Fills a budget of tokens with parts, in order. Pure."""

from agentos.repo_map.parts import LETTERS_A_TOKEN, Part


class Budget:
    """Some tokens, and the parts that were taken from them."""

    def __init__(self, tokens: int) -> None:
        self.left = max(0, tokens)
        self.parts: list[Part] = []

    @property
    def letters(self) -> int:
        """How many characters still fit."""
        return self.left * LETTERS_A_TOKEN

    def take(self, part: Part) -> bool:
        """Add a part if it has a text and fits."""
        if not part.text.strip() or part.tokens > self.left:
            return False
        self.left -= part.tokens
        self.parts.append(part)
        return True
