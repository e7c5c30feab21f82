"""Device models as files: the keys of a model's YAML, with their types, bounds and help."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from msgspec import Meta, field

from harness.structs import Struct, whole, written

_Duration = Annotated[str, whole("([0-9]*[.])?[0-9]+ *(ns|us|ms|s)", "a duration, such as 90us")]
_Bytes = Annotated[str, whole("([0-9]*[.])?[0-9]+ *[KMGT]i?B", "bytes, such as 20MB")]
_Rate = Annotated[
    str, whole("([0-9]*[.])?[0-9]+ *[KMGT]i?B/s", "bytes per second, such as 550MB/s")
]
_Operation = Literal["read", "write", "sync"]
_Service = Literal["read", "write", "sync", "grown_sync"]
_Direction = Literal["read", "write"]
Directions = Literal["shared", "separate"]
_Text = Annotated[str, Meta(min_length=1)]
#: Three or more quantiles (p50, p99, p99.999), a mean, or both, and where they are from; ``means``
#: are between each two quantiles, as `harness model make` writes them; ``rate`` is that of all
#: requests of the size together.
_Figures = Annotated[
    Mapping[
        Annotated[
            str,
            whole("p[0-9]+([.][0-9]+)?|mean|means|rate|source", "p50, p99.9, mean, rate or source"),
        ],
        str | tuple[_Duration, ...],
    ],
    Meta(min_length=1, description="quantiles such as p50: 90us, a mean: 90us, or both"),
]
_Size = Annotated[str, whole("[0-9]+ *([KMG]i?)?B", "a size, such as 4KiB")]
_Sizes = Annotated[
    Mapping[_Size, _Figures],
    Meta(min_length=1, max_length=8, description="durations by size; at most 8 sizes"),
]


class MeasuredTier(Struct, frozen=True):
    """The tier of a host that a model was made of."""

    tier: str
    host_id: str


class ExtraDocument(Struct, frozen=True):
    """By how much a call takes longer, and its processor time."""

    longer: _Duration
    processor: _Duration


class InodeDocument(ExtraDocument, frozen=True):
    """The same of a sync that writes its file's inode, and how much longer it is elsewhere."""

    elsewhere: _Duration = written("0ns")


class BusyDocument(Struct, frozen=True):
    """A call's processor time, and that outside of its thread, where others want the processor."""

    processor: _Duration
    outside: _Duration


class WriteBufferDocument(Struct, frozen=True):
    """Memory in which the device completes writes, and the bytes that it programs at a time."""

    size: _Bytes
    program_size: _Bytes
    program: _Duration


class DeviceDocument(
    Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="schema", tag=1
):
    """Service times of a device, one request at a time (profiles/devices)."""

    documented = "docs/models.md"
    name: Annotated[
        str,
        whole("[a-z0-9][a-z0-9-]*", "small letters, digits and dashes, as the file is named"),
    ]
    description: Annotated[_Text, Meta(description="the device in a line")]
    basis: Annotated[
        Literal["measured", "published", "target"],
        Meta(
            description="measured (on a tier), published (measured by others), or target "
            "(promised by a vendor)"
        ),
    ]
    source: Annotated[_Text, Meta(description="where the figures are from")]
    page_cache: Annotated[
        bool,
        Meta(description="whether files are buffered in memory, as on a block device; false: DAX"),
    ]
    readahead: Annotated[
        str,
        whole("[0-9]+ *[KM]iB", "the most that Linux reads ahead, such as 128KiB (the default)"),
    ] = written("128KiB")
    fill: Annotated[
        _Duration,
        Meta(
            description="processor time of a page of 4 KiB that is not in the page cache, to "
            "allocate and copy it, such as 1.5us"
        ),
    ] = written("0ns")
    processor: Annotated[
        Mapping[_Operation, _Duration],
        Meta(
            min_length=1,
            description="the kernel's processor time of a request of 4 KiB, such as sync: 34us",
        ),
    ] = field(default_factory=dict)
    after_work: Annotated[
        Mapping[_Operation, ExtraDocument],
        Meta(
            min_length=1,
            description="by how much a call takes longer, and its processor time, after its thread "
            "worked 300 us",
        ),
    ] = field(default_factory=dict)
    after_pause: Annotated[
        Mapping[_Duration, Annotated[Mapping[_Operation, ExtraDocument], Meta(min_length=1)]],
        Meta(
            min_length=1,
            max_length=4,
            description="by how much a call takes longer, and its processor time, after pauses of "
            "these lengths, such as 4ms; at most 4",
        ),
    ] = field(default_factory=dict)
    inode_write: Annotated[
        InodeDocument | None,
        Meta(
            description="by how much a sync takes longer that writes the file's inode, as file "
            "systems without a journal do where the file's end or time has changed; elsewhere: as "
            "of other requests"
        ),
    ] = None
    sync_waits: Annotated[
        float,
        Meta(
            ge=1,
            le=16,
            description="how often a sync waits for a processor where others want it and a read "
            "waits once: for its writes, and for the flush of a volatile cache",
        ),
    ] = written(2.0)
    in_engine: Annotated[
        bool,
        Meta(
            description="whether the durations are those of an engine's calls, with the copying "
            "from the page cache and the waiting for processors"
        ),
    ] = written(False)
    parallel: Annotated[
        int, Meta(ge=1, le=64, description="requests that the device serves at once")
    ]
    longer_at_depth: Annotated[
        Mapping[_Size, Annotated[tuple[_Duration, ...], Meta(min_length=1, max_length=6)]],
        Meta(
            min_length=1,
            max_length=4,
            description="by how much a read takes longer where 2, 4, 8 and so on requests are "
            "under way, itself included, by its size; at most 4 sizes",
        ),
    ] = field(default_factory=dict)
    elsewhere: Annotated[
        Mapping[_Service, _Duration],
        Meta(
            min_length=1,
            description="by how much a request takes longer while calls are made on several "
            "processors, of which one gets the device's interrupts, such as read: 25us",
        ),
    ] = field(default_factory=dict)
    shorter_elsewhere: Annotated[
        Mapping[_Service, _Duration],
        Meta(
            min_length=1,
            description="by how much a request is shorter then, where the device has no interrupts "
            "and one thread alone has to wake a processor",
        ),
    ] = field(default_factory=dict)
    outside: Annotated[
        Mapping[_Service, _Duration],
        Meta(
            min_length=1,
            description="processor time of a request of 4 KiB outside of its thread, of interrupts "
            "and the kernel's threads, such as sync: 35us",
        ),
    ] = field(default_factory=dict)
    in_order: Annotated[
        bool,
        Meta(
            description="whether a request waits for all that came before it, however large; else "
            "a large one is served in turns with others"
        ),
    ] = written(False)
    outside_waits: Annotated[
        bool,
        Meta(
            description="whether these threads wait for a processor as any program's, as a loop "
            "device's do"
        ),
    ] = False
    busy: Annotated[
        Mapping[_Service, BusyDocument],
        Meta(
            min_length=1,
            description="processor and outside where other threads want the processor",
        ),
    ] = field(default_factory=dict)
    directions: Annotated[
        Directions,
        Meta(
            description="whether reads and writes share what the device moves, or have each a "
            "limit of their own, as with a throttle"
        ),
    ] = written("shared")
    made_of: MeasuredTier | None = None
    bandwidth: Annotated[
        Mapping[_Direction, _Rate],
        Meta(min_length=1, description="of all requests together, such as read: 2.4GB/s"),
    ] = field(default_factory=dict)
    burst: Annotated[
        Mapping[_Direction, _Bytes],
        Meta(
            min_length=1,
            description="bytes that a throttle lets pass at once, in each slice of the time that "
            "they take of the bandwidth, such as read: 20MB",
        ),
    ] = field(default_factory=dict)
    write_buffer: WriteBufferDocument | None = None
    read: _Sizes = field(default_factory=dict)
    write: _Sizes = field(default_factory=dict)
    sync: _Sizes = field(default_factory=dict)
    grown_sync: _Sizes = field(default_factory=dict)
