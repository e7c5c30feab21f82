"""Every contract has a schema, and every schema is one."""

import numpy as np
import pytest
from jsonschema_rs import meta

from harness.errors import UsageError
from harness.store import schemas

CONTRACTS = {
    "calibration", "canary", "dataset", "host-facts", "host-file", "loadgen-result", "manifest",
    "micro-suite", "profile", "published-csv", "run",
    "run-spec",
}  # fmt: skip


def test_every_contract_of_the_design_has_a_schema():
    assert set(schemas.names()) >= CONTRACTS


@pytest.mark.parametrize("name", sorted(CONTRACTS))
def test_the_schema_is_valid_and_closed(name):
    document = schemas.schema(name)
    meta.validate(document)
    assert document["$id"] == name
    assert document["additionalProperties"] is False


def test_numbers_of_numpy_are_numbers():
    rows = [{"figure": "fig4", "value": np.float64(1.5)}]
    with pytest.raises(UsageError) as refused:
        schemas.validate(rows, "published-csv", source="x")
    assert "float64" not in str(refused.value)
