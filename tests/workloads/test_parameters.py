"""Parameters are declared once, and read, written and documented from that."""

import math
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar

import jsonschema  # type: ignore[import-untyped]
import pytest
from msgspec import Meta

from harness import jsonfile
from harness.errors import UsageError
from harness.workloads.kinds import Choice, Count, Duration, Flag, Number, QueryNumbers, Texts, Time
from harness.workloads.parameters import ParameterError, Parameters, parameter
from harness.workloads.tpcc.params import TpccParams, _MixKind
from harness.workloads.tpch.params import TpchParams, _Dates, _Scale
from harness.workloads.ycsb.params import YcsbParams, _CoreKind

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True, kw_only=True)
class PingParams(Parameters):
    """A workload of pings."""

    workload: ClassVar[str] = "ping"
    aliases: ClassVar[dict[str, str]] = {"hosts": "targets"}

    targets: Annotated[int, Meta(ge=1, le=100)] = parameter(
        4, option=True, help="Pinged hosts.", native=True
    )
    probes: Annotated[int, Meta(ge=1, le=1000)] = parameter(
        derive=lambda params: 2 * params.targets,
        default_text="2 per target",
        help="Probes under way.",
    )
    pause: Duration = parameter("1500ms", option=True, help="Time between probes.")
    ttl: Annotated[int, Meta(ge=1, le=255)] | None = parameter(
        help="Hops.", name="ip.ttl", omit_unset=True
    )


def test_a_default_may_follow_from_other_parameters():
    assert PingParams.from_mapping({}).probes == 8
    assert PingParams.from_mapping({"targets": 3, "probes": None}).probes == 6
    assert PingParams.from_mapping({"targets": 3, "probes": 1}).probes == 1


def test_json_reads_as_it_was_written():
    params = PingParams.from_mapping({"ip.ttl": 3.0, "pause": "1.5m"})
    assert params.to_json() == {"targets": 4, "probes": 8, "pause": "90s", "ip.ttl": 3}
    assert PingParams.from_mapping(params.to_json()) == params
    assert "ip.ttl" not in PingParams.from_mapping({}).to_json()
    assert params.native_json() == {"targets": 4}


@pytest.mark.parametrize(
    ("given", "name"),
    [
        ({"targets": 101}, "targets"),
        ({"targets": 60, "probes": 1001}, "probes"),
        ({"pause": "soon"}, "pause"),
        ({"ttl": 3}, "ttl"),
    ],
)
def test_an_error_names_its_parameter(given, name):
    with pytest.raises(ParameterError) as error:
        PingParams.from_mapping(given)
    assert error.value.parameter == name


#: Values that no parameter of a kind takes; its bounds give others.
BAD_VALUES: dict[type, list[Any]] = {
    Count: [1.5, True, "1", [], math.nan],
    Number: [-1, True, "half", math.nan, math.inf],
    Flag: ["yes", 1, "maybe"],
    Choice: ["elsewhere", 1, True],
    Time: ["3", "soon", "900h", "-1s", True],
    Texts: ["-oProxyCommand=x", "a,,b", 1],
    # The kinds of one parameter each.
    _CoreKind: ["g", 1],
    _MixKind: ["dekc", {"neworder": 45}, {"new_order": -1}, {"new_order": 0}],
    _Scale: [0, -1, 1e9, math.nan, math.inf, "1", True, 0.001],
    QueryNumbers: ["1,1", "0", "23", "one", "1,,2", [], {"1": 2}, True, [1.5]],
    _Dates: ["1995-01-01,1994-01-01", "1995-01-01", "1994-13-01,1995-01-01"],
}


def bad_values(kind) -> list[Any]:
    beyond = {
        Count: lambda: [kind.least - 1, kind.most + 1],
        Number: lambda: [kind.most + 1] if kind.most < math.inf else [],
        Time: lambda: [f"{kind.least_ns // 10**6 - 1}ms"] if kind.least_ns else [],
    }
    return BAD_VALUES[type(kind)] + beyond.get(type(kind), list)()


SWEEP = [
    pytest.param(params, name, declared.kind, id=f"{params.workload}-{name}")
    for params in (TpchParams, TpccParams, YcsbParams)
    for name, declared in params.declared().items()
]


@pytest.mark.parametrize(("params", "name", "kind"), SWEEP)
def test_a_bad_value_is_refused_by_its_name(params, name, kind):
    for value in bad_values(kind):
        with pytest.raises(ParameterError) as error:
            params.from_mapping({name: value})
        assert error.value.parameter == name, value
        assert error.value.hint, value


#: Values that exclude each other, or that a test does not have.
EXCLUDED: list[tuple[type[Parameters], dict[str, Any]]] = [
    (YcsbParams, {"fieldcount": 64, "fieldlength": 1_000_000}),
    (YcsbParams, {"readproportion": 0, "updateproportion": 0}),
    (YcsbParams, {"minscanlength": 20, "maxscanlength": 10}),
    (YcsbParams, {"records": 10, "insertstart": 10}),
    (YcsbParams, {"records": 10, "insertstart": 5, "insertcount": 6}),
    (YcsbParams, {"records": 10, "insertcount": 6}),
    (YcsbParams, {"insertstart": 5, "requestdistribution": "latest"}),
    (YcsbParams, {"threads": 2, "clients": 3}),
    (YcsbParams, {"operations": 2, "clients": 3}),
    (YcsbParams, {"client_hosts": "a,b", "clients": 1}),
    (YcsbParams, {"client_hosts": "a,b", "workload": "d"}),
    (YcsbParams, {"client_hosts": "a", "clients": 2, "workload": "e"}),
    (YcsbParams, {"fieldlengthdistribution": "uniform", "minfieldlength": 101}),
    (TpccParams, {"rate": 10, "think_time": True}),
    (TpccParams, {"users": 4, "connections": 5}),
    (TpccParams, {"users": 4, "clients": 5}),
    (TpccParams, {"client_hosts": "a,b", "clients": 1}),
    (TpchParams, {"warmups": 1}),
    (TpchParams, {"test": "power", "queries": "1,6"}),
    (TpchParams, {"test": "power", "streams": 2}),
    (TpchParams, {"test": "both", "cache": "cold-per-query"}),
    (TpchParams, {"test": "throughput", "plans": True}),
    (TpchParams, {"test": "power", "refresh": False, "refresh_batch_orders": 5}),
    (TpchParams, {"test": "power", "q6_dates": "1994-01-01,1995-01-01"}),
    (TpchParams, {"queries": "1", "q6_dates": "1994-01-01,1995-01-01"}),
    (TpchParams, {"streams": 2}),
    (TpchParams, {"refresh": True}),
    (TpchParams, {"refresh": False}),
]


@pytest.mark.parametrize(("params", "given"), EXCLUDED, ids=str)
def test_values_that_exclude_each_other_are_refused(params, given):
    with pytest.raises(UsageError) as error:
        params.from_mapping(given)
    assert not isinstance(error.value, ParameterError)
    assert error.value.hint


def test_the_tables_of_the_docs_are_those_of_the_parameters():
    script = ROOT / "scripts" / "parameter_tables.py"
    done = subprocess.run(
        [sys.executable, script, "--check"], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout.strip()) == (0, ""), done.stderr


@pytest.fixture(scope="module")
def schemas(tmp_path_factory):
    folder = tmp_path_factory.mktemp("schemas")
    subprocess.run([sys.executable, ROOT / "scripts" / "export_schemas.py", folder], check=True)
    return {path.stem: jsonfile.read(path) for path in folder.iterdir()}


def test_each_document_has_a_schema(schemas):
    documents = [
        name
        for folder in ("harness", "reports", "engines")
        for path in (ROOT / folder).rglob("*.py")
        for name in re.findall(r"^class (\w+)\(.*tag_field=", path.read_text(), re.MULTILINE)
    ]
    exported = [schema.get("$ref", "").rpartition("/")[2] for schema in schemas.values()]
    assert len(documents) > 10 and {*documents} <= {*exported}


def test_the_exported_schema_accepts_what_the_workload_accepts(schemas):
    for params in (TpccParams, TpchParams, YcsbParams):
        schema = schemas[f"params-{params.workload}"]
        jsonschema.validate(params.from_mapping({}).to_json(), schema)
    schema = schemas["params-tpcc"]
    for wrong in ({"warehouses": 0}, {"users": "many"}, {"warehouse": 1}):
        with pytest.raises(jsonschema.ValidationError):
            jsonschema.validate(wrong, schema)
