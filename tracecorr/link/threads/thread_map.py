"""Threads and processes: log tid (pthread address) to kernel tid, log pid to host pid."""

from __future__ import annotations

from dataclasses import dataclass, replace

import polars as pl

from tracecorr.link.threads.hashed_tids import SHARED_NUMBER, add_hashes, keep_likely
from tracecorr.link.threads.lives import LIFE, ToLog, find_process_lives, find_thread_lives, number_lives
from tracecorr.link.threads.thread_owners import NO_NAME, list_births
from tracecorr.model import schema
from tracecorr.model.kinds import DERIVED, LEAST_ADDRESS, RECORDED
from tracecorr.read.kfd.ioctls import CREATE_QUEUE

# glibc on x86-64 registers the robust list at pthread address + 0x2e0 (measured with HIP 7.2.4).
ROBUST_LIST_OFFSET = 0x2E0
# How a process is known that nothing joins but its number.
_SAME_PID = "same pid"
# What names one thread of the log while it maps threads.
_LINE = ("life", "log_tid", "from_ns")
# Columns of the part events that speak of threads.
THREAD_COLUMNS = (
    "file", "offset", "stamp_ns", "pid", "tid", "comm", "layer", "name", "ring", "packet_index", "arg", "result",
    "clock",
)  # fmt: skip


@dataclass(frozen=True)
class Identities:
    """Hold the threads and processes of a capture.

    Args:
        processes: rows of `schema.PROCESSES` without times.
        threads: rows of `schema.THREADS` without times.
        log_threads: file, log_pid, log_tid -> thread, process; from_ns: the stamp of the log from which on, where an
            address is used by one thread after the other.
        trace_threads: tid, tgid -> thread, process; tid_key and tgid_key name one life of each number.
        lives: where a pid begins to name another process: tgid, stamp_ns, life.
        births: where a tid begins to name another thread: tid, stamp_ns, life; None = not known.
    """

    processes: pl.DataFrame
    threads: pl.DataFrame
    log_threads: pl.DataFrame
    trace_threads: pl.DataFrame
    lives: pl.DataFrame
    births: pl.DataFrame | None = None


@dataclass(frozen=True)
class SeenIdentities:
    """Hold what a capture read from /proc while its workload ran.

    Args:
        processes: host pid `pid` and `log_pid`, its number in its own pid namespace.
        threads: kernel thread `tid` and its `robust_list` (u64).
        named: pid, tid, comm and seen_ns (CLOCK_MONOTONIC) of threads and processes; None = nothing was read.
    """

    processes: pl.DataFrame
    threads: pl.DataFrame
    named: pl.DataFrame | None = None


def map_threads(
    log: pl.DataFrame,
    trace: pl.DataFrame,
    seen: SeenIdentities | None = None,
    to_log: ToLog | None = None,
    owners: pl.DataFrame | None = None,
    writers: pl.DataFrame | None = None,
) -> Identities:
    """Join the threads of the log with those of the trace.

    Exact where the trace shows who wrote the records of a thread; else where it holds the thread's pthread address
    (`set_robust_list`), and where the capture read it from the kernel; a process whose log pid is known to be a host
    pid, or equals it, lends its main thread.

    Args:
        log, trace: part events of the two sources.
        seen: what the capture itself knows.
        to_log: from stamps of the trace to those of the log, once its clock is known: needed to tell threads apart
            that used one address after the other.
        owners: the lives of the trace's threads, as events tell them (`find_owners`).
        writers: which kernel thread wrote the records of which log thread (`part_tables.WRITERS`).
    """
    log_threads = log.select("file", "pid", "tid").unique(maintain_order=True)
    log_threads = log_threads.filter(pl.col("pid").is_not_null())
    # Two containers can both have a pid 7: a process of the log is (file, pid).
    life = pl.struct("file", "pid").rank("dense").alias("life")
    log_threads = log_threads.with_columns(life).rename({"pid": "log_pid", "tid": "log_tid"})
    log_threads = _with_host_pids(log_threads, seen)
    known = add_hashes(_addresses(trace, seen), log_threads)
    births = list_births(owners) if owners is not None else None
    if births is not None:
        # The kernel was asked for the address of one of them only.
        known = known.filter(pl.col("stamp_ns").is_not_null() | ~pl.col("tid").is_in(births["tid"].implode()))
    lives = find_process_lives(_claims(log_threads, known, "tgid").select("stamp_ns", "tgid", owner="life"), births)
    trace = number_lives(trace, lives, births)
    known = number_lives(known.rename({"tgid": "pid"}), lives, births).drop("tid", "pid").rename({"tid_key": "tid"})
    trace_threads = _name_threads(_trace_threads(trace), owners)
    log_threads = _split_addresses(log_threads, known, to_log)
    pairs = _pair_threads(log_threads, trace_threads, known)
    exact = _exact(pairs)
    if writers is not None and not writers.is_empty():
        log_threads, exact = _follow_writers(log_threads, exact, number_lives(writers, lives, births))
    pids = _join_processes(log_threads, trace_threads, exact, _find_foreign(log_threads, trace, known))
    log_threads = _mark_shared(log_threads, pairs)
    return replace(_number(log_threads, trace_threads, exact, pids, lives), births=births)


def _claims(log_threads: pl.DataFrame, known: pl.DataFrame, *columns: str) -> pl.DataFrame:
    """Return the registrations of addresses that the log uses: life, log_tid, tid, stamp_ns, how."""
    wanted = log_threads.select("life", "log_tid")
    return wanted.join(known, left_on="log_tid", right_on="address").select(
        "life", "log_tid", "tid", "stamp_ns", "how", *columns
    )


def _split_addresses(log_threads: pl.DataFrame, known: pl.DataFrame, to_log: ToLog | None) -> pl.DataFrame:
    """Return the log's threads with `from_ns` and `tid`: an address that several threads used one after the other
    gives a row for each of them, when the clock of the trace is known."""
    whole = log_threads.with_columns(from_ns=pl.lit(0, pl.Int64), tid=pl.lit(None, pl.Int64))
    if to_log is None:
        return whole
    claims = _own_claims(_claims(log_threads, known, "tgid_key", "origin"), log_threads).rename({"life": "owner"})
    # Threads with different addresses and one hash live beside each other.
    claims = claims.filter(pl.col("origin").n_unique().over("owner", "log_tid") == 1)
    lives = find_thread_lives(claims, to_log).rename({"owner": "life"}).select("life", "log_tid", "from_ns", "tid")
    if lives.is_empty():
        return whole
    split = log_threads.join(lives, on=["life", "log_tid"])
    return pl.concat([whole.join(lives, on=["life", "log_tid"], how="anti"), split.select(whole.columns)])


def _own_claims(claims: pl.DataFrame, log_threads: pl.DataFrame) -> pl.DataFrame:
    """Return the registrations of each address by the process of the log itself, not by others with equal addresses.

    Processes that were forked from one have its layout. If none has the log's pid they cannot be told apart.
    """
    pids = log_threads.select("life", "host_pid").unique("life")
    claims = claims.join(pids, on="life", how="left", maintain_order="left")
    own = (pl.col("tgid_key") % LIFE == pl.col("host_pid")).fill_null(False)
    # A trace that tells no tgid has the tid in its place.
    told = pl.when(pl.col("tgid_key") != pl.col("tid")).then("tgid_key")
    line = ("life", "log_tid")
    one = told.drop_nulls().n_unique().over(line) <= 1
    return claims.filter(own | (~own.any().over(line) & one))


def _with_host_pids(log_threads: pl.DataFrame, seen: SeenIdentities | None) -> pl.DataFrame:
    """Add host_pid: what the capture saw, where one process alone had the log's number, else that number."""
    own = pl.col("log_pid").cast(pl.Int64)
    if seen is None:
        return log_threads.with_columns(host_pid=own)
    known = seen.processes.select(log_pid=pl.col("log_pid").cast(pl.Int64), seen_pid=pl.col("pid").cast(pl.Int64))
    known = known.unique().filter(pl.len().over("log_pid") == 1)
    joined = log_threads.join(known, left_on=own, right_on="log_pid", how="left", maintain_order="left")
    return joined.with_columns(host_pid=pl.coalesce("seen_pid", own)).drop("seen_pid")


def _trace_threads(trace: pl.DataFrame) -> pl.DataFrame:
    """Return the lives of kernel threads: tid, tgid (keys; null if the trace tells none, or two), comm, gpu."""
    named = pl.col("tgid_key").drop_nulls()
    seen = trace.filter(pl.col("tid").is_not_null()).group_by(tid="tid_key", maintain_order=True)
    return seen.agg(
        tgid=pl.when(named.n_unique() == 1).then(named.first()),
        comm=pl.col("comm").filter(pl.col("comm") != NO_NAME).last(),
        first_ns=pl.col("stamp_ns").min(),
        gpu=pl.col("layer").is_in(["ioctl", "kfd", "doorbell"]).any(),
    )


def _name_threads(threads: pl.DataFrame, owners: pl.DataFrame | None) -> pl.DataFrame:
    """Return the lives of kernel threads without first_ns, with the names that events tell."""
    if owners is None or owners.is_empty():
        return threads.drop("first_ns")
    told = owners.select(number=pl.col("tid").cast(pl.Int64), from_ns="from_ns", told="comm").sort("from_ns")
    asked = threads.with_columns(pl.col("first_ns").fill_null(1 << 62), number=pl.col("tid") % LIFE).with_row_index(
        "at"
    )
    found = asked.sort("first_ns").join_asof(
        told, left_on="first_ns", right_on="from_ns", by="number", check_sortedness=False
    )
    comm = pl.coalesce("told", pl.col("comm").cast(pl.String)).cast(threads.schema["comm"])
    return found.sort("at").with_columns(comm=comm).select(*(c for c in threads.columns if c != "first_ns"))


def _addresses(trace: pl.DataFrame, seen: SeenIdentities | None) -> pl.DataFrame:
    """Return kernel tid and pthread address as the C library told them to the kernel, surest first."""
    tgid, no_stamp = pl.coalesce("pid", "tid").cast(pl.Int64).alias("tgid"), pl.lit(None, pl.Int64)
    lists = trace.filter((pl.col("layer") == "syscall") & (pl.col("name") == "set_robust_list"))
    told = lists.select("tid", tgid, "stamp_ns", head="arg", how=pl.lit("set_robust_list"))
    threads = seen.threads if seen else pl.DataFrame(schema={"tid": pl.Int64, "robust_list": pl.UInt64})
    read = threads.select(
        "tid", tgid=no_stamp, stamp_ns=no_stamp, head="robust_list", how=pl.lit("get_robust_list"),
    )  # fmt: skip
    known = pl.concat([side.with_columns(pl.col("tid").cast(pl.Int64)) for side in (told, read)])
    known = known.filter(pl.col("head") > ROBUST_LIST_OFFSET)
    return known.select("tid", "tgid", "stamp_ns", address=pl.col("head") - ROBUST_LIST_OFFSET, how="how")


def _pair_threads(log_threads: pl.DataFrame, trace_threads: pl.DataFrame, known: pl.DataFrame) -> pl.DataFrame:
    """Return threads of the log with those of the trace that have their address: life, log_tid, from_ns, tid and more.

    A forked child registers the address that it inherits again; of several owners the one whose process
    has the log's pid is meant.
    """
    owners = known.select("address", "tid", "how").unique(["address", "tid"], maintain_order=True).join(
        trace_threads.select("tid", "tgid"), on="tid", how="left", maintain_order="left"
    )  # fmt: skip
    wanted = log_threads.rename({"tid": "split_tid"})
    pairs = wanted.join(owners, left_on="log_tid", right_on="address", maintain_order="left")
    pairs = pairs.filter((pl.col("split_tid") == pl.col("tid")).fill_null(True))
    own_pid = (pl.coalesce("tgid", "tid") % LIFE == pl.col("host_pid")).fill_null(False)
    pairs = pairs.with_columns(own_pid=own_pid)
    return keep_likely(pairs.filter(pl.col("own_pid") | ~pl.col("own_pid").any().over(_LINE)))


def _exact(pairs: pl.DataFrame) -> pl.DataFrame:
    """Return life, log_tid, from_ns -> tid where address and kernel thread belong to each other alone."""
    alone = (pl.len().over(_LINE) == 1) & (pl.len().over("tid") == 1)
    columns = ("life", "log_pid", "host_pid", "log_tid", "from_ns", "tid", "how")
    hashed = pl.col("log_tid") < LEAST_ADDRESS
    evidence = pl.when(hashed).then(pl.lit(DERIVED)).otherwise(pl.lit(RECORDED))
    return pairs.filter(alone).select(*columns, evidence=evidence)


def _mark_shared(log_threads: pl.DataFrame, pairs: pl.DataFrame) -> pl.DataFrame:
    """Return the log's threads with `shared`: whether several threads of the trace print the number."""
    hashed = pairs.filter((pl.col("log_tid") < LEAST_ADDRESS) & (pl.len().over(_LINE) > 1))
    numbers = hashed.select(_LINE).unique().with_columns(shared=True)
    return log_threads.join(numbers, on=_LINE, how="left", maintain_order="left", nulls_equal=True)


def _follow_writers(
    log_threads: pl.DataFrame, exact: pl.DataFrame, writers: pl.DataFrame
) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return the log's threads and their kernel threads, where their writers are known by these alone.

    Args:
        log_threads: file, log_pid, log_tid, life, host_pid, from_ns, tid.
        exact: what addresses tell.
        writers: `part_tables.WRITERS` with `tid_key`.
    """
    line = ["life", "log_tid"]
    named = writers.select("file", "log_pid", "log_tid", "from_ns", "evidence", tid="tid_key")
    ours = log_threads.drop("from_ns", "tid").unique(["file", "log_pid", "log_tid"], maintain_order=True)
    ours = ours.join(named, on=["file", "log_pid", "log_tid"], maintain_order="left")
    others = log_threads.join(ours, on=line, how="anti", maintain_order="left")
    rest = exact.join(ours, on=line, how="anti", maintain_order="left").join(ours, on="tid", how="anti")
    told = ours.with_columns(pl.col("evidence").cast(exact.schema["evidence"]), how=pl.lit("write"))
    return (
        pl.concat([others, ours.select(others.columns)]),
        pl.concat([rest, told.select(pl.col(name).cast(kind) for name, kind in rest.schema.items())]),
    )


def _find_foreign(log_threads: pl.DataFrame, trace: pl.DataFrame, known: pl.DataFrame) -> pl.DataFrame:
    """Return life, tgid: the processes that are of another run than the log, though a pid is the same.

    Queues are created in HIP calls: the address of at least one thread that creates them is in the log. One that prints
    hashes in the place of addresses does not tell.
    """
    created = trace.filter((pl.col("layer") == "ioctl") & (pl.col("name") == CREATE_QUEUE))
    creators = created.select(tid="tid_key", tgid=pl.coalesce("tgid_key", "tid_key")).unique()
    addressed = creators.join(known.select("tid", "address").unique(), on="tid")
    logged = pl.col("address").is_in(log_threads["log_tid"].unique().implode())
    foreign = addressed.group_by("tgid").agg(ours=logged.any()).filter(~pl.col("ours")).select("tgid")
    telling = log_threads.filter(pl.col("log_tid") >= LEAST_ADDRESS).select("life").unique()
    return telling.join(foreign, how="cross")


def _join_processes(
    log_threads: pl.DataFrame, trace_threads: pl.DataFrame, exact: pl.DataFrame, foreign: pl.DataFrame
) -> pl.DataFrame:
    """Return life -> tgid and how it is known; null if the threads of a life disagree.

    A process prints one pid: another pid than that of the threads that are known to be its own is that of a namespace.

    Args:
        log_threads, trace_threads: the threads of both sides.
        exact: those that are one.
        foreign: life, tgid that are not one.
    """
    by_thread = (
        exact.join(trace_threads, on="tid")
        .join(foreign, on=["life", "tgid"], how="anti", maintain_order="left")
        .with_columns(tgid=pl.coalesce("tgid", pl.when(pl.col("tid") % LIFE == pl.col("host_pid")).then("tid")))
        .drop_nulls("tgid")
        .group_by("life", maintain_order=True)
        .agg(pl.col("tgid").unique(), how=pl.lit("threads").first())
        .filter(pl.col("tgid").list.len() == 1)
        .select("life", pl.col("tgid").list.first().cast(pl.Int64), "how")
    )
    shown = exact.select("life", "log_pid").unique("life").join(by_thread, on="life")
    users = trace_threads.filter("gpu")
    refused = foreign.select("life", host_pid="tgid", refused=pl.lit(value=True))
    is_told = pl.col("host_pid").is_in(users["tgid"].drop_nulls().implode()) & pl.col("refused").is_null()
    untold = users.filter(pl.col("tgid").is_null())["tid"]
    same_pid = pl.col("host_pid") == pl.col("log_pid")
    same = (
        log_threads.unique("life", maintain_order=True)
        .join(exact, on="life", how="anti", maintain_order="left")
        .join(refused, on=["life", "host_pid"], how="left", maintain_order="left")
        .filter(is_told | pl.col("host_pid").is_in(untold.implode()))
        .join(shown.select(host_pid="tgid", own_pid="log_pid"), on="host_pid", how="left", maintain_order="left")
        .filter((pl.col("own_pid") == pl.col("log_pid")).fill_null(value=True).all().over("life"))
        .unique("life", maintain_order=True)
        .select("life", tgid="host_pid", how=pl.when(same_pid).then(pl.lit(_SAME_PID)).otherwise(pl.lit("NSpid")))
    )
    return pl.concat([by_thread, same])


def _number(
    log_threads: pl.DataFrame, trace_threads: pl.DataFrame, exact: pl.DataFrame, pids: pl.DataFrame, lives: pl.DataFrame
) -> Identities:
    hows = pids.rename({"how": "process_how"})
    log_side = (
        log_threads.drop("tid")
        .join(exact.drop("log_pid", "host_pid"), on=_LINE, how="left", maintain_order="left")
        .join(hows, on="life", how="left", maintain_order="left")
    )
    log_side = log_side.with_columns(
        how=pl.when(pl.col("shared") & pl.col("tid").is_null()).then(pl.lit(SHARED_NUMBER)).otherwise("how")
    ).drop("shared")
    comms = trace_threads.select("tid", "comm", own=pl.col("tgid"))
    log_side = log_side.join(comms, on="tid", how="left", maintain_order="left")
    log_side = log_side.with_columns(tgid=pl.coalesce("own", "tgid")).drop("own")
    rest = trace_threads.join(log_side.drop_nulls("tid").select("tid"), on="tid", how="anti", maintain_order="left")
    # Without record-tgid a trace names threads only: a thread whose tid is a process is its main thread.
    rest = rest.with_columns(
        tgid=pl.coalesce("tgid", pl.when(pl.col("tid").is_in(pids["tgid"].implode())).then(pl.col("tid")))
    ).drop("gpu")
    every = pl.concat([log_side, rest], how="diagonal_relaxed").with_row_index("thread")
    # Pids are positive: a process of the log that the trace does not show gets a negative owner of its own.
    every = every.with_columns(owner=pl.coalesce("tgid", -1 - pl.col("life").cast(pl.Int64)))
    processes = _processes(every)
    every = every.join(processes.select("owner", "process"), on="owner", how="left", maintain_order="left")
    every = every.with_columns(tid_key="tid", tgid_key="tgid", tid=pl.col("tid") % LIFE, tgid=pl.col("tgid") % LIFE)
    return Identities(
        schema.PROCESSES.conform(processes.drop("owner").with_columns(pl.col("pid") % LIFE)),
        schema.THREADS.conform(every.select("thread", "process", "tid", "log_tid", "comm", "how", "evidence")),
        every.drop_nulls("log_tid").select("file", "log_pid", "log_tid", "from_ns", "thread", "process", "tid", "tgid"),
        every.drop_nulls("tid").select("tid", "tid_key", "thread", "process", "tgid", "tgid_key"),
        lives,
    )


def _processes(every: pl.DataFrame) -> pl.DataFrame:
    """Return one row per owner: those of the log first, then those that only the trace knows."""
    main = pl.col("comm").filter(pl.col("tid") == pl.col("tgid")).first()
    grouped = every.drop_nulls("owner").group_by("owner", maintain_order=True).agg(
        pid=pl.col("tgid").first(),
        log_pid=pl.col("log_pid").drop_nulls().first(),
        comm=main,
        how=pl.col("process_how").drop_nulls().first(),
    )  # fmt: skip
    return grouped.with_row_index("process")
