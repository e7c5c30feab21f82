"""Settings of a host are changed with their old values on record, and put back."""

import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from tierbench import host_settings as settings
from tierbench.commands import Refused

CPU = "sys/devices/system/cpu"
GOVERNOR = f"{CPU}/cpufreq/policy0/scaling_governor"
TURBO = f"{CPU}/intel_pstate/no_turbo"
NUMA = "proc/sys/kernel/numa_balancing"
BOOT = "proc/sys/kernel/random/boot_id"


@pytest.fixture
def tree(tmp_path):
    """The files of a server with two frequency policies, made by hand."""
    root = tmp_path / "root"
    files = {
        GOVERNOR: "powersave",
        f"{CPU}/cpufreq/policy0/scaling_available_governors": "performance powersave",
        f"{CPU}/cpufreq/policy0/scaling_max_freq": "3900000",
        f"{CPU}/cpufreq/policy0/cpuinfo_min_freq": "1000000",
        f"{CPU}/cpufreq/policy0/cpuinfo_max_freq": "3900000",
        f"{CPU}/cpufreq/policy10/scaling_governor": "powersave",
        f"{CPU}/cpufreq/policy2/scaling_governor": "powersave",
        TURBO: "0",
        NUMA: "1",
        "proc/sys/kernel/perf_event_paranoid": "2",
        BOOT: "boot-one",
        "proc/cpuinfo": "vendor_id : GenuineIntel\n",
    }
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"{text}\n")
    register = root / "dev/cpu/0/msr"
    register.parent.mkdir(parents=True)
    register.write_bytes(bytes(0x1A4) + struct.pack("<Q", 0x20) + bytes(16))
    return root


@pytest.fixture
def record(tmp_path, tree):
    path = str(tmp_path / "state" / "host-settings.json")
    return lambda: settings.Record(path, settings.Host(str(tree)))


def text(tree: Path, name: str) -> str:
    return (tree / name).read_text().strip()


def tune(tree: Path, record: settings.Record, **requested) -> list[settings.Missing]:
    host = settings.Host(str(tree))
    chosen, missing = settings.find_settings(requested, host)
    settings.apply(settings.plan(chosen, host), record, host)
    return missing


def restore(tree: Path, record: Callable[[], settings.Record]) -> None:
    settings.restore(record(), settings.Host(str(tree)))


def test_old_values_come_back(tree, record):
    before = {name: text(tree, name) for name in (GOVERNOR, TURBO, NUMA)}
    tune(tree, record(), governor="performance", turbo=False, numa_balancing=False)
    assert [text(tree, name) for name in (GOVERNOR, TURBO, NUMA)] == ["performance", "1", "0"]
    restore(tree, record)
    assert {name: text(tree, name) for name in before} == before
    assert not Path(record().path).exists()


def test_what_ansible_s_command_line_gives_is_text(tree, record):
    """``-e tune_host_turbo=false`` is the word, which is no empty one."""
    demotion = "sys/kernel/mm/numa/demotion_enabled"
    (tree / demotion).parent.mkdir(parents=True)
    (tree / demotion).write_text("true\n")
    given = {"turbo": "false", "numa_balancing": "False", "memory_demotion": "off",
             "frequency_khz": "2000000", "perf_event_paranoid": "-1"}  # fmt: skip
    for name in ("policy2", "policy10"):
        (tree / CPU / "cpufreq" / name / "scaling_max_freq").write_text("3900000\n")
    missing = tune(tree, record(), **given)
    assert missing == []
    assert text(tree, TURBO) == "1"  # no_turbo
    assert text(tree, NUMA) == "0"
    assert text(tree, demotion) == "false"
    assert text(tree, f"{CPU}/cpufreq/policy0/scaling_max_freq") == "2000000"
    assert text(tree, "proc/sys/kernel/perf_event_paranoid") == "-1"


@pytest.mark.parametrize(
    "requested",
    [{"turbo": "null"}, {"turbo": 2}, {"memory_demotion": ""}, {"prefetchers": "some"},
     {"frequency_khz": "2GHz"}, {"numa_balancing": "maybe"}],
)  # fmt: skip
def test_a_value_that_is_none_is_refused(tree, requested):
    with pytest.raises(Refused, match="true"):
        settings.find_settings(requested, settings.Host(str(tree)))


def test_the_first_old_value_stays_on_record(tree, record):
    tune(tree, record(), perf_event_paranoid=1)
    tune(tree, record(), perf_event_paranoid=-1)
    restore(tree, record)
    assert text(tree, "proc/sys/kernel/perf_event_paranoid") == "2"


def test_a_second_time_nothing_is_left_to_do(tree, record):
    host = settings.Host(str(tree))
    chosen, _ = settings.find_settings({"governor": "performance", "turbo": False}, host)
    assert len(settings.plan(chosen, host)) == 4  # three policies and turbo
    settings.apply(settings.plan(chosen, host), record(), host)
    assert settings.plan(chosen, host) == []


def test_old_values_are_on_disk_before_anything_is_written(tree, record, monkeypatch):
    seen: list[list[str]] = []

    def write(_: settings.Host, setting: settings.Setting) -> None:
        seen.append([entry.old for entry in record().entries])
        raise OSError(f"{setting.what} will not be {setting.value}")

    monkeypatch.setattr(settings.Host, "write", write)
    with pytest.raises(OSError, match=r"numa_balancing.*to 0"):
        tune(tree, record(), numa_balancing=False)
    assert seen == [["1"]]


@pytest.mark.parametrize(
    ("requested", "words"),
    [
        ({"governor": "fast"}, "policy0/scaling_governor: no governor 'fast'"),
        ({"frequency_khz": 5}, "policy0/scaling_max_freq: 5 kHz lies outside"),
        ({"governer": "performance"}, "governer: no such setting"),
    ],
)
def test_refused_before_anything_is_written(tree, record, requested, words):
    before = text(tree, NUMA)
    with pytest.raises(Refused, match=words):
        tune(tree, record(), numa_balancing=False, **requested)
    assert text(tree, NUMA) == before


def test_prefetchers_leave_the_other_bits_of_the_register(tree, record):
    register = tree / "dev/cpu/0/msr"

    def bits() -> int:
        return int(struct.unpack_from("<Q", register.read_bytes(), 0x1A4)[0])

    tune(tree, record(), prefetchers=False)
    assert bits() == 0x2F
    restore(tree, record)
    assert bits() == 0x20


def test_a_record_of_an_earlier_boot_restores_nothing(tree, record):
    tune(tree, record(), numa_balancing=False)
    (tree / BOOT).write_text("boot-two\n")
    assert record().gone_with_the_boot == 1
    assert settings.plan_restore(record(), settings.Host(str(tree))) == []
    restore(tree, record)
    assert text(tree, NUMA) == "0"


def test_all_that_can_be_put_back_is(tree, record):
    tune(tree, record(), numa_balancing=False, turbo=False)
    (tree / NUMA).unlink()
    with pytest.raises(OSError, match="numa_balancing to 1"):
        restore(tree, record)
    assert text(tree, TURBO) == "0"
    assert [entry.what for entry in record().entries] == ["automatic NUMA balancing"]


def test_what_somebody_else_has_set_since_is_told(tree, record):
    tune(tree, record(), governor="performance")
    (tree / GOVERNOR).write_text("schedutil\n")
    changes = settings.plan_restore(record(), settings.Host(str(tree)))
    (step,) = [c.to_json() for c in changes if c.setting.path.endswith("policy0/scaling_governor")]
    assert "performance" in step["why"]
