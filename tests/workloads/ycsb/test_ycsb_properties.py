"""Property files of the official client, as ``java.util.Properties`` reads them."""

from __future__ import annotations

import pytest

from harness.errors import UsageError
from harness.workloads.ycsb.params import YcsbParams
from harness.workloads.ycsb.properties import given, parameters, read

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


def normalised(given):
    return YcsbParams.from_mapping(given).to_json()


@pytest.fixture
def written(tmp_path):
    def write(text: str | bytes, name: str = "workload"):
        file = tmp_path / name
        file.write_bytes(text.encode("latin-1") if isinstance(text, str) else text)
        return file

    return write


def test_an_official_file_is_taken_as_it_is(written):
    found, notes = parameters([written(WORKLOAD_E)])
    assert notes == []
    params = normalised(found)
    assert params["workload"] == "e"
    assert (params["records"], params["operations"]) == (1000, 1000)
    assert params["duration"] is None


def test_the_later_file_counts(written):
    more = written("recordcount=7", "more")
    assert parameters([written(WORKLOAD_E), more])[0]["records"] == 7
    assert parameters([more, written(WORKLOAD_E)])[0]["records"] == 1000


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
        ("fieldlengthhistogram=hist.txt", "constant, uniform or zipfian"),
        ("core_workload_insertion_retry_limit=3", "fails the run"),
        ("a=\\u00g0", "four hex digits"),
    ],
)
def test_what_would_change_the_numbers_is_refused(written, text, words):
    with pytest.raises(UsageError) as error:
        parameters([written(text)])
    assert words in " ".join((error.value.problem, error.value.context, error.value.hint))
    assert "workload" in error.value.problem


def test_values_mean_what_they_mean_to_the_client(written):
    """Integer.parseInt, Double.parseDouble, Boolean.parseBoolean."""
    text = (
        "recordcount=010\nfieldcount=+7\nupdateproportion=5e-2\nreadproportion=.5d\n"
        "writeallfields=yes\nreadallfields=TRUE\nmaxexecutiontime=020"
    )
    found, notes = parameters([written(text)])
    assert found == {
        "workload": "CoreWorkload", "records": 10, "fieldcount": 7, "updateproportion": 0.05,
        "readproportion": 0.5, "writeallfields": False, "readallfields": True, "duration": "20s",
    }  # fmt: skip
    assert len(notes) == 1
    assert "writeallfields=yes is false" in notes[0]
    said = {"recordcount": "010", "updateproportion": "5e-2", "writeallfields": "TRUE"}
    assert given(said) == (
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
        parameters([file])
    assert str(file) in error.value.problem and word in error.value.context


def test_a_flag_with_a_blank_is_false_as_to_the_client(written):
    found, notes = parameters([written("readallfields=true \nrecordcount=5")])
    assert found["readallfields"] is False
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
    with pytest.raises(UsageError, match=r"not a (whole )?number"):
        parameters([written(text)])
    with pytest.raises(UsageError, match=r"not a (whole )?number"):
        given(dict([text.split("=")]))
