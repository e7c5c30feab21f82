"""Numbers of a sentence: a test asserts these where the words around them may change."""

import re


def figures_of(text: str) -> list[float]:
    """Return the numbers of a text in their order; ``1,000`` is one number."""
    return [float(number.replace(",", "")) for number in re.findall(r"\d[\d,]*(?:\.\d+)?", text)]
