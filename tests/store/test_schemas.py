"""Every contract has a schema, and every schema is one."""

import pytest
from jsonschema import Draft202012Validator

from harness.errors import UsageError
from harness.store import schemas

CONTRACTS = {
    "dataset", "host-facts", "host-file", "loadgen-result", "loadgen-spec", "manifest",
    "micro-suite", "microbench-result", "microbench-spec", "profile", "published-csv", "run",
    "run-spec",
}  # fmt: skip


def test_every_contract_of_the_design_has_a_schema():
    assert set(schemas.names()) >= CONTRACTS


@pytest.mark.parametrize("name", sorted(CONTRACTS))
def test_the_schema_is_valid_and_closed(name):
    document = schemas.schema(name)
    Draft202012Validator.check_schema(document)
    assert document["$id"] == name
    assert document["additionalProperties"] is False


LOADGEN = {
    "schema": 1,
    "backend": "postgres",
    "connection": {"socket": "/tmp/s", "password": "x"},
    "workload": {"name": "tpcc", "params": {"warehouses": 10}},
    "statements": {"payment": "CALL tpcc_payment(:w_id)"},
    "threads": 2,
    "connections": 32,
    "mode": {"kind": "open", "rate_per_s": 1000},
    "ramp_up_ns": 0,
    "duration_ns": 60_000_000_000,
    "seed": 1,
}


def test_a_loadgen_spec_as_the_driver_writes_it():
    schemas.validate(LOADGEN, "loadgen-spec", source="test")
    with pytest.raises(UsageError, match="loadgen spec"):
        schemas.validate({**LOADGEN, "mode": {"kind": "open"}}, "loadgen-spec", "loadgen spec")


MICROBENCH = {
    "schema": 2,
    "seed": 1,
    "targets": {"near": {"kind": "dram", "node": 0, "pages": "huge", "size_bytes": 1 << 30}},
    "measurements": [
        {
            "name": "store-clwb",
            "duration_ns": 1_000_000_000,
            "jobs": [
                {
                    "name": "writer",
                    "kind": "throughput",
                    "target": "near",
                    "threads": 1,
                    "operation": "store",
                    "flush": "clwb",
                    "fence": "sfence",
                    "access_bytes": 256,
                    "pattern": "random",
                }
            ],
        }
    ],
}


def test_a_microbench_spec_as_the_harness_writes_it():
    schemas.validate(MICROBENCH, "microbench-spec", source="test")
    wrong = {**MICROBENCH, "targets": {"raw": {"kind": "devdax", "size_bytes": 4096}}}
    with pytest.raises(UsageError):
        schemas.validate(wrong, "microbench-spec", source="test")
