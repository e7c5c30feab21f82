"""Requests of tiers that stand in for others: ``pmem``, ``pmem=/path``, ``fast=model:zero``."""

from __future__ import annotations

from collections.abc import Sequence

#: A request of a modelled tier: ``fast=model:zero``.
MODEL_PREFIX = "model:"


def stand_in_names(requests: Sequence[str] | None) -> tuple[str, ...]:
    """Return the tiers that are requested to be emulated or modelled, each once."""
    return tuple(dict.fromkeys(request.partition("=")[0] for request in requests or ()))


def stand_in_option(request: str) -> tuple[str, str]:
    """Return the option and its value that make a request: ``--model fast=zero``."""
    name, _, text = request.partition("=")
    if text.startswith(MODEL_PREFIX):
        return "--model", f"{name}={text.removeprefix(MODEL_PREFIX)}"
    return "--emulate", request
