"""`--smoke` of every benchmark: its code with parameters so small that it ends within seconds.

It shows that the script works and measures nothing. Other projects' programs are left out where
they are not named, and each script says what else it leaves out.
"""

from __future__ import annotations

import argparse
import sys
from typing import Any

#: Known before the arguments are parsed: then no argument is required.
SMOKE = "--smoke" in sys.argv


def parsed(parser: argparse.ArgumentParser, **small: Any) -> argparse.Namespace:
    """The arguments; with ``--smoke`` these values replace theirs."""
    parser.add_argument("--smoke", action="store_true", help="run everything small: no results")
    given = parser.parse_args()
    if given.smoke:
        vars(given).update(small)
    return given
