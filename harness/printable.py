"""Text of servers, logs, users and other hosts, as a terminal, a page or a file can have it.

Standard library only, and little of it: also used while the rest is still being imported.
"""

from __future__ import annotations

import io
import re

#: What a terminal acts on or UTF-8 or XML cannot have: C0 but for tab and line feed, DEL and C1
#: (ECMA-48), Unicode's line separators and directional formatting (UAX #9), surrogates,
#: noncharacters.
_CONTROL = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069"
    "\ud800-\udfff\ufdd0-\ufdef\ufffe\uffff]"
)


def printable(text: str) -> str:
    r"""Write control characters out: ``\u001b``.

    These are escape sequences of JSON: a JSON document remains the same document.
    """
    return _CONTROL.sub(lambda match: f"\\u{ord(match[0]):04x}", text)


class PrintableStream(io.TextIOWrapper):
    """A text stream without control characters but for those of :meth:`write_codes`."""

    def write(self, text: str, /) -> int:
        return super().write(printable(text))

    def write_codes(self, text: str) -> int:
        """Write text with codes for the terminal, all of which are the harness's."""
        return super().write(text)
