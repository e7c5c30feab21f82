"""Parameters of the YCSB workload."""

import pytest

from harness.errors import UsageError
from harness.workloads.ycsb import official_client
from harness.workloads.ycsb.data import estimate_bytes, key
from harness.workloads.ycsb.official_client import Official
from harness.workloads.ycsb.options import PARAMETERS, loaded_records, normalise, shares, writes

GB = 1e9


def test_defaults_are_written_out_and_stay_as_they_are():
    params = normalise({})
    assert params["workload"] == "a"
    assert (params["readproportion"], params["updateproportion"]) == (0.5, 0.5)
    assert (params["recordcount"], params["threadcount"]) == (1_000_000, 8)
    assert (params["fieldcount"], params["fieldlength"]) == (10, 100)
    assert (params["operationcount"], params["duration"]) == (None, "1m")
    assert normalise(params) == params
    assert set(params) | {"client_hosts", "stall_timeout"} == set(PARAMETERS)  # where given


#: As Cooper et al. (SoCC 2010, Table 2) and the official files have them.
CORE = {
    "a": ({"read": 0.5, "update": 0.5}, "zipfian"),
    "b": ({"read": 0.95, "update": 0.05}, "zipfian"),
    "c": ({"read": 1}, "zipfian"),
    "d": ({"read": 0.95, "insert": 0.05}, "latest"),
    "e": ({"scan": 0.95, "insert": 0.05}, "zipfian"),
    "f": ({"read": 0.5, "read_modify_write": 0.5}, "zipfian"),
}


def test_each_client_host_has_a_process():
    params = normalise({"client_hosts": "one,bench@two"})
    assert (params["client_hosts"], params["clients"]) == (["one", "bench@two"], 2)
    assert normalise(params) == params
    assert normalise({"client_hosts": "one,two", "clients": 4})["clients"] == 4
    assert normalise({"client_hosts": "one", "workload": "d"})["clients"] == 1


@pytest.mark.parametrize("name", CORE)
def test_core_workloads(name):
    params = normalise({"workload": name.upper()})
    asked, distribution = CORE[name]
    assert {what: share for what, share in shares(params).items() if share} == asked
    assert params["requestdistribution"] == distribution
    assert params["workload"] == name
    assert params["maxscanlength"] == (100 if name == "e" else None)
    assert writes(params) == (name != "c")
    assert normalise(params) == params


def test_properties_that_are_a_core_workload_are_called_so_and_others_are_not():
    """The official files say everything; a share of their own makes another workload of them."""
    official = {"readproportion": 0.95, "updateproportion": 0.05, "requestdistribution": "zipfian"}
    assert normalise(official)["workload"] == "b"
    assert normalise({**official, "requestdistribution": "uniform"})["workload"] is None
    assert normalise({"workload": "a", "readproportion": 0.9})["workload"] is None


def test_weights_are_of_their_sum_and_the_core_has_its_own_defaults():
    params = normalise({"readproportion": 3})
    assert shares(params)["read"] == pytest.approx(3 / 3.05)
    assert params["requestdistribution"] == "uniform"
    assert params["workload"] is None


def test_operations_bound_the_window_unless_a_duration_does():
    counted = normalise({"operationcount": 5})
    assert (counted["ramp_up"], counted["duration"]) == ("0s", None)
    assert normalise(counted) == counted
    assert normalise({})["ramp_up"] == "2m"
    assert normalise({"operationcount": 5, "duration": "90s"})["operationcount"] is None


def test_beside_a_duration_operations_foretell_what_zipfian_will_see_inserted():
    both = normalise({"workload": "e", "operationcount": 5, "duration": "90s"})
    assert (both["operationcount"], both["duration"]) == (5, "90s")
    assert normalise(both) == both


def test_what_means_nothing_beside_the_others_is_null():
    hot = {"requestdistribution": "hotspot", "scanproportion": 0.1}
    for params, there in ((normalise({}), False), (normalise(hot), True)):
        for name in ("hotspotopnfraction", "minscanlength", "scanlengthdistribution"):
            assert (params[name] is not None) == there
        assert params["exponential.frac"] is None
        assert normalise(params) == params


def test_records_that_are_loaded():
    assert loaded_records(normalise({"recordcount": 100, "insertstart": 30})) == 70
    part = {"recordcount": 100, "insertstart": 30, "insertcount": 70}
    assert loaded_records(normalise(part)) == 70


def test_data_are_shared_by_workloads_and_not_by_shapes():
    keys = [key(normalise({"workload": name})) for name in "abcdef"]
    assert all(one == keys[0] for one in keys)
    assert key(normalise({"fieldlength": 50})) != keys[0]


def test_official_data_that_a_binding_stored_in_other_bytes_are_other_data(monkeypatch):
    asked = normalise({})
    before = Official().key(asked)
    monkeypatch.setattr(official_client, "_GENERATION", official_client._GENERATION + 1)
    assert Official().key(asked) != before


def test_room_grows_with_records_and_with_what_is_written():
    def needed(**params):
        return estimate_bytes(normalise(params), key_value=False)

    assert needed(workload="c")["data"] > 1.1 * GB
    ten = needed(workload="c", recordcount=10_000_000)["data"]
    assert ten > 9 * needed(workload="c")["data"]
    assert needed(workload="a")["data"] > 1.5 * needed(workload="c")["data"]
    few = needed(workload="a", operationcount=1000, ramp_up=0)["data"]
    assert few < 1.01 * needed(workload="c")["data"]
    assert needed(workload="d", target=10)["data"] < needed(workload="d")["data"]
    alone = estimate_bytes(normalise({}), key_value=True)
    assert (alone["index"], alone["data"]) == (0, needed()["data"])
    assert alone["wal"] < needed()["wal"] / 3


@pytest.mark.parametrize(
    ("params", "words"),
    [
        ({"records": 5}, ["did you mean 'recordcount'"]),
        ({"threads": 5}, ["did you mean 'threadcount'"]),
        ({"rate": 5}, ["did you mean 'target'"]),
        ({"warehouses": 5}, ["did you mean 'recordcount'"]),
        ({"recordcont": 5}, ["did you mean 'recordcount'"]),
        ({"workload": "g"}, ["workload 'g'", "a, b, c, d, e, f"]),
        ({"recordcount": 0}, ["out of range"]),
        ({"recordcount": 2**31}, ["out of range"]),
        ({"recordcount": 1.5}, ["not a whole number"]),
        ({"fieldcount": 65}, ["fieldcount 65", "64"]),
        ({"fieldcount": 64, "fieldlength": 1_000_000}, ["16,000,000 bytes at most"]),
        ({"readproportion": -1}, ["readproportion -1"]),
        ({"readproportion": "half"}, ["not a number"]),
        ({"readproportion": 0, "updateproportion": 0}, ["all are 0"]),
        ({"requestdistribution": "zipf"}, ["did you mean 'zipfian'"]),
        ({"hotspotdatafraction": 1.5}, ["from 0 to 1"]),
        ({"exponential.percentile": 100}, ["between 0 and 100"]),
        ({"insertorder": "random"}, ["hashed, ordered"]),
        ({"readallfields": "maybe"}, ["true or false"]),
        ({"minscanlength": 20, "maxscanlength": 10}, ["more than maxscanlength 10"]),
        ({"recordcount": 10, "insertstart": 10}, ["numbered from 0"]),
        ({"recordcount": 10, "insertstart": 5, "insertcount": 6}, ["numbered from 0"]),
        ({"recordcount": 10, "insertcount": 6}, ["would be asked for", "--records 6"]),
        ({"insertstart": 5, "requestdistribution": "latest"}, ["asks for records before"]),
        ({"target": 0}, ["nothing would be offered"]),
        ({"threadcount": 2, "clients": 3}, ["a client thread of its own"]),
        ({"client_hosts": "a,b", "clients": 1}, ["every host needs a client process"]),
        ({"client_hosts": "-oProxyCommand=x"}, ["not a host as ssh takes it"]),
        (
            {"client_hosts": "a,b", "workload": "d"},
            ["insertproportion 0.05 with 2 clients", "two would insert the same", "a, b, c or f"],
        ),
        ({"client_hosts": "a", "clients": 2, "workload": "e"}, ["two would insert the same"]),
        ({"update": "blindly"}, ["did you mean 'blind'"]),
        ({"duration": "1ms"}, ["from 1s"]),
        ({"fieldlengthdistribution": "uniform", "minfieldlength": 101}, ["more than fieldlength"]),
    ],
)
def test_what_is_refused_says_what_is_right(params, words):
    with pytest.raises(UsageError) as error:
        normalise(params)
    text = " ".join((error.value.problem, error.value.context, error.value.hint))
    for word in words:
        assert word in text
