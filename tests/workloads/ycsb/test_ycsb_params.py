"""Parameters of the YCSB workload, and the official client's property files."""

import pytest

from harness.errors import UsageError
from harness.workloads.ycsb import official_client
from harness.workloads.ycsb.official_client import Official
from harness.workloads.ycsb.params import YcsbParams
from harness.workloads.ycsb.properties import read
from harness.workloads.ycsb.records import data_key as key

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
    assert all(key == keys[0] for key in keys)
    assert key(made({"fieldlength": 50})) != keys[0]


def test_official_data_that_a_binding_stored_in_other_bytes_are_other_data(monkeypatch):
    before = Official(made({})).key()
    monkeypatch.setattr(official_client, "_GENERATION", official_client._GENERATION + 1)
    assert Official(made({})).key() != before


def test_the_native_client_is_told_what_has_an_effect_on_records_and_operations():
    native = made({"workload": "e"}).native_json()
    assert (native["maxscanlength"], native["requestdistribution"]) == (100, "zipfian")
    assert not {"minfieldlength", "threadcount", "workload", "operationcount"} & native.keys()


# Property files, as ``java.util.Properties`` reads them -----------------------------

#: As the official ``workloads/workloade`` says it (0.17.0), without its comments.
WORKLOAD_E = """\
# Yahoo! Cloud System Benchmark
recordcount=1000
operationcount=1000
workload=site.ycsb.workloads.CoreWorkload

readallfields=true

readproportion=0
updateproportion=0
scanproportion=0.95
insertproportion=0.05

requestdistribution=zipfian

maxscanlength=100

scanlengthdistribution=uniform
"""


@pytest.fixture
def written(tmp_path):
    def write(text: str | bytes, name: str = "workload"):
        file = tmp_path / name
        file.write_bytes(text.encode("latin-1") if isinstance(text, str) else text)
        return file

    return write


def test_an_official_file_is_taken_as_it_is(written):
    values, notes = YcsbParams.from_text({}, [written(WORKLOAD_E)])
    assert notes == []
    params = normalised(values)
    assert params["workload"] == "e"
    assert (params["records"], params["operations"]) == (1000, 1000)
    assert params["duration"] is None


def test_the_later_file_counts(written):
    more = written("recordcount=7", "more")
    assert YcsbParams.from_text({}, [written(WORKLOAD_E), more])[0]["records"] == 7
    assert YcsbParams.from_text({}, [more, written(WORKLOAD_E)])[0]["records"] == 1000


@pytest.mark.parametrize(
    ("text", "pairs"),
    [
        ("a=1\nb:2\nc 3\nd\t4", {"a": "1", "b": "2", "c": "3", "d": "4"}),
        ("  a  =  1", {"a": "1"}),
        ("a = 1 ", {"a": "1 "}),
        ("a", {"a": ""}),
        ("a=b=c", {"a": "b=c"}),
        ("a : = b", {"a": "= b"}),
        ("# c\n  ! d\na=1", {"a": "1"}),
        ("a=1\\\n   2", {"a": "12"}),
        ("a=1\\\\\nb=2", {"a": "1\\", "b": "2"}),
        ("a=1\\\n# b", {"a": "1# b"}),
        ("a=1\\", {"a": "1"}),
        ("a\\ b=1", {"a b": "1"}),
        ("a\\=b\\:c=1", {"a=b:c": "1"}),
        ("a=\\u0041\\t\\q", {"a": "A\tq"}),
        ("a=1\r\nb=2\rc=3", {"a": "1", "b": "2", "c": "3"}),
        ("a=1\na=2", {"a": "2"}),
        ("a=\xe4", {"a": "ä"}),
        ("\n\n   \n", {}),
    ],
)
def test_the_syntax(written, text, pairs):
    assert read(written(text)) == pairs


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("readproporton=0.5", "did you mean 'readproportion'"),
        ("workload=site.ycsb.workloads.TimeSeriesWorkload", "only the CoreWorkload"),
        ("table=other", "usertable"),
        ("fieldnameprefix=f", "fields have this prefix"),
        ("deleteproportion=0.1", "deleteproportion"),
        ("overwriteproportion=0.1", "writeallfields"),
        ("zipfianconstant=0.9", "0.99"),
        ("zipfian_const=0.9", "0.99"),
        ("fieldlengthhistogram=hist.txt", "constant, uniform or zipfian"),
        ("core_workload_insertion_retry_limit=3", "fails the run"),
        ("a=\\u00g0", "four hex digits"),
    ],
)
def test_what_would_change_the_numbers_is_refused(written, text, words):
    with pytest.raises(UsageError) as error:
        YcsbParams.from_text({}, [written(text)])
    assert words in " ".join((error.value.problem, error.value.context, error.value.hint))
    assert "workload" in error.value.problem


def test_properties_of_other_clients_are_taken_where_they_mean_the_same(written):
    text = (
        "deleteproportion=0\noverwriteproportion=0.0\nzipfianconstant=.99\nfield_len_dist=uniform"
    )
    values, notes = YcsbParams.from_text({}, [written(text)])
    assert values == {"workload": "CoreWorkload", "fieldlengthdistribution": "uniform"}
    assert not notes
    with pytest.raises(UsageError):
        YcsbParams.from_mapping({**values, "fieldlengthdistribution": "up2x"})


def test_values_mean_what_they_mean_to_the_client(written):
    """Integer.parseInt, Double.parseDouble, Boolean.parseBoolean."""
    text = (
        "recordcount=010\nfieldcount=+7\nupdateproportion=5e-2\nreadproportion=.5d\n"
        "writeallfields=yes\nreadallfields=TRUE\nmaxexecutiontime=020"
    )
    values, notes = YcsbParams.from_text({}, [written(text)])
    assert values == {
        "workload": "CoreWorkload", "records": 10, "fieldcount": 7, "updateproportion": 0.05,
        "readproportion": 0.5, "writeallfields": False, "readallfields": True, "duration": "20s",
    }  # fmt: skip
    assert len(notes) == 1
    assert "writeallfields=yes is false" in notes[0]
    said = {"recordcount": "010", "updateproportion": "5e-2", "writeallfields": "TRUE"}
    assert YcsbParams.from_text(said) == (
        {"records": 10, "updateproportion": 0.05, "writeallfields": True},
        [],
    )


@pytest.mark.parametrize(
    ("content", "word"),
    [
        (b"", "no property"),
        (b"# only a comment\n", "no property"),
        (b"\xef\xbb\xbfrecordcount=1\n", "byte order mark"),
        ("recordcount=1\n".encode("utf-16"), "byte order mark"),
        (b"recordcount=1000 \n", "blank"),
        (b"requestdistribution=zipfian\t\n", "blank"),
    ],
)
def test_what_the_client_would_misread_is_refused(written, content, word):
    file = written(content)
    with pytest.raises(UsageError) as error:
        YcsbParams.from_text({}, [file])
    assert str(file) in error.value.problem and word in error.value.context


def test_a_flag_with_a_blank_is_false_as_to_the_client(written):
    values, notes = YcsbParams.from_text({}, [written("readallfields=true \nrecordcount=5")])
    assert values["readallfields"] is False
    assert len(notes) == 1


def test_no_operations_are_no_bound(written):
    """The client runs until maxexecutiontime, and forever without it."""
    file = written("operationcount=0\nrecordcount=5\n")
    with pytest.raises(UsageError):
        YcsbParams.from_text({}, [file])
    for more in ({"duration": "9s"}, {"maxexecutiontime": "9"}):
        params = normalised(YcsbParams.from_text(more, [file])[0])
        assert (params["operations"], params["duration"]) == (None, "9s")
    assert normalised(YcsbParams.from_text({"operations": "7"}, [file])[0])["duration"] is None


@pytest.mark.parametrize(
    "text",
    ["recordcount=0x10", "recordcount=1_000", "operationcount=", "threadcount=1.0",
     "readproportion=a", "readproportion=nan", "target=1,5", "maxexecutiontime=1m"],
)  # fmt: skip
def test_what_the_client_could_not_read_is_refused(written, text):
    with pytest.raises(UsageError, match=r"not a .*number"):
        YcsbParams.from_text({}, [written(text)])
    with pytest.raises(UsageError, match=r"not a .*number"):
        YcsbParams.from_text(dict([text.split("=")]))
