"""Property files of the official client, as ``java.util.Properties`` reads them."""

from __future__ import annotations

import pytest

from harness.errors import UsageError
from harness.workloads.ycsb.options import normalise
from harness.workloads.ycsb.properties import parameters, read

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
    found, told = parameters([written(WORKLOAD_E)])
    assert told == []
    params = normalise(found)
    assert params["workload"] == "e"
    assert (params["recordcount"], params["operationcount"]) == (1000, 1000)
    assert params["duration"] is None


def test_the_later_file_counts(written):
    more = written("recordcount=7", "more")
    assert parameters([written(WORKLOAD_E), more])[0]["recordcount"] == 7
    assert parameters([more, written(WORKLOAD_E)])[0]["recordcount"] == 1000


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


def test_what_has_no_effect_here_is_told(written):
    file = written(
        "measurementtype=hdrhistogram\nhdrhistogram.percentiles=95\nrocksdb.dir=/x\n"
        "db=site.ycsb.db.rocksdb.RocksDBClient\ntable=usertable\nmine=1\nmaxexecutiontime=20"
    )
    found, told = parameters([file])
    assert found == {"duration": "20s"}
    names = [line.split(": ")[1].split()[0] for line in told]
    assert names == ["measurementtype", "hdrhistogram.percentiles", "rocksdb.dir", "db", "mine"]
    assert "--engine" in told[3]
    assert "--option" in told[2]


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
    assert words in " ".join((error.value.asked, error.value.found, error.value.do))
    assert "workload" in error.value.asked


def test_a_file_that_cannot_be_read(tmp_path):
    with pytest.raises(UsageError, match="No such file"):
        parameters([tmp_path / "none"])
    with pytest.raises(UsageError, match="Is a directory"):
        parameters([tmp_path])
