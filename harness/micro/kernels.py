"""Instruction sequences in words: ``load``, ``ntstore+sfence``, ``store+clwb+sfence``."""

from __future__ import annotations

from harness.errors import UsageError, nearest

_ACCESSES = ("load", "ntload", "store", "ntstore", "empty")
_FLUSHES = ("clwb", "clflushopt", "clflush")
_FENCES = ("sfence", "mfence")
_HELP = (
    f"write one of {', '.join(_ACCESSES)}, then +{', +'.join(_FLUSHES)} if lines are flushed, then "
    f"+{' or +'.join(_FENCES)}: store+clwb+sfence; mixed+ before it reads as well"
)


def parse_kernel(text: str, source: str) -> dict[str, str]:
    """``{operation, flush, fence}`` as in the schema microbench-spec, ``store`` where mixed."""
    words = str(text).split("+")
    found = {"flush": "none", "fence": "none"}
    mixed = words[0] == "mixed"
    access, *rest = words[1:] if mixed else words
    if access not in (_ACCESSES if not mixed else ("store", "ntstore")):
        raise UsageError(source, f"{text!r}: {access!r}{nearest(access, _ACCESSES)}", _HELP)
    for word in rest:
        key = "flush" if word in _FLUSHES else "fence"
        if word not in (*_FLUSHES, *_FENCES) or found[key] != "none":
            raise UsageError(
                source, f"{text!r}: {word!r}{nearest(word, (*_FLUSHES, *_FENCES))}", _HELP
            )
        found[key] = word
    told = {"operation": "mixed", "store": access} if mixed else {"operation": access}
    return told | found
