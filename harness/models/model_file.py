"""Files of models of devices: found by name, read, and written."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from harness import paths
from harness.errors import UsageError, unknown
from harness.models.device import (
    OPERATIONS,
    SERVICES,
    BusyTimes,
    DeviceModel,
    Extra,
    InodeWrite,
    SizePoint,
    WriteBuffer,
)
from harness.models.device_document import (
    BusyDocument,
    DeviceDocument,
    ExtraDocument,
    InodeDocument,
)
from harness.models.durations import PROBABILITIES, Durations, constant, of_quantiles
from harness.store.rescue import write_result
from harness.units import KIB, MIB, parse_duration_ns, parse_size
from harness.yamlfile import YamlDocument, load_yaml

#: The model that adds nothing: it measures what a device of no latency would gain at most.
ZERO = "zero"
_LATENCY = "latency:"
_QUANTILE = re.compile(r"p(\d+(?:\.\d+)?)")
_SUFFIX = ".yml"
#: Keys of a file whose values a model has as they are.
_AS_STATED = (
    *("name", "description", "basis", "source", "made_of", "page_cache", "parallel"),
    *("outside_waits", "sync_waits", "directions", "in_order", "in_engine"),
)


def model_folders() -> tuple[Path, ...]:
    """The folders of models: the user's, which come first, and those that ship."""
    return paths.data_root() / "devices", paths.data_folder("profiles") / "devices"


def known_models() -> dict[str, Path]:
    """Return the file of each model by name; a user's replaces a shipped one of its name."""
    paths: dict[str, Path] = {}
    for folder in reversed(model_folders()):
        paths |= {path.stem: path for path in sorted(folder.glob(f"*{_SUFFIX}"))}
    return dict(sorted(paths.items()))


def find_model(name: str) -> DeviceModel:
    """Return a model by its name, its file's path, or as ``zero`` or ``latency:20us``."""
    if name == ZERO:
        return DeviceModel(
            ZERO, "Memory: no latency, and no work of a disk's file system", "constant", False
        )
    if name.startswith(_LATENCY):
        return _constant(name)
    if name.endswith(_SUFFIX):
        return load_model(Path(name))
    models = known_models()
    if name not in models:
        raise unknown(
            f"device model {name!r}",
            "no such model",
            name,
            [ZERO, *models],
            "models: {}, latency:20us, or a file (`harness model list`)",
        )
    return load_model(models[name])


def _constant(name: str) -> DeviceModel:
    """Each request takes the same time, whatever its size and however many there are."""
    duration_ns = parse_duration_ns(name.removeprefix(_LATENCY))
    if duration_ns == 0:
        return DeviceModel(name, "A device of no latency", "constant")
    point = SizePoint(4096, constant(duration_ns), name)
    points = dict.fromkeys(OPERATIONS, (point,))
    return DeviceModel(
        name, "Every request takes the same time", "constant", points=points, sync_waits=1
    )


def load_model(path: Path) -> DeviceModel:
    """Read a model; UsageError with file and line for a value that is not valid."""
    document = load_yaml(path)
    value = document.to(DeviceDocument)
    if value.name != path.stem and path in known_models().values():
        context = f"the model is named {value.name!r}"
        raise UsageError(document.at(("name",)), context, f"name it {path.stem!r}, as its file")
    points = {
        operation: tuple(
            sorted(_points(document, operation, sizes), key=lambda point: point.size_bytes)
        )
        for operation in SERVICES
        if (sizes := getattr(value, operation))
    }
    if value.write_buffer and ("write" not in value.bandwidth or "write" in value.burst):
        context = "a write buffer needs the bandwidth of writes, and is their burst"
        hint = "write bandwidth: {write: …}, and no burst of writes"
        raise UsageError(document.at(("write_buffer",)), context, hint)
    buffer = value.write_buffer
    return DeviceModel(
        **{name: getattr(value, name) for name in _AS_STATED},
        points=points,
        bandwidth={name: parse_size(text[:-2]) for name, text in value.bandwidth.items()},
        burst_bytes={name: parse_size(text) for name, text in value.burst.items()},
        write_buffer=WriteBuffer(
            parse_size(buffer.size),
            parse_size(buffer.program_size),
            parse_duration_ns(buffer.program),
        )
        if buffer
        else None,
        readahead_bytes=parse_size(value.readahead),
        fill_ns=parse_duration_ns(value.fill),
        processor_ns={name: parse_duration_ns(text) for name, text in value.processor.items()},
        after_work=_extras(value.after_work),
        after_pause={
            parse_duration_ns(pause): _extras(stated) for pause, stated in value.after_pause.items()
        },
        inode_write=_inode_write(value.inode_write) if value.inode_write else None,
        depth_longer_ns={
            parse_size(size): tuple(map(parse_duration_ns, longer))
            for size, longer in value.longer_at_depth.items()
        },
        elsewhere_ns={name: parse_duration_ns(text) for name, text in value.elsewhere.items()},
        shorter_elsewhere_ns={
            name: parse_duration_ns(text) for name, text in value.shorter_elsewhere.items()
        },
        outside_ns={name: parse_duration_ns(text) for name, text in value.outside.items()},
        busy={
            name: BusyTimes(
                parse_duration_ns(times.processor),
                parse_duration_ns(times.outside),
            )
            for name, times in value.busy.items()
        },
    )


def _extras(stated: Mapping[Any, ExtraDocument]) -> dict[str, Extra]:
    return {operation: _extra(extra) for operation, extra in stated.items()}


def _extra(stated: ExtraDocument) -> Extra:
    return Extra(parse_duration_ns(stated.longer), parse_duration_ns(stated.processor))


def _inode_write(stated: InodeDocument) -> InodeWrite:
    extra = _extra(stated)
    elsewhere_ns = parse_duration_ns(stated.elsewhere)
    return InodeWrite(extra.longer_ns, extra.processor_ns, elsewhere_ns)


def _points(
    document: YamlDocument, operation: str, sizes: Mapping[str, Mapping[str, Any]]
) -> Iterator[SizePoint]:
    for size, figures in sizes.items():
        try:
            durations, rate = _stated_durations(figures), _rate(figures)
        except ValueError as error:
            hint = "write three quantiles such as p50: 90us, or a mean: 90us, or both"
            raise UsageError(document.at((operation, size)), str(error), hint) from error
        except UsageError as error:
            raise UsageError(
                document.at((operation, size)), f"{error.problem}: {error.context}", error.hint
            ) from error
        yield SizePoint(parse_size(size), durations, str(figures.get("source", "")), rate)


def _stated_durations(figures: Mapping[str, Any]) -> Durations:
    """Return what the figures of one size state; ValueError where they cannot be a distribution.

    ``means`` stand next to the quantiles of ``harness model make`` alone.
    """
    stated = {
        float(match[1]): parse_duration_ns(text)
        for key, text in figures.items()
        if (match := _QUANTILE.fullmatch(key))
    }
    if any(not 0 <= percent <= 100 for percent in stated):
        raise ValueError("a quantile outside 0 to 100")
    if "means" not in figures:
        mean_ns = parse_duration_ns(figures["mean"]) if "mean" in figures else None
        return of_quantiles(stated, mean_ns)
    if tuple(sorted(stated)) != PROBABILITIES or "mean" in figures:
        raise ValueError("means that are not those between the quantiles of `harness model make`")
    quantiles = tuple(ns for _, ns in sorted(stated.items()))
    return Durations(quantiles, tuple(parse_duration_ns(text) for text in figures["means"]))


def _rate(figures: Mapping[str, Any]) -> int:
    text = figures.get("rate")
    if text is None:
        return 0
    if not str(text).endswith("/s"):
        raise UsageError("rate", f"{text!r} is not bytes per second", "write it as 550MB/s")
    return parse_size(text.removesuffix("/s"))


def model_path(name: str) -> Path:
    """Return where a made model is kept."""
    return model_folders()[0] / f"{name}{_SUFFIX}"


def check_new(name: str, replace: bool) -> None:
    """UsageError for a name that cannot be one, or that is taken."""
    if not name or not all(c.isascii() and (c.islower() or c.isdigit() or c == "-") for c in name):
        hint = "use small letters, digits and dashes"
        raise UsageError(f"model {name!r}", "not a name of a model", hint)
    if model_path(name).exists() and not replace:
        context = f"{model_path(name)} exists"
        raise UsageError(f"model {name!r}", context, "choose another name, or add --replace")


def as_yaml(model: DeviceModel) -> str:
    """Return the text of a model's file."""
    keys: dict[str, Any] = {
        **{name: getattr(model, name) for name in _AS_STATED},
        "readahead": _size(model.readahead_bytes),
        "fill": f"{model.fill_ns}ns",
        "processor": {name: _microseconds(ns) for name, ns in model.processor_ns.items()},
        "after_work": {name: _extra_document(work) for name, work in model.after_work.items()},
        "after_pause": {
            _microseconds(pause_ns): {name: _extra_document(more) for name, more in extras.items()}
            for pause_ns, extras in model.after_pause.items()
        },
        "inode_write": model.inode_write and _inode_document(model.inode_write),
        "longer_at_depth": {
            _size(size): tuple(map(_microseconds, longer_ns))
            for size, longer_ns in model.depth_longer_ns.items()
        },
        "elsewhere": {name: _microseconds(ns) for name, ns in model.elsewhere_ns.items()},
        "shorter_elsewhere": {
            name: _microseconds(ns) for name, ns in model.shorter_elsewhere_ns.items()
        },
        "outside": {name: _microseconds(ns) for name, ns in model.outside_ns.items()},
        "busy": {
            name: BusyDocument(
                _microseconds(times.processor_ns),
                _microseconds(times.outside_ns),
            )
            for name, times in model.busy.items()
        },
        "bandwidth": {name: f"{_megabytes(rate)}/s" for name, rate in model.bandwidth.items()},
        "burst": {name: _megabytes(size) for name, size in model.burst_bytes.items()},
        **{
            operation: {_size(point.size_bytes): dict(_durations(point)) for point in points}
            for operation, points in model.points.items()
        },
    }
    document = DeviceDocument(**keys).to_json()
    return yaml.safe_dump(document, sort_keys=False, allow_unicode=True, width=1000)


def _extra_document(extra: Extra) -> ExtraDocument:
    return ExtraDocument(_microseconds(extra.longer_ns), _microseconds(extra.processor_ns))


def _inode_document(inode: InodeWrite) -> InodeDocument:
    extra = _extra_document(inode)
    return InodeDocument(extra.longer, extra.processor, _microseconds(inode.elsewhere_ns))


def _size(size_bytes: int) -> str:
    whole = [(unit, size) for unit, size in (("MiB", MIB), ("KiB", KIB)) if size_bytes % size == 0]
    return f"{size_bytes // whole[0][1]}{whole[0][0]}" if whole else f"{size_bytes}B"


def _durations(point: SizePoint) -> Iterator[tuple[str, str | list[str]]]:
    for percent, duration_ns in zip(PROBABILITIES, point.durations.quantiles, strict=True):
        yield f"p{percent:g}", _microseconds(duration_ns)
    yield "means", [_microseconds(mean_ns) for mean_ns in point.durations.means]
    if point.rate:
        yield "rate", f"{_megabytes(point.rate)}/s"


def _microseconds(duration_ns: int) -> str:
    return f"{_shortest(duration_ns / 1000)}us"


def _megabytes(size_bytes: int) -> str:
    return f"{_shortest(size_bytes / 1e6)}MB"


def _shortest(value: float) -> str:
    return f"{value:.3f}".rstrip("0").rstrip(".")


def write_model(model: DeviceModel) -> Path:
    """Write a model to the user's folder, whole or not at all."""
    path = model_path(model.name)
    return write_result(path, as_yaml(model).encode(), f"model {model.name}")
