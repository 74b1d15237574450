"""File descriptors: which device an ioctl or an mmap went to, how that is known, and what the calls of the KFD say."""

from __future__ import annotations

from dataclasses import dataclass

import polars as pl

from tracecorr.link.events import attach_columns, pivot_args
from tracecorr.model import frames
from tracecorr.model.frames import gives
from tracecorr.model.kinds import DERIVED, INFERRED
from tracecorr.read.kfd.ioctls import (
    CREATE_QUEUE,
    DRM_TYPE,
    HANDLER_PREFIX,
    KFD_PREFIX,
    KFD_TYPE,
    USERQ_HANDLER,
    decode_mapping,
    device_ioctl_name,
    name_value,
)

_KFD, _DRM, _OTHER = "kfd", "drm", "other"
# How a device is known, the surest first.
_BY_DRIVER, _BY_PATH, _BY_OPEN, _BY_NUMBER = "driver", "path", "open", "number"
# Of an open whose path is not known: by what was done with its descriptor.
_BY_USE = "use"

_OPENS = ("open", "openat", "openat2", "creat")
_DUPS = ("dup", "dup2", "dup3")
_FORK, _EXEC = "sched_process_fork", "sched_process_exec"
# Commands of fcntl and a flag of open (fcntl.h of x86-64).
_F_DUPFD, _F_DUPFD_CLOEXEC, _O_CLOEXEC = 0, 1030, 0x80000
_KFD_PATH, _DRM_PATH = r"(?:^|/)dev/kfd$", r"(?:^|/)dev/dri/(?:by-path/.*|renderD\d+|card\d+)$"
# Functions of the drivers that run inside the call: they prove the device.
_OPEN_FUNCTIONS = {"kfd_open": _KFD, "drm_open": _DRM, "drm_stub_open": _DRM}
_USE_FUNCTIONS = {"kfd_ioctl": _KFD, "kfd_mmap": _KFD, "amdgpu_drm_ioctl": _DRM, "drm_ioctl": _DRM}
# A descriptor handed down by dup and fork more often than this is given up.
_MAX_HOPS = 32
_CALL_COLUMNS = (
    "event", "process", "thread", "fd", "cmd", "ts_ns", "dur_ns", "offset", "end_offset", "name", "result", "layer"
)  # fmt: skip
_FOUND = {"event": pl.Int64, "device": pl.String, "device_by": pl.String, "path": pl.String, "origin": pl.Int64}


@dataclass(frozen=True)
class _Owners:
    """Hold who owns descriptors: threads of one process share a table.

    Args:
        forks: owner, parent_owner, fork_at.
        execs: owner, exec_at.
    """

    forks: pl.DataFrame
    execs: pl.DataFrame


@gives(frames.DEVICES)
def find_devices(events: pl.DataFrame, args: pl.DataFrame, tids: pl.DataFrame) -> pl.DataFrame:
    """Return the device behind every ioctl and every mmap of a file.

    A descriptor is followed from its open through dup, fcntl, fork and exec to its close. If the open was
    not seen, or its path is not known, an ioctl is taken by its number (type and direction) alone, and tells what
    else was done with the file of the same open.

    Args:
        events: placed events with `process`, `thread`, `enclosing_call`.
        args: args by event.
        tids: tid, process of every kernel thread.

    Returns: event, device (`kfd`, `drm`, `other`; null = not known), device_by (`driver`: a function of the driver
        ran inside the call; `path`; `open`: a function of the driver ran inside the open; `number`), path, origin.
    """
    calls = _order(events)
    uses = calls.filter(pl.col("use"))
    # A probe in the driver that stands for its ioctl has no descriptor, and needs none.
    probed = events.select("event", "fd", "cmd", "layer")
    probed = probed.filter((pl.col("layer") == "ioctl") & pl.col("fd").is_null() & pl.col("cmd").is_not_null())
    inside = probed.select(
        "event", device=pl.lit(_KFD), device_by=pl.lit(_BY_DRIVER), path=pl.lit(None, pl.String),
        origin=pl.lit(None, pl.Int64),
    )  # fmt: skip
    if uses.is_empty():
        return pl.concat([pl.DataFrame(schema=_FOUND), inside])
    definitions = _definitions(calls, events, args)
    followed = _follow(uses, definitions, _owners(calls, args, tids))
    proven = _inside(events, _USE_FUNCTIONS).rename({"inside": "proven"})
    found = followed.join(proven, on="event", how="left", maintain_order="left")
    # Without the closes of a trace, a number may long belong to another file.
    closes = bool((calls["name"] == "close").any())
    foreign = (pl.col("device") == _OTHER).fill_null(value=False)
    by_number = _device_by_number(pl.col("cmd"))
    sure = pl.col("device").is_not_null() & (~foreign | pl.lit(closes) | by_number.is_null())
    described = found.select(
        "event", "origin",
        device=pl.coalesce("proven", pl.when(sure).then("device"), by_number),
        device_by=pl.when(pl.col("proven").is_not_null()).then(pl.lit(_BY_DRIVER))
        .when(sure).then("by").when(by_number.is_not_null()).then(pl.lit(_BY_NUMBER)),
        path=pl.when(sure).then("path"),
    )  # fmt: skip
    # A number may have been given out again unseen where closes are not traced.
    told = _tell_others(described) if closes else described
    return pl.concat([told.select(list(_FOUND)), inside])


def _tell_others(described: pl.DataFrame) -> pl.DataFrame:
    """Return uses of files with the device that the other uses of the file of the same open agree on.

    Args:
        described: event, device, device_by, path, and `origin`, the open.
    """
    known = described.drop_nulls(["origin", "device"])
    one = pl.col("device").n_unique() == 1
    agreed = known.group_by("origin").agg(
        found=pl.when(one).then(pl.col("device").first()),
        found_by=pl.when((pl.col("device_by") == _BY_DRIVER).any()).then(pl.lit(_BY_DRIVER)).otherwise(
            pl.col("device_by").first()
        ),
    )  # fmt: skip
    joined = described.join(agreed, on="origin", how="left", maintain_order="left")
    unknown = pl.col("device").is_null()
    return joined.with_columns(
        device=pl.coalesce("device", "found"),
        device_by=pl.when(unknown & pl.col("found").is_not_null()).then("found_by").otherwise("device_by"),
    ).drop("found", "found_by")


def name_ioctls(events: pl.DataFrame, devices: pl.DataFrame) -> pl.DataFrame:
    """Return `events` with layer and name of ioctls by their device.

    An ioctl of a KFD or DRM descriptor is of layer `ioctl`, whatever its direction bits; one of another file
    is a plain system call, though its number looks like one.
    """
    calls = devices.select("event", "device").with_columns(cmd=events["cmd"].gather(devices["event"]))
    calls = calls.drop_nulls(["cmd", "device"])
    if calls.is_empty():
        return events
    distinct = calls.select("cmd", "device").unique()
    names = [device_ioctl_name(cmd, device) for cmd, device in distinct.iter_rows()]
    distinct = distinct.with_columns(pl.Series("ioctl", names, dtype=pl.String).fill_null("ioctl"))
    layer = pl.when(pl.col("device") == _OTHER).then(pl.lit("syscall")).otherwise(pl.lit("ioctl"))
    named = calls.join(distinct, on=["cmd", "device"]).select(
        "event", call_name=pl.col("ioctl").cast(events.schema["name"]), call_layer=layer.cast(events.schema["layer"])
    )
    joined = attach_columns(events, named)
    return joined.with_columns(name=pl.coalesce("call_name", "name"), layer=pl.coalesce("call_layer", "layer")).drop(
        "call_name", "call_layer"
    )


@gives(frames.EVENT_ARGS)
def list_device_args(devices: pl.DataFrame) -> pl.DataFrame:
    """Return rows of args: `device` (its path where known) and `device_by` of calls to a KFD or DRM device.

    An open without a path has them, too, where all that was done with its descriptor is of one device.
    """
    of_one = pl.col("device").n_unique().over("origin") == 1
    opens = devices.drop_nulls(["device", "origin"]).filter(of_one & pl.col("path").is_null().all().over("origin"))
    opens = opens.unique("origin").with_columns(event="origin", device_by=pl.lit(_BY_USE))
    known = pl.concat([devices, opens.sort("event")]).filter(pl.col("device").is_in([_KFD, _DRM]))
    rows = [
        known.select("event", key=pl.lit(key), u64=pl.lit(None, pl.UInt64), text=text)
        for key, text in (("device", pl.coalesce("path", "device")), ("device_by", pl.col("device_by")))
    ]
    return pl.concat(rows)


def _order(events: pl.DataFrame) -> pl.DataFrame:
    """Return system calls, forks and execs; `at` and `end_at` put their starts and ends in one exact order.

    Many calls of a text trace share a microsecond; there the place in the file tells the order.
    """
    call = pl.col("layer").is_in(["syscall", "ioctl"]) | pl.col("name").is_in([_FORK, _EXEC])
    name, result = pl.col("name").cast(pl.String), pl.col("result").cast(pl.String)
    chosen = events.select(_CALL_COLUMNS).filter(call & pl.col("thread").is_not_null()).select(
        "event", "process", "thread", "fd", "cmd", "ts_ns", "offset", name=name, result=result,
        end_ns=pl.col("ts_ns") + pl.col("dur_ns"), end_offset=pl.coalesce("end_offset", "offset"),
        owner=pl.coalesce(pl.col("process").cast(pl.Int64), -1 - pl.col("thread").cast(pl.Int64)),
        number=result.str.to_integer(strict=False),
        use=pl.col("cmd").is_not_null() & pl.col("fd").is_not_null() | (name == "mmap") & (pl.col("fd") >= 0),
    )  # fmt: skip
    points = pl.concat([
        chosen.select("event", ns="ts_ns", place="offset", side=pl.lit("at")),
        chosen.drop_nulls("end_ns").select("event", ns="end_ns", place="end_offset", side=pl.lit("end_at")),
    ])  # fmt: skip
    points = points.sort("ns", "place").with_row_index("rank").with_columns(pl.col("rank").cast(pl.Int64))
    for side in ("at", "end_at"):
        own = points.filter(pl.col("side") == side).select("event", pl.col("rank").alias(side))
        chosen = chosen.join(own, on="event", how="left", maintain_order="left")
    return chosen


def _definitions(calls: pl.DataFrame, events: pl.DataFrame, args: pl.DataFrame) -> pl.DataFrame:
    """Return what gave a descriptor its meaning: owner, fd, def_at, kind (`open`, `dup`, `close`), source_fd,
    opened, by, path, origin (event of the open), cloexec."""
    flags = _arg(args, "flags", calls["event"])
    numbers = _arg(args, "cmd", calls["event"]).rename({"u64": "operation"}).drop("text")
    done = pl.col("number") >= 0
    opens = calls.filter(pl.col("name").is_in(_OPENS) & done)
    opens = opens.join(_opened(events, args), on="event", how="left").join(flags, on="event", how="left")
    fcntls = calls.filter((pl.col("name") == "fcntl") & done).join(numbers, on="event")
    copying = fcntls.filter(pl.col("operation").is_in([_F_DUPFD, _F_DUPFD_CLOEXEC]))
    dups = calls.filter(pl.col("name").is_in(_DUPS) & done).join(flags, on="event", how="left")
    closes = calls.filter((pl.col("name") == "close") & pl.col("fd").is_not_null())
    cloexec = (pl.col("u64").fill_null(0) & _O_CLOEXEC != 0) | pl.col("text").str.contains("CLOEXEC").fill_null(False)
    fd = pl.col("number").cast(pl.Int32, strict=False)
    return pl.concat([
        opens.select("owner", fd=fd, def_at="end_at", kind=pl.lit("open"), opened="opened", by="by", path="path",
                     origin="event", cloexec=cloexec),
        dups.select("owner", fd=fd, def_at="end_at", kind=pl.lit("dup"), source_fd="fd", cloexec=cloexec),
        copying.select("owner", fd=fd, def_at="end_at", kind=pl.lit("dup"), source_fd="fd",
                       cloexec=pl.col("operation") == _F_DUPFD_CLOEXEC),
        closes.select("owner", "fd", def_at="at", kind=pl.lit("close"), cloexec=pl.lit(value=False)),
    ], how="diagonal_relaxed").drop_nulls("def_at").sort("def_at")  # fmt: skip


def _opened(events: pl.DataFrame, args: pl.DataFrame) -> pl.DataFrame:
    """Return event, opened, by, path of every open whose device is known.

    The path is an argument of the call itself (kernels from 7.2 on), or of a probe that ran inside it.
    """
    paths = args.filter((pl.col("key") == "path") & pl.col("text").is_not_null()).select("event", path="text")
    probed = paths.with_columns(enclosing_call=events["enclosing_call"].gather(paths["event"]))
    probed = probed.drop_nulls("enclosing_call")
    every = pl.concat([paths, probed.select(event="enclosing_call", path="path")]).unique("event", keep="first")
    device = (
        pl.when(pl.col("path").str.contains(_KFD_PATH)).then(pl.lit(_KFD))
        .when(pl.col("path").str.contains(_DRM_PATH)).then(pl.lit(_DRM)).otherwise(pl.lit(_OTHER))
    )  # fmt: skip
    # A path that the probe could not read says nothing.
    by_path = every.filter(pl.col("path") != "(fault)").with_columns(opened=device, by=pl.lit(_BY_PATH))
    by_driver = _inside(events, _OPEN_FUNCTIONS).select(
        "event", opened="inside", by=pl.lit(_BY_OPEN), path=pl.lit(None, pl.String)
    )
    both = pl.concat([by_path.select(by_driver.columns), by_driver])
    return both.unique("event", keep="first", maintain_order=True)


def _inside(events: pl.DataFrame, functions: dict[str, str]) -> pl.DataFrame:
    """Return event, inside: calls in which a function of a driver ran."""
    name = pl.col("name").cast(pl.String)
    hits = events.select("enclosing_call", "name").filter(pl.col("name").is_in(list(functions)))
    hits = hits.drop_nulls("enclosing_call")
    named = hits.select(
        event="enclosing_call", inside=name.replace_strict(functions, return_dtype=pl.String, default=None)
    )
    return named.unique("event", keep="first", maintain_order=True)


def _arg(args: pl.DataFrame, key: str, events: pl.Series) -> pl.DataFrame:
    rows = args.filter((pl.col("key") == key) & pl.col("event").is_in(events.implode()))
    return rows.select("event", "u64", "text").unique("event", keep="first", maintain_order=True)


def _owners(calls: pl.DataFrame, args: pl.DataFrame, tids: pl.DataFrame) -> _Owners:
    """Return which process took over whose table, and when it was given up for another program."""
    name = pl.col("name")
    forked = calls.filter(name == _FORK).join(_arg(args, "child_pid", calls["event"]), on="event")
    forked = forked.select(parent_owner="owner", fork_at="at", child=pl.col("u64").cast(pl.Int64, strict=False))
    children = tids.select(
        child=pl.col("tid").cast(pl.Int64),
        owner=pl.coalesce(pl.col("process").cast(pl.Int64), -1 - pl.col("thread").cast(pl.Int64)),
    )
    # A number is given out again: the fork that began a process is the last one before it was first seen.
    births = calls.group_by("owner").agg(first_at=pl.col("at").min())
    forks = forked.join(children, on="child").filter(pl.col("owner") != pl.col("parent_owner")).join(births, on="owner")
    forks = forks.filter(pl.col("fork_at") < pl.col("first_at")).sort("fork_at")
    execs = calls.filter(name == _EXEC).select("owner", exec_at="at")
    called = calls.filter(name.is_in(["execve", "execveat"]) & (pl.col("number") == 0)).select(
        "owner", exec_at="end_at"
    )
    return _Owners(
        forks.select("owner", "parent_owner", "fork_at").unique("owner", keep="last"),
        pl.concat([execs, called]).drop_nulls().sort("exec_at"),
    )


def _follow(uses: pl.DataFrame, definitions: pl.DataFrame, owners: _Owners) -> pl.DataFrame:
    """Return event, cmd, device, by, path, origin of `uses`: what gave each descriptor its meaning, hop by hop."""
    open_ = uses.select("event", "cmd", "owner", "fd", "at", gone=pl.lit(value=False)).sort("at")
    done: list[pl.DataFrame] = []
    shape = ["event", "cmd", "opened", "by", "path", "origin"]
    for _ in range(_MAX_HOPS):
        if open_.is_empty():
            break
        found = open_.join_asof(
            definitions, left_on="at", right_on="def_at", by=["owner", "fd"], check_sortedness=False, coalesce=False
        ).join_asof(owners.execs, left_on="at", right_on="exec_at", by="owner", check_sortedness=False, coalesce=False)
        # An exec since the definition (or since the fork, when a parent made it) closes what says so.
        executed = (pl.col("exec_at") > pl.col("def_at").fill_null(-1)).fill_null(value=False) | pl.col("gone")
        found = found.with_columns(executed=executed).with_columns(dead=pl.col("executed") & pl.col("cloexec"))
        alive = pl.col("kind").is_not_null() & ~pl.col("dead")
        done.append(found.filter(alive & (pl.col("kind") == "open")).select(shape))
        copied = found.filter(alive & (pl.col("kind") == "dup")).select(
            "event", "cmd", "owner", fd="source_fd", at="def_at", gone=pl.lit(value=False)
        )
        inherited = found.filter(pl.col("kind").is_null()).join(owners.forks, on="owner").select(
            "event", "cmd", owner="parent_owner", fd="fd", at="fork_at", gone="executed"
        )  # fmt: skip
        open_ = pl.concat([copied, inherited]).sort("at")
    texts = dict.fromkeys(shape[2:-1], pl.String)
    none = pl.DataFrame(schema={"event": pl.Int64, "cmd": pl.UInt32, **texts, "origin": pl.Int64})
    known = pl.concat([none, *done])
    joined = uses.select("event", "cmd").join(known.drop("cmd"), on="event", how="left", maintain_order="left")
    return joined.rename({"opened": "device"})


def _device_by_number(cmd: pl.Expr) -> pl.Expr:
    kind = cmd // 256 % 256
    kfd = (kind == KFD_TYPE) & (cmd // 2**30 != 0)
    return pl.when(kfd).then(pl.lit(_KFD)).when(kind == DRM_TYPE).then(pl.lit(_DRM))


# Fields of CREATE_QUEUE that a struct of this size has first (kfd_ioctl.h, KFD 1.17 and 1.22).
_LATE_FIELDS, _LATE_SIZE = ("engine", "metadata_ring"), 96
# A shorter name of a probe may begin the names of several requests.
_LEAST_NAME = 5
# A file cannot be that long: an offset from here on is one of /dev/kfd, though its open was not seen.
_LEAST_KFD_OFFSET = 1 << 62


@gives(frames.EVENT_ARGS)
def list_ioctl_fields(events: pl.DataFrame, args: pl.DataFrame) -> pl.DataFrame:
    """Return the fields that probes inside the driver read, as rows of args of the ioctl around them.

    A number with a meaning comes with a second row `KEY_name`. What lies behind the caller's struct is no field of it.

    Args:
        events: placed events with `enclosing_call`.
        args: args by event.
    """
    layer, name = pl.col("layer"), pl.col("name").cast(pl.String)
    operation = name.str.strip_prefix(KFD_PREFIX).str.to_lowercase()
    rows = events.select("event", "enclosing_call", "name", "layer", "cmd")
    rows = rows.filter(layer.is_in(["ioctl", "kfd"]) | ((layer == "amdgpu") & (name == USERQ_HANDLER)))
    size = pl.col("cmd") // 2**16 % 2**14
    ioctls = rows.filter(layer == "ioctl").select(parent="event", operation=operation, size=size)
    probes = rows.filter((layer != "ioctl") & pl.col("enclosing_call").is_not_null())
    probes = probes.select(parent="enclosing_call", probe="event", function=name).join(ioctls, on="parent")
    # Pages without the definitions of their probes name a function as its probe was called: kfd_create_queue.
    short = pl.col("function").str.strip_prefix("kfd_")
    called = pl.col("operation").str.starts_with(short) & (short.str.len_bytes() >= _LEAST_NAME)
    handles = pl.col("function").str.starts_with(HANDLER_PREFIX) | (pl.col("function") == USERQ_HANDLER)
    probes = probes.filter(handles | called)
    probes = probes.with_columns(
        function=pl.when(called).then(HANDLER_PREFIX + pl.col("operation")).otherwise("function")
    )
    asked = args if len(probes) else args.clear()
    fields = asked.select("u64", "text", probe="event", key=pl.col("key").cast(pl.String)).join(probes, on="probe")
    is_there = ~pl.col("key").is_in(_LATE_FIELDS) | (pl.col("size") >= _LATE_SIZE).fill_null(value=False)
    fields = fields.filter(is_there).unique(["parent", "key"], keep="first", maintain_order=True)
    distinct = fields.select("function", "key", "u64").drop_nulls().unique()
    meanings = [name_value(*row) for row in distinct.iter_rows()]
    named = fields.join(
        distinct.with_columns(pl.Series("meaning", meanings, dtype=pl.String)), on=["function", "key", "u64"]
    )
    return pl.concat([
        fields.select("key", "u64", "text", event="parent"),
        named.drop_nulls("meaning").select(
            key=pl.col("key") + "_name", u64=pl.lit(None, pl.UInt64), text="meaning", event="parent"
        ),
    ]).select("event", "key", "u64", "text")  # fmt: skip


@gives(frames.MAPPINGS)
def list_mappings(events: pl.DataFrame, devices: pl.DataFrame) -> pl.DataFrame:
    """Return what each mmap of the KFD maps.

    Args:
        events: placed events.
        devices: devices behind descriptors (`descriptors.find_devices`).

    Returns: event, process, thread, ts_ns, mapping (`doorbells`, `events_page`, `reserved_memory`, `mmio`), gpu_id.
    """
    failed = pl.col("result").cast(pl.String).str.starts_with("E").fill_null(value=False)
    columns = ("event", "process", "thread", "ts_ns", "arg", "name", "result")
    calls = events.select(columns).filter((pl.col("name") == "mmap") & pl.col("arg").is_not_null()).filter(~failed)
    calls = calls.join(devices.select("event", "device"), on="event", how="left", maintain_order="left")
    far = pl.col("device").is_null() & (pl.col("arg") >= _LEAST_KFD_OFFSET)
    own = calls.filter((pl.col("device") == "kfd").fill_null(value=False) | far)
    mapping, gpu_id = decode_mapping(pl.col("arg"))
    return own.select("event", "process", "thread", "ts_ns", mapping=mapping, gpu_id=gpu_id)


@gives(frames.EVENT_ARGS)
def list_mapping_args(mappings: pl.DataFrame) -> pl.DataFrame:
    """Return rows of args: `kfd_mapping` and `gpu_id` of the mmaps of the KFD."""
    none = {"u64": pl.lit(None, pl.UInt64), "text": pl.lit(None, pl.String)}
    return pl.concat([
        mappings.select("event", key=pl.lit("kfd_mapping"), **{**none, "text": pl.col("mapping")}),
        mappings.drop_nulls("gpu_id").select("event", key=pl.lit("gpu_id"), **{**none, "u64": pl.col("gpu_id")}),
    ])  # fmt: skip


@gives(frames.EDGES)
def link_doorbell_mappings(events: pl.DataFrame, args: pl.DataFrame, mappings: pl.DataFrame) -> pl.DataFrame:
    """Return the edges `doorbell_mapping`: from the CREATE_QUEUE that needed the doorbell page to its mmap.

    The page is mapped once per process and GPU, by the thread that made the first queue there, after the ioctl
    returned and in the same HIP call. `derived` where a probe read the GPU of the ioctl; else `inferred` by thread and
    time.

    Args:
        events: linked events with `chain`.
        args: args by event, with `gpu`.
        mappings: as `list_mappings` returns them.
    """
    pages = mappings.filter(pl.col("mapping") == "doorbells").sort("ts_ns")
    pages = pages.unique(["process", "thread", "gpu_id"], keep="first", maintain_order=True)
    made = events.select("event", "thread", "ts_ns", "dur_ns", "layer", "name", "result").filter(
        (pl.col("layer") == "ioctl")
        & (pl.col("name") == CREATE_QUEUE)
        & (pl.col("result") == "0").fill_null(value=True)
    )
    made = made.select("thread", "result", from_event="event", made_ns=pl.col("ts_ns") + pl.col("dur_ns").fill_null(0))
    gpus = pivot_args(args, made["from_event"], ["gpu"]).rename({"event": "from_event"})
    made = made.join(gpus, on="from_event", how="left", maintain_order="left").sort("made_ns")
    joined = pages.join_asof(made, left_on="ts_ns", right_on="made_ns", by="thread", check_sortedness=False).drop_nulls(
        "from_event"
    )
    # What an ioctl whose exit is missing returned is not known: it may be the one.
    joined = joined.drop_nulls("result")
    # Else the queue's own ioctl was lost. If a log shows no call around them, only the GPU tells.
    call, made_in = (events["chain"].gather(joined[name]) for name in ("event", "from_event"))
    unsure = call.is_null() & (events["layer"] == "hip").any()
    agreed = joined.filter(
        call.eq_missing(made_in) & ((pl.col("gpu") == pl.col("gpu_id")) | (pl.col("gpu").is_null() & ~unsure))
    )
    return agreed.select(
        "from_event", to_event="event", rule=pl.lit("doorbell_mapping"),
        evidence=pl.when(pl.col("gpu").is_not_null()).then(pl.lit(DERIVED)).otherwise(pl.lit(INFERRED)),
    )  # fmt: skip
