"""All contracts have schemas, and all schemas are valid."""

import pytest
from jsonschema_rs import meta

from harness.store import schemas

CONTRACTS = {
    "calibration", "canary", "host-facts", "manifest",
    "run",
    "run-spec",
}  # fmt: skip


@pytest.mark.parametrize("name", sorted(CONTRACTS))
def test_the_schema_is_valid_and_closed(name):
    document = schemas.schema(name)
    meta.validate(document)
    assert document["$id"] == name
    assert document["additionalProperties"] is False
