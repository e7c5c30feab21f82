"""Parameters of the YCSB workload."""

import pytest

from harness.workloads.ycsb import official_client
from harness.workloads.ycsb.official_client import Official
from harness.workloads.ycsb.params import YcsbParams
from harness.workloads.ycsb.params import data_key as key

made = YcsbParams.from_mapping


def normalised(given):
    return made(given).to_json()


#: As Cooper et al. (SoCC 2010, Table 2) and the official files have them.
CORE = {
    "a": ({"read": 0.5, "update": 0.5}, "zipfian"),
    "b": ({"read": 0.95, "update": 0.05}, "zipfian"),
    "c": ({"read": 1}, "zipfian"),
    "d": ({"read": 0.95, "insert": 0.05}, "latest"),
    "e": ({"scan": 0.95, "insert": 0.05}, "zipfian"),
    "f": ({"read": 0.5, "read_modify_write": 0.5}, "zipfian"),
}


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


def test_the_native_client_is_told_what_has_an_effect_on_records_and_operations():
    native = made({"workload": "e"}).native_json()
    assert (native["maxscanlength"], native["requestdistribution"]) == (100, "zipfian")
    assert not {"minfieldlength", "threadcount", "workload", "operationcount"} & native.keys()
