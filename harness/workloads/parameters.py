"""Typed parameters of a workload, stated once.

Each workload has a frozen dataclass derived from :class:`Parameters`, in its ``params.py``. A
field's type states its values and their bounds (:mod:`harness.workloads.kinds`); its metadata
(:func:`parameter`) default, help and command-line option. From these come validation, the
sub-command of ``harness run``, the table in the workload's docs page, and the JSON of run specs
and of the native client.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import partial
from typing import Annotated, Any, ClassVar, Literal, Self, get_type_hints

from msgspec import Meta

from harness.errors import UsageError, nearest
from harness.store.spec import NATIVE, Json, JsonObject
from harness.workloads.kinds import Duration, Kind, Texts, Time, kind_of
from harness.yamlfile import scalar

CacheMode = Literal["cold-per-query", "cold-per-run", "warm"]

SHORTEST_WINDOW_NS = 10**9
_METADATA = "parameter"
#: Of a parameter that client programs call the same.
_SAME = "="
#: What a histogram of durations gives, by their names in labels.
STATISTICS = ("50", "95", "99", "99.9", "mean")


class ParameterError(UsageError):
    """An unknown parameter, or a value that its kind does not accept."""

    def __init__(self, parameter: str, problem: str, context: str, hint: str) -> None:
        super().__init__(problem, context, hint)
        self.parameter = parameter


@dataclass(frozen=True)
class Outline:
    """The facts that the harness needs of any workload's parameters.

    ``scale``: NaN for a workload without one. ``connections``: of the clients; 0 if unknown.
    ``window_ns``: length of the measurement window; 0 if no duration bounds it. ``clients``:
    processes. ``stall_timeout_ns``: time without an answer; 0 for the client's default.
    ``instances``: databases that are measured at once; the other facts are those of each.
    """

    scale: float = math.nan
    connections: int = 0
    ramp_up_ns: int = 0
    window_ns: int = 0
    cache: CacheMode = "warm"
    client_hosts: tuple[str, ...] = ()
    clients: int = 1
    stall_timeout_ns: int = 0
    instances: int = 1


# Parameters ------------------------------------------------------------------------


@dataclass(frozen=True)
class Parameter:
    """The metadata of one field.

    ``name``: in JSON, profiles and ``--param``; ``field``: in Python. ``default``: as in JSON.
    ``derive``: the default from the parameters declared before this one and all without
    ``derive``; ``default_text`` describes it. ``has_option``: whether the command line has an
    option of this name. ``omit_unset``: whether to leave it out of the JSON while it has no
    value. ``native``: its name in the spec of client programs; empty: they are not sent it.
    ``repeats``: whether the option may be given several times; its values are then separated by
    commas.
    """

    kind: Kind
    help: str
    default: Json = None
    derive: Callable[[Any], Any] | None = None
    default_text: str = ""
    has_option: bool = False
    name: str = ""
    field: str = ""
    omit_unset: bool = False
    native: str = ""
    repeats: bool = False

    @property
    def option(self) -> str:
        """``--ramp-up`` of ``ramp_up``; empty without one."""
        return option_text(self.name) if self.has_option else ""


def option_text(name: str) -> str:
    """Return the spelling of an option: ``--ramp-up`` of ``ramp_up``."""
    return f"--{name.replace('_', '-')}"


def parameter(
    default: Json = None,
    *,
    help: str,
    option: bool = False,
    derive: Callable[[Any], Any] | None = None,
    default_text: str = "",
    name: str = "",
    omit_unset: bool = False,
    native: bool | str = False,
    repeats: bool = False,
) -> Any:
    """Declare a field of a :class:`Parameters` class, whose type states its values.

    See :class:`Parameter`. ``native``: True if client programs call it the same.
    """
    text = default_text or _text(default)
    sent = _SAME if native is True else native or ""
    declared = partial(
        Parameter,
        help=help,
        default=default,
        derive=derive,
        default_text=text,
        has_option=option,
        omit_unset=omit_unset,
        repeats=repeats,
    )
    return field(metadata={_METADATA: (declared, name, sent)})


# Parameters of several workloads: the types of some, and what else they share.

#: Hosts of client processes.
Hosts = Annotated[
    tuple[str, ...],
    Texts(
        "HOST,…",
        # Never one that ssh would take for an option.
        r"(ssh://)?[A-Za-z0-9_][A-Za-z0-9_.@:%-]*",
        "not a host as ssh takes it",
        "write host, user@host, or ssh://user@host:port",
    ),
]
#: Client processes.
Clients = Annotated[int, Meta(ge=1, le=64)]
#: Databases that are measured at once; None: one.
Instances = Annotated[int, Meta(ge=1, le=64)] | None
#: Length of a measurement window, and of a time without an answer.
Window = Annotated[Duration, Time(SHORTEST_WINDOW_NS)]
#: Time limit of one query.
Seconds = Annotated[float, Meta(gt=0, extra={"unit": "s"})]
#: Untimed executions; None: until they agree.
Warmups = Annotated[int, Meta(ge=0, le=1_000_000)] | None
#: Most untimed executions that have not agreed.
MOST_WARMUPS = 10

client_hosts = partial(
    parameter,
    default=[],
    default_text="this host",
    help="Hosts of the client processes, by ssh (docs/provisioning.md).",
    omit_unset=True,
)
clients = partial(
    parameter,
    derive=lambda params: max(1, len(params.client_hosts)),
    default_text="1 per client host",
    help="Client processes.",
)
instances = partial(
    parameter,
    option=True,
    default_text="1",
    help="Databases at the same time, each with its own server, data and load.",
    omit_unset=True,
)
ramp_up = partial(parameter, option=True, help="Time before the measurement window.")
duration = partial(
    parameter,
    option=True,
    help="Length of the measurement window.",
)
stall_timeout = partial(
    parameter,
    default_text="the window, at least 2m",
    help="Time without an answer on any connection after which the run fails.",
    omit_unset=True,
)
cache = partial(
    parameter,
    option=True,
    help="Cache state before each query or run (VLDB 2023 §3).",
)
query_timeout = partial(
    parameter,
    name="query_timeout",
    option=True,
    help="Time limit of one query, in seconds; a query over it has no time.",
)
plans = partial(
    parameter,
    option=True,
    help="Explain each query in a second, untimed execution.",
)
warmups = partial(
    parameter,
    derive=lambda params: None if params.cache == "warm" else 0,
    default_text=f"until steady if warm, at most {MOST_WARMUPS}; else 0",
    help="Untimed executions before each timed one.",
)


def per_second(noun: str) -> Meta:
    """Bound a rate of ``noun``, such as transactions."""
    return Meta(gt=0, extra={"unit": f"{noun}/s"})


def rate(noun: str, omit_unset: bool = False) -> Any:
    """Declare the arrival rate of ``noun``."""
    return parameter(
        option=True,
        default_text="none: closed loop",
        help=f"Open-loop arrival rate, in {noun} per second.",
        omit_unset=omit_unset,
    )


def check_warmups(cache: CacheMode, warmups: int | None) -> None:
    """UsageError for a query that would be warmed up before a cold execution."""
    if warmups and cache != "warm":
        raise UsageError(
            f"warmups {warmups} with cache {cache}",
            "a query that was warmed up is not cold",
            "leave warmups out, or choose cache warm",
        )


class Parameters:
    """Base of the workloads' parameters: frozen dataclasses whose fields are declared with
    :func:`parameter`. The docstring's first line describes the workload.
    """

    workload: ClassVar[str]
    #: Programs that can offer the load, each with a description; the first is the default.
    drivers: ClassVar[Mapping[str, str]] = {NATIVE: "the harness itself"}
    #: Whether ``from_text`` reads property files.
    property_files: ClassVar[bool] = False
    #: The hint if a tier has too little space.
    smaller: ClassVar[str] = "less data"
    #: Defaults of `harness advise` where runs have to be short.
    small: ClassVar[Mapping[str, str]] = {}
    #: Names that other workloads or programs use for a parameter.
    aliases: ClassVar[Mapping[str, str]] = {}
    _declared: ClassVar[Mapping[str, Parameter]]

    @classmethod
    def declared(cls) -> Mapping[str, Parameter]:
        """The parameters by name."""
        if "_declared" not in vars(cls):
            cls._declared = {parameter.name: parameter for parameter in _declarations(cls)}
        return cls._declared

    @classmethod
    def options(cls) -> Mapping[str, Parameter]:
        """The parameters that have a command-line option, by option."""
        return {
            parameter.option: parameter for parameter in cls.declared().values() if parameter.option
        }

    @classmethod
    def from_mapping(cls, given: JsonObject) -> Self:
        """Validate values and fill in defaults; a null means the default.

        ParameterError for an unknown name or a bad value, UsageError for values that exclude
        each other.
        """
        declared = cls.declared()
        for name in given:
            if name not in declared:
                raise unknown(cls.workload, name, list(declared), cls.aliases)
        said: dict[str, Json] = {name: v for name, v in given.items() if v is not None}
        values: dict[str, Json] = {**cls.presets(said), **said}
        made = object.__new__(cls)
        for later in (False, True):
            for name, parameter in declared.items():
                derive = None if name in values else parameter.derive
                if (derive is not None) != later:
                    continue
                value = derive(made) if derive else values.get(name, parameter.default)
                try:
                    value = None if value is None else parameter.kind.parse(name, value)
                except UsageError as e:
                    raise ParameterError(name, e.problem, e.context, e.hint) from e
                object.__setattr__(made, parameter.field, value)
        return made.resolve()

    @classmethod
    def presets(cls, given: JsonObject) -> JsonObject:
        """Defaults that depend on the given values."""
        return {}

    @classmethod
    def from_text(
        cls, pairs: Mapping[str, str], files: Sequence[Any] = ()
    ) -> tuple[JsonObject, Sequence[str]]:
        """Values of ``--param NAME=VALUE`` and of property files, and notes on ignored ones."""
        return {name: scalar(value) for name, value in pairs.items()}, ()

    def resolve(self) -> Self:
        """Check the parameters against each other (UsageError); the result is final."""
        return self

    def without_effect(self) -> Collection[str]:
        """Names of the parameters that have no effect with the others: null in the JSON."""
        return ()

    def latency_statistics(self, driver: str) -> Collection[str]:
        """Return which of STATISTICS a driver's runs have of each operation; empty: none."""
        return ()

    def takes_rate(self, driver: str) -> bool:
        """Return whether the driver can offer a set rate with these parameters."""
        return "rate" in self.declared()

    def refuse_changed(self, names: Sequence[str], driver: str) -> None:
        """UsageError for a parameter that a driver has no option for and that has been set."""
        given, defaults = self.to_json(), self.from_mapping({}).to_json()
        for name in names:
            if given.get(name) != defaults.get(name):
                raise UsageError(
                    f"{name} {given[name]} with driver {driver}",
                    f"{driver} has no such option",
                    f"leave {name} out, or choose another driver: {', '.join(self.drivers)}",
                )

    def outline(self) -> Outline:
        """The facts that the harness needs of any workload's parameters."""
        return Outline()

    def to_json(self) -> dict[str, Json]:
        """The parameters as in run.json; :meth:`from_mapping` reads them."""
        unused = self.without_effect()
        return {
            name: None if name in unused else _json(value)
            for name, parameter in self.declared().items()
            if (value := getattr(self, parameter.field)) not in (None, ())
            or not parameter.omit_unset
        }

    def native_json(self) -> dict[str, Json]:
        """The parameters as in the native client's spec; those without a value are left out."""
        unused = self.without_effect()
        return {
            parameter.native: _json(value)
            for name, parameter in self.declared().items()
            if parameter.native
            and (value := getattr(self, parameter.field)) is not None
            and name not in unused
        }


def _declarations(cls: type[Parameters]) -> Iterator[Parameter]:
    hints = get_type_hints(cls, include_extras=True)
    for item in fields(cls):  # type: ignore[arg-type]  # every subclass is a dataclass
        declared, name, native = item.metadata[_METADATA]
        name = name or item.name
        native = name if native == _SAME else native
        yield declared(kind_of(hints[item.name]), name=name, field=item.name, native=native)


def unknown(
    owner: str, name: str, names: Sequence[str], aliases: Mapping[str, str]
) -> ParameterError:
    """The error for an unknown name; ``aliases``: names that others use for a parameter."""
    same = aliases.get(name)
    hint = f" (did you mean {same!r}?)" if same else nearest(name, list(names))
    return ParameterError(
        name,
        f"{owner} parameter {name!r}",
        f"not a parameter of {owner}{hint}",
        f"the parameters are {', '.join(names)}",
    )


def _json(value: Any) -> Json:
    if isinstance(value, Duration):
        return str(value)
    if isinstance(value, tuple):
        return list(value)
    return dict(value) if isinstance(value, Mapping) else value


def _text(default: Json) -> str:
    if isinstance(default, bool):
        return str(default).lower()
    return "none" if default is None else str(default)


def check_clients(clients: int, hosts: Sequence[str]) -> None:
    """UsageError for fewer client processes than hosts of them."""
    if clients < len(hosts):
        raise UsageError(
            f"{clients} clients on {len(hosts)} client_hosts",
            "every host needs at least one client process",
            f"choose clients={len(hosts)} or more, or fewer hosts",
        )


def check_instances(instances: int | None, hosts: Sequence[str]) -> int | None:
    """Return the instances, None for one; UsageError for several with clients elsewhere."""
    if instances in (None, 1):
        return None
    if hosts:
        raise UsageError(
            f"{instances} instances with client_hosts {','.join(hosts)}",
            "clients on other hosts reach one server",
            "leave one of the two out",
        )
    return instances
