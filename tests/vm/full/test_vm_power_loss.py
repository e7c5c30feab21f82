"""Loss of power under TPC-C: what was told to be committed is on persistent memory afterwards.

QEMU is killed as its process: the machine's memory and processor caches are gone at once. Its
NVDIMMs are files of the host, which keeps what the guest has stored into them: what the guest's
processor would still have in its caches is there too (no missing cache flush can be found so),
what its kernel or its server had only in DRAM is not.
"""

import pytest
from vm_guest import play, probe
from vm_tpcc import GuestServer, drive_until_power_loss, load, tpcc, verdicts

pytestmark = pytest.mark.vm


@pytest.fixture(scope="module")
def server(vm):
    """Data on one NVDIMM, log on the other."""
    consent = {"confirm_destroy": True, "destroy": ["namespace0.0", "namespace1.0"]}
    done = play(vm, "setup-appdirect", consent)
    assert done.code == 0, done.out
    made = GuestServer(vm, "/mnt/pmem0/server/data", "/mnt/pmem1/server/wal")
    made.make()
    return made


@pytest.fixture(scope="module")
def survived(vm, server, tmp_path_factory):
    """Load, drive, lose the power, boot, recover, look."""
    params = tpcc()
    with server.served() as served:
        load(served, params)
        folder = tmp_path_factory.mktemp("journal")
        journal = drive_until_power_loss(vm, served, params, folder, seed=1)
    vm.boot()
    places = probe(vm, places=["/mnt/pmem0", "/mnt/pmem1"])["places"]
    with server.served() as served:
        durability, conditions = verdicts(served, journal)
    results = {"durability": durability, "conditions": conditions}
    return results | {"journal": journal, "places": places}


def test_both_file_systems_are_mounted_with_dax_after_the_boot(survived):
    kinds = [(place["kind"], place["dax"]) for place in survived["places"].values()]
    assert kinds == [("fsdax", True)] * 2


def test_every_committed_transaction_is_there(survived):
    assert len(survived["journal"].orders) > 0
    assert survived["journal"].payments.total() > 0
    verdict = {check.labels["transaction"]: check for check in survived["durability"]}
    for transaction in ("new_order", "payment"):
        assert verdict[transaction].status == "passed", verdict[transaction].detail
    assert verdict["delivery"].status != "failed", verdict["delivery"].detail


def test_the_twelve_conditions_hold_of_what_recovery_has_made(survived):
    statuses = [(check.status, check.detail) for check in survived["conditions"]]
    assert len(statuses) == 12
    assert {status for status, _ in statuses} == {"passed"}, statuses


def test_a_server_that_does_not_wait_for_its_log_is_found_to_lose(vm, server, survived, tmp_path):
    """The same with answers before the log is written: this test can see a loss.

    What is lost is the little that stands in the log's last, not yet full page.
    """
    lazy = ("synchronous_commit=off", "wal_writer_delay=10s", "wal_writer_flush_after=2GB")
    for seed in range(2, 12):  # just behind one of the log's writes nothing is lost
        with server.served(*lazy) as served:
            journal = drive_until_power_loss(vm, served, tpcc(), tmp_path / str(seed), seed)
        vm.boot()
        with server.served() as served:
            durability, _ = verdicts(served, journal)
        if any(check.status == "failed" for check in durability):
            return
    raise AssertionError(f"nothing was lost: {durability}")
