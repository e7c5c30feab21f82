"""CXL regions, there and back: on recorded listings, and on a simulated host.

What the recordings lack (health, decoders of two host bridges, a disabled device) is hand-written
JSON in the form of cxl-list(1).
"""

import json
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest
from recorded import recording
from simulated import Dax_, SimulatedHost, carried_out
from tierbench.change_builder import ChangeBuilder
from tierbench.changes import plan_changes
from tierbench.commands import Commands, Done
from tierbench.cxl import Fabric, Memdev, RootDecoder, parse_cxl
from tierbench.cxl_regions import selected_groups
from tierbench.desired_state import DesiredState, parse_desired_state
from tierbench.ndctl import parse_daxctl, parse_ndctl
from tierbench.record import load_record
from tierbench.run import Consent, Outcome
from tierbench.state import State
from tierbench.tools import packages_of

MIB = 1 << 20


def listed(name: str) -> str:
    return recording(name, "cxl-guests")


# Recorded listings -----------------------------------------------------------------


def test_devices_and_decoders_of_a_host_without_regions():
    fabric = parse_cxl(listed("debian13-blank-cxl"))
    assert {(d.name, d.host, d.serial, d.ram_bytes, d.pmem_bytes) for d in fabric.memdevs} == {
        ("mem0", "0000:0e:00.0", 258, 512 * MIB, 0),
        ("mem1", "0000:0f:00.0", 513, 0, 512 * MIB),
        ("mem2", "0000:0d:00.0", 257, 512 * MIB, 0),
    }
    (decoder,) = fabric.decoders
    assert (decoder.name, decoder.available_bytes) == ("decoder0.0", 4096 * MIB)
    assert decoder.types == {"ram", "pmem"}
    assert "pci0000:0c" in decoder.targets
    assert fabric.regions == ()


def test_regions_of_both_types_with_their_devices_in_order():
    fabric = parse_cxl(listed("debian13-regions-cxl"))
    assert [(r.name, r.type, r.ways, r.memdevs) for r in fabric.regions] == [
        ("region0", "ram", 2, ("mem2", "mem0")),
        ("region1", "pmem", 1, ("mem1",)),
    ]


def test_the_type_of_a_region_of_76_1_is_its_decoders():
    (region,) = parse_cxl(listed("debian12-cxl")).regions
    assert (region.name, region.type, region.size_bytes) == ("region0", "pmem", 512 * MIB)


@pytest.mark.parametrize("text", ["", "[]", "[\n]\n", "{}"])
def test_nothing_is_no_fabric(text):
    assert parse_cxl(text) == Fabric()


def test_one_object_is_as_good_as_an_array():
    device = {"memdev": "mem0", "ram_size": 1, "serial": 2**64 - 1, "host": "0000:0d:00.0"}
    assert parse_cxl(json.dumps(device)) == parse_cxl(json.dumps([{"memdevs": [device]}]))
    for name in ("debian12-daxctl", "debian12-daxctl-memory", "debian13-regions-daxctl"):
        array = json.loads(listed(name))
        assert parse_daxctl(json.dumps(array[0])) == parse_daxctl(json.dumps(array))
    region = json.loads(listed("debian12-ndctl"))["regions"][0]
    assert parse_ndctl(json.dumps(region)).regions == parse_ndctl(json.dumps([region])).regions


def test_memory_on_a_persistent_region_in_ndctls_listing():
    (namespace,) = parse_ndctl(listed("debian12-ndctl-memory")).namespaces
    assert (namespace.devices, namespace.chardev_mode) == (("dax0.0",), "system-ram")
    (device,) = parse_daxctl(listed("debian12-daxctl-memory"))
    assert (device.online_blocks, device.total_blocks, device.movable) == (3, 3, True)


@pytest.mark.parametrize("field", ["ram_size", "serial"])
def test_a_number_that_is_none_is_refused(field):
    with pytest.raises(ValueError, match="mem0"):
        parse_cxl(json.dumps([{"memdev": "mem0", "host": "x", field: "much"}]))


# Memory devices that no region may be on, hand-written ------------------------------


@pytest.mark.parametrize(
    ("more", "fault"),
    [
        ({"state": "disabled"}, "disabled"),
        ({"health": {"media_data_lost": True}}, "media_data_lost"),
        ({"health": {"hw_replacement_needed": True, "media_normal": True}}, "hw_replacement"),
        ({"health": {"media_normal": True, "performance_degraded": True}}, None),
        ({"ram_size": None, "pmem_size": 5}, "cxl_type=pmem"),
    ],
)
def test_a_device_that_is_refused_by_name(more, fault):
    device = {"memdev": "mem0", "ram_size": 4, "serial": 1, "host": "0000:0d:00.0", **more}
    builder = ChangeBuilder(
        State(fabric=parse_cxl(json.dumps([device]))), DesiredState("cxl", memdevs=("mem0",))
    )
    groups = selected_groups(builder)
    assert [len(group) for group in groups] == ([] if fault else [1])
    reported = [(each.object, f"{each.why} {each.do}") for each in builder.refusals]
    assert all(name == "mem0" for name, _ in reported)
    assert any(fault in words for _, words in reported) if fault else reported == []


@pytest.mark.parametrize(
    ("setting", "value"),
    [("ways", 5), ("granularity", 100), ("type", "dram"), ("use", "files"), ("decoder", "first"),
     ("memdevs", ["dax0.0"])],
)  # fmt: skip
def test_settings_that_cannot_be(setting, value):
    with pytest.raises(ValueError, match=setting):
        parse_desired_state({"mode": "cxl", setting: value})


def test_where_the_tool_is():
    class Apt(Commands):
        def __init__(self, rc: int | None) -> None:
            self.rc = rc

        def has(self, program: str) -> bool:
            return self.rc is not None

        def run(self, argv: object) -> Done:
            return Done(self.rc or 0, "", "")

    packages = [packages_of(("cxl", "mkfs.xfs"), Apt(rc)) for rc in (0, 100, None)]
    assert packages == [["cxl", "xfsprogs"], ["ndctl", "xfsprogs"], ["cxl-cli", "xfsprogs"]]


# Whole runs ------------------------------------------------------------------------


@dataclass
class CxlHost(SimulatedHost):
    """Two volatile devices below one host bridge. ``reply``: what ``cxl create-region`` answers
    instead of creating one.
    """

    memdevs: dict[str, int] = field(default_factory=lambda: {"mem0": 0x0E, "mem1": 0x0D})
    cxl_regions: dict[str, list[str]] = field(default_factory=dict)
    reply: Done | None = None
    version: str = "81"
    kernel_types: tuple[str, ...] = ("ram", "pmem")
    #: Which zone another agent puts new memory online in, before daxctl can.
    onlines: str | None = None

    def write_cxl(self) -> None:
        for name, bus in self.memdevs.items():
            at = self.root / f"sys/devices/pci0000:0c/0000:{bus:02x}:00.0/{name}"
            at.mkdir(parents=True, exist_ok=True)
            self._link(name, at)
        decoder = self.root / "sys/devices/platform/ACPI0017:00/root0/decoder0.0"
        decoder.mkdir(parents=True, exist_ok=True)
        for each in self.kernel_types:
            (decoder / f"create_{each}_region").touch()
        self._link("decoder0.0", decoder)

    def _link(self, name: str, to) -> None:
        link = self.root / "sys/bus/cxl/devices" / name
        link.parent.mkdir(parents=True, exist_ok=True)
        if not link.is_symlink():
            link.symlink_to(to)

    def _cxl(self, words: list[str]) -> Done:
        self.write_cxl()
        answer: Callable[[list[str]], Done] = getattr(self, f"_cxl_{words[1].replace('-', '_')}")
        return answer(words)

    def _cxl_version(self, words: list[str]) -> Done:
        return Done(0, f"{self.version}\n", "")

    def _cxl_list(self, words: list[str]) -> Done:
        memdevs = [
            {"memdev": n, "ram_size": 512 * MIB, "serial": 7, "host": f"0000:{bus:02x}:00.0"}
            for n, bus in self.memdevs.items()
        ]
        decoder = {
            "decoder": "decoder0.0",
            "max_available_extent": (4 - len(self.cxl_regions)) * 1024 * MIB,
            "volatile_capable": True,
            "targets": [{"target": "ACPI0016:00", "alias": "pci0000:0c"}],
            "regions:decoder0.0": [
                {
                    **{"region": name, "type": "ram", "size": 512 * MIB * len(over)},
                    **{"interleave_ways": len(over), "interleave_granularity": 256},
                    **{"decode_state": "commit"},
                    "mappings": [{"position": n, "memdev": m} for n, m in enumerate(over)],
                }
                for name, over in self.cxl_regions.items()
            ],
        }
        return Done(0, json.dumps([{"memdevs": memdevs}, {"root decoders": [decoder]}]), "")

    def _cxl_create_region(self, words: list[str]) -> Done:
        if self.reply is not None:
            return self.reply
        over = [word for word in words if word.startswith("mem")]
        name = next(n for i in range(9) if (n := f"region{i}") not in self.cxl_regions)
        self.cxl_regions[name] = over
        below = f"platform/ACPI0017:00/root0/decoder0.0/{name}"
        folder = self.root / "sys/devices" / below
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "commit").write_text("1\n")
        (folder / "driver").touch()
        self._link(name, folder)
        number = name[-1]
        made = Dax_(f"dax{number}.0", f"{below}/dax_{name}", mode="system-ram", node=1)
        if self.onlines:
            made.online, made.movable = made.blocks, self.onlines == "movable"
        self.devices[made.name] = made
        return Done(0, "", "created 1 region")

    def _cxl_disable_region(self, words: list[str]) -> Done:
        return Done(0, "", "disabled 1 region")

    def _cxl_destroy_region(self, words: list[str]) -> Done:
        self.cxl_regions.pop(words[-1])
        device = self.devices.pop(f"dax{words[-1][-1]}.0")
        (self.root / "sys/bus/dax/devices" / device.name).unlink()
        (self.root / "sys/bus/cxl/devices" / words[-1]).unlink()
        return Done(0, "", "destroyed 1 region")

    def _daxctl_reconfigure_device(self, words: list[str]) -> Done:
        done = super()._daxctl_reconfigure_device(words)
        self.devices[words[-1]].movable = "--no-movable" not in words
        return done

    def _daxctl_online_memory(self, words: list[str]) -> Done:
        self.devices[words[-1]].movable = "--no-movable" not in words
        return super()._daxctl_online_memory(words)

    def changes(self) -> list[list[str]]:
        """The commands that change something."""
        reading = (["cxl", "list"], ["cxl", "version"])
        return [words for words in self.ran if words[:2] not in reading]

    def lose_regions(self) -> None:
        """A restart."""
        for name in list(self.cxl_regions):
            self._cxl_destroy_region([name])
        self.restart()


@pytest.fixture
def host(tmp_path):
    made = CxlHost(tmp_path)
    made.write_cxl()
    made.restart()
    made.write_tree()
    return made


BOTH = Consent(True, ("mem0", "mem1"))


def cxl(host: CxlHost, consent: Consent = BOTH, **desired) -> Outcome:
    return host.provision(consent, mode="cxl", **desired)


def reported(outcome: Outcome) -> str:
    return "; ".join(
        f"{each.object}: {each.why} ({each.do})" for each in outcome.refusals + outcome.failures
    )


def test_nothing_is_created_that_was_not_confirmed(host):
    outcome = cxl(host, Consent())
    assert outcome.destroy == ["mem1", "mem0"]  # by their addresses
    assert outcome.changed is False
    assert host.changes() == []


@pytest.mark.parametrize("use", ["system-ram", "devdax"])
def test_there_and_back_without_a_change_the_second_time(host, use):
    outcome = carried_out(cxl(host, use=use))
    assert [s["do"] for s in outcome.steps].count("create-cxl-region") == 2
    assert host.cxl_regions == {"region0": ["mem1"], "region1": ["mem0"]}
    assert {d.mode for d in host.devices.values()} == {use}
    ran = len(host.changes())
    assert cxl(host, Consent(), use=use).steps == []
    assert carried_out(cxl(host, Consent(verify_only=True), use=use)).steps == []
    assert len(host.changes()) == ran
    # A program's data may be in a device, and not in memory.
    consent = Consent(True, ("dax0.0", "dax1.0")) if use == "devdax" else Consent()
    if use == "devdax":
        assert "confirm_destroy" in reported(host.teardown())
    carried_out(host.teardown(consent))
    assert (host.cxl_regions, host.devices) == ({}, {})
    assert not host.files.record.exists() and not host.files.host_file.exists()
    assert carried_out(host.teardown()).steps == []


def test_devices_of_one_node_are_one_tier(host):
    outcome = carried_out(cxl(host))
    (tier,) = outcome.tiers
    assert (tier["base"], tier["node"]) == ("cxl", 1)


def test_interleaved_in_the_order_that_is_named(host):
    carried_out(cxl(host, memdevs=["mem0", "0000:0d:00.0"], ways=2, granularity=256))
    (create,) = [words for words in host.changes() if words[:2] == ["cxl", "create-region"]]
    assert create[2:] == ["-m", "-t", "ram", "-d", "decoder0.0", "-w", "2", "-g", "256",
                          "mem0", "mem1"]  # fmt: skip
    assert "not 512" in reported(cxl(host, ways=2, granularity=512))
    assert "region0" in reported(cxl(host, ways=1))
    assert "cannot be divided" in reported(cxl(host, memdevs=["mem0"], ways=2))


def test_the_zone_is_as_requested_and_changes_by_releasing_the_memory(host):
    carried_out(cxl(host, movable=False))
    assert [d.movable for d in host.devices.values()] == [False, False]
    carried_out(cxl(host, Consent()))
    assert [d.movable for d in host.devices.values()] == [True, True]


def test_memory_that_another_agent_puts_online_in_another_zone(host):
    host.onlines = "kernel"
    outcome = cxl(host, use="devdax")
    assert outcome.failures == []  # released at once
    host.lose_regions()
    host.onlines = "movable"
    assert carried_out(cxl(host)).changed


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"version": "76.1"}, "cxl 77"),
        ({"kernel_types": ("pmem",)}, "create_ram_region"),
        ({"memdevs": {}}, "no memory device"),
    ],
)
def test_known_beforehand_and_refused(tmp_path, change, words):
    host = CxlHost(tmp_path, **change)
    host.restart()
    assert words in reported(cxl(host, Consent(True, tuple(host.memdevs))))
    assert host.changes() == []


@pytest.mark.parametrize(("memdevs", "hint"), [({"mem0": 0x0E}, "cxl_type=ram"), ({}, "modprobe")])
def test_the_type_that_is_advised_is_another_one(tmp_path, memdevs, hint):
    host = CxlHost(tmp_path, memdevs=memdevs)
    host.restart()
    (refusal,) = cxl(host, type="pmem").refusals
    assert hint in refusal.do and "cxl_type=pmem" not in refusal.do


@pytest.mark.parametrize("policy", ["online", "online_kernel", "online_movable"])
def test_memory_that_the_kernel_would_put_online_is_not_added(host, policy):
    file = host.root / "sys/devices/system/memory/auto_online_blocks"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(f"{policy}\n")
    assert "memhp_default_state=offline" in reported(cxl(host))
    assert host.changes() == []


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        # As recorded: nothing is created, and the exit status is 0.
        (Done(0, "", "cxl region: create_region: region type 'ram' not supported yet"), "cxl 77"),
        (Done(1, "", "region0: failed to commit decode: No such device"), "hypervisor=off"),
        (Done(0, "", "cxl region: cmd_create_region: created 0 regions"), "dmesg"),
    ],
)
def test_a_region_that_does_not_come_to_be_is_a_failure_in_the_tools_words(host, reply, words):
    host.reply = reply
    outcome = cxl(host)
    (failure,) = outcome.failures
    assert reply.err in failure.why
    assert words in failure.do
    assert load_record(host.files.record).cxl == {}
    host.reply = None
    carried_out(cxl(host))


def test_after_a_restart_the_same_devices_need_no_consent(host):
    carried_out(cxl(host))
    host.lose_regions()
    outcome = carried_out(cxl(host, Consent()))
    assert [s["do"] for s in outcome.steps].count("create-cxl-region") == 2
    host.lose_regions()
    assert carried_out(host.teardown()).failures == []
    assert not host.files.record.exists()


def test_a_region_of_another_origin_is_left_alone(host):
    host._cxl_create_region(["mem0", "mem1"])
    host.write_tree()
    assert "setup-system-ram.yml" in reported(cxl(host))
    carried_out(host.teardown())
    assert host.cxl_regions == {"region0": ["mem0", "mem1"]}


@pytest.mark.parametrize("number", range(2, 9))
@pytest.mark.parametrize("where", ["cut_at", "cut_after"])
def test_an_interrupted_run_is_resumed(host, number, where):
    host.kill(lambda: cxl(host), **{where: number})
    carried_out(cxl(host))
    assert {d.online for d in host.devices.values()} == {8}
    carried_out(host.teardown())
    assert not host.files.record.exists()


def test_two_host_bridges_and_a_decoder_for_each():
    """Hand-written: no machine at hand has two."""
    devices = tuple(
        Memdev(f"mem{n}", f"0000:{n}d:00.0", n, ram_bytes=MIB, bridge=f"pci0000:{n}c")
        for n in (0, 1)
    )
    types = frozenset({"ram"})
    decoders = tuple(
        RootDecoder(f"decoder0.{n}", 8 * MIB, frozenset({f"pci0000:{n}c"}), types, types)
        for n in (0, 1)
    )
    state = State(fabric=Fabric(devices, decoders))
    steps = plan_changes(state, DesiredState("cxl")).steps
    made = [step.args["argv"] for step in steps if step.do == "create-cxl-region"]
    assert [(argv[6], argv[-1]) for argv in made] == [
        ("decoder0.0", "mem0"), ("decoder0.1", "mem1"),
    ]  # fmt: skip
    (refusal,) = plan_changes(state, DesiredState("cxl", ways=2)).refusals
    assert "pci0000:1c" in refusal.why
    small = replace(state, fabric=Fabric(devices, (replace(decoders[0], available_bytes=1),)))
    (refusal,) = plan_changes(small, DesiredState("cxl", memdevs=("mem0",))).refusals
    assert "1 bytes free" in refusal.why
