"""The papers' conclusions, in their order: what each says, and what it is tested on."""

from __future__ import annotations

from reports.conclusions.comparisons import Compared, FewerOfMost, GainUnder
from reports.conclusions.devices import (
    BelowDevice,
    DimmSize,
    HostState,
    IndexGain,
    Instructions,
    MoreDimms,
    Practice,
    PricePerformance,
    Unflushed,
    number_in,
    switched_on,
)
from reports.conclusions.model import AnyOf, Conclusion

_SSD, _PMEM, _NODAX = ({"placement": f"{tier}-both"} for tier in ("ssd", "pmem", "pmem_nodax"))
_PMEM_OVER_SSD = Compared(_SSD, _PMEM)


def _profile(name: str) -> str:
    return f"harness experiment run papers/nvm-for-databases/{name}"


def _suite(name: str, *tiers: str, options: str = "") -> str:
    named = " ".join(f"--tier {tier}" for tier in tiers or ("pmem",))
    return f"harness run micro --suite {name} {named}{options}"


#: Section 7.1 of "NVM: Is it Not Very Meaningful for Databases?" (VLDB 2023).
OF_ENGINES = (
    Conclusion(
        "nvm-for-databases",
        "7.1 (i)",
        "Memory mode does not offer a significant performance advantage.",
        "speed-up of Memory mode over Default",
        "below",
        Compared(
            {**_SSD, "host_mode": "Default|AppDirect"},
            {**_SSD, "host_mode": "Memory"},
            ("host_mode", "tuning", "memory_limit"),
        ),
        _profile("fig2"),
    ),
    Conclusion(
        "nvm-for-databases",
        "7.1 (ii)",
        "Gains of PMem over SSDs can be due to applications that do not read asynchronously.",
        "gain of PMem with synchronous I/O over its gain with asynchronous I/O",
        "above",
        AnyOf(
            tuple(
                GainUnder(_PMEM_OVER_SSD, {setting: sync}, {setting: asynchronous}, setting)
                for setting, sync, asynchronous in (
                    ("settings.innodb_use_native_aio", "OFF", "ON"),
                    ("settings.io_method", "sync", "worker|io_uring"),
                )
            )
        ),
        _profile("async-io"),
    ),
    Conclusion(
        "nvm-for-databases",
        "7.1 (iii)",
        "The advantage of PMem in AppDirect mode is smaller than that of the hardware.",
        "speed-up of PMem over SSD against the ratio of their reads",
        "below",
        BelowDevice(_PMEM_OVER_SSD, "ssd", "pmem"),
        f"{_suite('nvm-for-databases/table4', 'ssd', 'pmem')}; {_profile('fig2')}",
    ),
    Conclusion(
        "nvm-for-databases",
        "7.1 (iv)",
        "PMem in AppDirect mode is less useful where resources are limited.",
        "gain of PMem on a socket over its gain on one processor",
        "above",
        GainUnder(_PMEM_OVER_SSD, {"cpus": "socket:*"}, {"cpus": "0"}, "cpus"),
        _profile("one-core"),
    ),
    Conclusion(
        "nvm-for-databases",
        "7.1 (v)",
        "PMem requires tuning for write or mixed workloads.",
        "on PMem: best of fewer threads over most, doublewrite off over on",
        "above",
        AnyOf(
            (
                FewerOfMost({**_PMEM, "workload": "ycsb", "params.workload": "a|b"}, "threadcount"),
                FewerOfMost(_PMEM, "settings.innodb_write_io_threads"),
                Compared(
                    {**_PMEM, "settings.innodb_doublewrite": "ON"},
                    {**_PMEM, "settings.innodb_doublewrite": "OFF"},
                    ("settings.innodb_doublewrite",),
                ),
            )
        ),
        _profile("fig6"),
        of="some",
    ),
    Conclusion(
        "nvm-for-databases",
        "7.1 (vi)",
        "Optimisations for SSDs and disks offer no advantage on PMem.",
        "on PMem: WAL compression on over off, page cache over DAX, O_DIRECT over fsync",
        "below",
        AnyOf(
            (
                Compared(
                    {**_PMEM, "settings.wal_compression": "off"},
                    {**_PMEM, "settings.wal_compression": "on"},
                    ("settings.wal_compression",),
                ),
                Compared(_PMEM, _NODAX),
                Compared(
                    {**_PMEM, "settings.innodb_flush_method": "fsync"},
                    {**_PMEM, "settings.innodb_flush_method": "O_DIRECT"},
                    ("settings.innodb_flush_method",),
                ),
            )
        ),
        _profile("fig8"),
    ),
    Conclusion(
        "nvm-for-databases",
        "7.1 (vii)",
        "Placing only the log on PMem does not increase performance significantly.",
        "speed-up of the log on PMem over all on SSD",
        "below",
        Compared({**_SSD, "workload": "tpcc"}, {"placement": "ssd-data-pmem-wal"}),
        _profile("table5"),
    ),
)

#: Section 5 of "An Empirical Guide to the Behavior and Use of Scalable Persistent Memory".
PRACTICES = tuple(
    Conclusion(
        "empirical-guide",
        f"5.{number}",
        statement,
        ratio,
        "above",
        Practice(number),
        _suite("device-card", options=" --repeats 11"),
        of="some",
    )
    for number, (statement, ratio) in enumerate(
        (
            ("Avoid random accesses of less than 256 B.", "256 B over 64 B at random places"),
            (
                "Use non-temporal stores for large transfers, and control cache evictions.",
                "ntstore over store+clwb, store+clwb over store",
            ),
            ("Limit the number of concurrent threads.", "best of fewer threads over most"),
            ("Avoid NUMA accesses, especially mixed and multi-threaded.", "near over far"),
        ),
        start=1,
    )
)

#: PerMA-Bench's instructions that persist.
_PERSIST = ("store+clwb", "store+clflushopt", "ntstore")
_OF_DIMMS = {"measurement": ("sequential_reads", "random_reads", "sequential_writes")}
#: Section 6 of PerMA-Bench (VLDB 2022): eight aspects and price-performance.
OF_DEVICES = (
    Conclusion(
        "perma-bench",
        "6 (1)",
        "The size of DIMMs affects performance, not only capacity.",
        "bandwidth of one size over another",
        "above",
        DimmSize(_OF_DIMMS),
        f"{_suite('perma-bench/raw')}, on both hosts",
        of="some",
    ),
    Conclusion(
        "perma-bench",
        "6 (2)",
        "A higher power budget of the DIMMs improves write bandwidth.",
        "sequential writes with more power over less",
        "above",
        HostState("power budget", number_in, {"measurement": "sequential_writes"}),
        _suite("perma-bench/raw/sequential_writes"),
        of="some",
    ),
    Conclusion(
        "perma-bench",
        "6 (3)",
        "More DIMMs give more bandwidth.",
        "bandwidth of more interleaved DIMMs over fewer",
        "above",
        MoreDimms(_OF_DIMMS),
        _suite("perma-bench-figures/fig15", "pmem", "pmem_ni"),
    ),
    Conclusion(
        "perma-bench",
        "6 (4)",
        "The speed of the memory bus does not affect PMem.",
        "reads and writes with a faster bus over a slower",
        "below",
        HostState("memory bus", number_in, _OF_DIMMS),
        _suite("perma-bench/raw"),
    ),
    Conclusion(
        "perma-bench",
        "6 (5)",
        "Existing indexes do not fully use what newer DIMMs give.",
        "an index's gain by other DIMMs, its accesses' smallest gain",
        "below",
        IndexGain({"measurement": ("random_reads", "random_writes")}),
        f"{_suite('bento/fig2')}; {_suite('perma-bench/raw')}, on both hosts",
    ),
    Conclusion(
        "perma-bench",
        "6 (6)",
        "The persist instruction decides the bandwidth of random writes.",
        "best over worst instruction that persists",
        "above",
        Instructions({"measurement": "random_writes"}, _PERSIST, _PERSIST),
        _suite("perma-bench/raw/random_writes", options=" --repeats 12"),
        of="some",
    ),
    Conclusion(
        "perma-bench",
        "6 (7)",
        "Omitting flushes, as eADR allows, does not always give the best performance.",
        "writes with flushes (or non-temporal) over writes without",
        "above",
        AnyOf(
            (
                Instructions(
                    {"measurement": ("random_writes", "sequential_writes")},
                    _PERSIST,
                    ("store",),
                ),
                Unflushed(),
            )
        ),
        _suite("perma-bench/raw/random_writes", options=" --repeats 12"),
        of="some",
    ),
    Conclusion(
        "perma-bench",
        "6 (8)",
        "The prefetchers have a negative impact on some workloads.",
        "random reads with prefetchers over those without",
        "below",
        HostState("prefetchers", switched_on, {"measurement": "prefetched_reads"}),
        _suite("perma-bench-figures/fig13"),
        bound=1 / 1.1,
        of="some",
    ),
    Conclusion(
        "perma-bench",
        "6",
        "The price-performance of PMem is competitive with that of DRAM, or better.",
        "reads per price of a GB, PMem over DRAM",
        "above",
        PricePerformance(
            (
                {"pattern": "sequential", "operation": "load", "access_size_bytes": "4096"},
                {"pattern": "random", "operation": "load", "access_size_bytes": "256"},
            )
        ),
        _suite("perma-bench/raw", "dram", "pmem"),
        bound=1 / 1.1,
    ),
)

#: Every conclusion, by paper.
CONCLUSIONS: tuple[Conclusion, ...] = (*OF_ENGINES, *PRACTICES, *OF_DEVICES)
