"""The records: which parameters they depend on, how many bytes they need.

The native client (``loadgen/ycsb``) makes them: a field's value is a function of seed, key,
field and version, the same however many threads make them.
"""

from __future__ import annotations

import math
from typing import Any

from harness.experiment.placement import Part
from harness.units import GIB, MIB
from harness.workloads.ycsb.params import YcsbParams

#: Raised whenever the native client makes other records from the same parameters: data that
#: it made before are then not used.
GENERATION = 1
#: What says which records there are, whoever loads them.
SHAPE = (
    "records",
    "insertstart",
    "insertcount",
    "fieldcount",
    "fieldlength",
    "minfieldlength",
    "fieldlengthdistribution",
    "insertorder",
    "zeropadding",
)

#: In addition to its fields, a record has its key and the engine's overhead of record and page.
_RECORD_OVERHEAD_BYTES, _FIELD_OVERHEAD_BYTES, _INDEX_BYTES = 90, 12, 60
#: Pages are not full, levels of a tree hold keys twice.
_SLACK = 1.3
#: Operations a second of a fast engine, where nothing but it bounds them.
_FAST_PER_S = 200_000
#: What a write of a server leaves in a log that has the whole page with it, and how large the logs
#: of a key-value engine become: they go with the buffers that they stand for.
_LOG_PAGE_BYTES, _LARGEST_KEY_VALUE_LOG = 8_192, GIB
#: How far records that are outlived by their updates grow before room is made again, as a
#: share of the data.
_OUTLIVED = 1.5


def data_key(params: YcsbParams) -> dict[str, Any]:
    """Return the parameters that the data depend on, whoever loads them."""
    document = params.to_json()
    return {name: document[name] for name in SHAPE}


def record_bytes(params: YcsbParams) -> int:
    """Return the largest size of a record, as an engine keeps it."""
    fields = params.fieldcount * (params.fieldlength + _FIELD_OVERHEAD_BYTES)
    return fields + _RECORD_OVERHEAD_BYTES


def estimate_bytes(params: YcsbParams, key_value: bool) -> dict[Part, int]:
    """Upper estimate of the bytes in each part, with what the run adds.

    ``key_value``: whether the engine keeps records alone: no pages in the log, no index.
    """
    each = record_bytes(params)
    loaded, begun, shares = params.loaded_records, _operations(params), params.shares
    inserted = begun * shares["insert"]
    written = begun * (shares["update"] + shares["read_modify_write"])
    data = _SLACK * each * (loaded + inserted)
    outlived = min(_SLACK * each * written, _OUTLIVED * data)
    log = (each + (0 if key_value else _LOG_PAGE_BYTES)) * (written + inserted)
    largest = _LARGEST_KEY_VALUE_LOG if key_value else math.inf
    return {
        "data": 160 * MIB + int(data + outlived),
        "index": 0 if key_value else int(_INDEX_BYTES * (loaded + inserted)),
        "wal": 64 * MIB + int(min(largest, each * loaded / 4 + log)),
        "temp": 0,
    }


def _operations(params: YcsbParams) -> float:
    """Return the largest number of operations of a run, its ramp-up included."""
    per_s = params.rate or _FAST_PER_S
    ramp_up = params.ramp_up.seconds * per_s
    if params.duration is None:
        return ramp_up + (params.operations or 0)
    return math.ceil(ramp_up + params.duration.seconds * per_s)
