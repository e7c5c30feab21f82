"""Parameters of the YCSB workload."""

import pytest

from harness.workloads.ycsb import official_client
from harness.workloads.ycsb.data import estimate_bytes, key
from harness.workloads.ycsb.official_client import Official
from harness.workloads.ycsb.params import YcsbParams

GB = 1e9
made = YcsbParams.from_mapping


def normalised(given):
    return made(given).to_json()


def test_defaults_are_written_out_and_stay_as_they_are():
    params = normalised({})
    assert params["workload"] == "a"
    assert (params["readproportion"], params["updateproportion"]) == (0.5, 0.5)
    assert (params["records"], params["threads"]) == (1_000_000, 8)
    assert (params["fieldcount"], params["fieldlength"]) == (10, 100)
    assert (params["operations"], params["duration"]) == (None, "1m")
    assert normalised(params) == params
    assert set(params) | {"client_hosts", "stall_timeout"} == set(
        YcsbParams.declared()
    )  # where given


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
    params = normalised({"client_hosts": "one,bench@two"})
    assert (params["client_hosts"], params["clients"]) == (["one", "bench@two"], 2)
    assert normalised(params) == params
    assert normalised({"client_hosts": "one,two", "clients": 4})["clients"] == 4
    assert normalised({"client_hosts": "one", "workload": "d"})["clients"] == 1


@pytest.mark.parametrize("name", CORE)
def test_core_workloads(name):
    params = normalised({"workload": name.upper()})
    asked, distribution = CORE[name]
    assert {what: share for what, share in made(params).shares.items() if share} == asked
    assert params["requestdistribution"] == distribution
    assert params["workload"] == name
    assert params["maxscanlength"] == (100 if name == "e" else None)
    assert made(params).writes == (name != "c")
    assert normalised(params) == params


def test_properties_that_are_a_core_workload_are_called_so_and_others_are_not():
    """The official files say everything; a share of their own makes another workload of them."""
    official = {"readproportion": 0.95, "updateproportion": 0.05, "requestdistribution": "zipfian"}
    assert normalised(official)["workload"] == "b"
    assert normalised({**official, "requestdistribution": "uniform"})["workload"] is None
    assert normalised({"workload": "a", "readproportion": 0.9})["workload"] is None


def test_weights_are_of_their_sum_and_the_core_has_its_own_defaults():
    params = normalised({"readproportion": 3})
    assert made(params).shares["read"] == pytest.approx(3 / 3.05)
    assert params["requestdistribution"] == "uniform"
    assert params["workload"] is None


def test_operations_bound_the_window_unless_a_duration_does():
    counted = normalised({"operations": 5})
    assert (counted["ramp_up"], counted["duration"]) == ("0s", None)
    assert normalised(counted) == counted
    assert normalised({})["ramp_up"] == "2m"
    assert normalised({"operations": 5, "duration": "90s"})["operations"] is None


def test_beside_a_duration_operations_foretell_what_zipfian_will_see_inserted():
    both = normalised({"workload": "e", "operations": 5, "duration": "90s"})
    assert (both["operations"], both["duration"]) == (5, "90s")
    assert normalised(both) == both


def test_what_means_nothing_beside_the_others_is_null():
    hot = {"requestdistribution": "hotspot", "scanproportion": 0.1}
    for params, there in ((normalised({}), False), (normalised(hot), True)):
        for name in ("hotspotopnfraction", "minscanlength", "scanlengthdistribution"):
            assert (params[name] is not None) == there
        assert params["exponential.frac"] is None
        assert normalised(params) == params


def test_records_that_are_loaded():
    assert made({"records": 100, "insertstart": 30}).loaded_records == 70
    part = {"records": 100, "insertstart": 30, "insertcount": 70}
    assert made(part).loaded_records == 70


def test_data_are_shared_by_workloads_and_not_by_shapes():
    keys = [key(made({"workload": name})) for name in "abcdef"]
    assert all(one == keys[0] for one in keys)
    assert key(made({"fieldlength": 50})) != keys[0]


def test_official_data_that_a_binding_stored_in_other_bytes_are_other_data(monkeypatch):
    before = Official(made({})).key()
    monkeypatch.setattr(official_client, "_GENERATION", official_client._GENERATION + 1)
    assert Official(made({})).key() != before


def test_room_grows_with_records_and_with_what_is_written():
    def needed(**params):
        return estimate_bytes(made(params), key_value=False)

    assert needed(workload="c")["data"] > 1.1 * GB
    ten = needed(workload="c", records=10_000_000)["data"]
    assert ten > 9 * needed(workload="c")["data"]
    assert needed(workload="a")["data"] > 1.5 * needed(workload="c")["data"]
    few = needed(workload="a", operations=1000, ramp_up=0)["data"]
    assert few < 1.01 * needed(workload="c")["data"]
    assert needed(workload="d", rate=10)["data"] < needed(workload="d")["data"]
    alone = estimate_bytes(made({}), key_value=True)
    assert (alone["index"], alone["data"]) == (0, needed()["data"])
    assert alone["wal"] < needed()["wal"] / 3


def test_the_native_client_is_told_what_has_an_effect_on_records_and_operations():
    native = made({"workload": "e"}).native_json()
    assert (native["maxscanlength"], native["requestdistribution"]) == (100, "zipfian")
    assert not {"minfieldlength", "threadcount", "workload", "operationcount"} & native.keys()
