"""numpy, imported when it is first used: that takes a third of the time in which a command starts,
and most commands compute nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
else:

    class _Later:
        def __getattr__(self, name: str) -> Any:
            import numpy

            attribute = self.__dict__[name] = getattr(numpy, name)
            return attribute

    np = _Later()

__all__ = ["np"]
