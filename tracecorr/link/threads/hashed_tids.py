"""Threads that the log prints as a hash of their pthread address (ROCm 7.13 and later).

CLR prints `std::hash<std::thread::id>` of a thread with its lowest 20 bits. With libstdc++ that is a Murmur hash of the
8 bytes of the address (`_Hash_bytes`), so an address that the trace shows tells the number in the log. Two threads may
have one number: such a number names none of them.
"""

from __future__ import annotations

import numpy as np
import polars as pl

from tracecorr.model.kinds import LEAST_ADDRESS

# `how` of a log thread whose number several threads of its process may have printed.
SHARED_NUMBER = "several threads print this number"
_MULTIPLIER, _SEED, _SIZE, _SHIFT = np.uint64(0xC6A4A7935BD1E995), np.uint64(0xC70F6907), np.uint64(8), np.uint64(47)


def hash_addresses(addresses: pl.Series) -> pl.Series:
    """Return what the log prints of threads with these pthread addresses (UInt64)."""
    with np.errstate(over="ignore"):
        mixed = addresses.to_numpy().astype(np.uint64) * _MULTIPLIER
        mixed = (mixed ^ (mixed >> _SHIFT)) * _MULTIPLIER
        hashed = ((_SEED ^ (_SIZE * _MULTIPLIER)) ^ mixed) * _MULTIPLIER
    hashed = (hashed ^ (hashed >> _SHIFT)) * _MULTIPLIER
    return pl.Series("hash", (hashed ^ (hashed >> _SHIFT)) & np.uint64(LEAST_ADDRESS - 1))


def name_rocr_threads(rows: pl.DataFrame) -> pl.DataFrame:
    """Return part events of a log in which a thread has one number, where ROCr prints the address that HIP hashes.

    Args:
        rows: part events with `source`, file, pid, tid.
    """
    is_log = pl.col("source") == "amd_log"
    threads = rows.lazy().filter(is_log).select("file", "pid", "tid").drop_nulls().unique().collect()
    hashes = threads.filter(pl.col("tid") < LEAST_ADDRESS)
    addresses = threads.filter(pl.col("tid") >= LEAST_ADDRESS)
    if hashes.is_empty() or addresses.is_empty():
        return rows
    hashed = addresses.with_columns(_hash=hash_addresses(addresses["tid"]))
    hashed = hashed.join(hashes, left_on=["file", "pid", "_hash"], right_on=["file", "pid", "tid"], how="semi")
    named = rows.join(hashed, on=["file", "pid", "tid"], how="left", maintain_order="left")
    return named.with_columns(tid=pl.coalesce("_hash", "tid")).drop("_hash")


def add_hashes(known: pl.DataFrame, log_threads: pl.DataFrame) -> pl.DataFrame:
    """Return the registered addresses with those that the log prints as hashes.

    Args:
        known: tid, tgid, stamp_ns, address, how.
        log_threads: log_tid.

    Returns: `known` with `origin`, the address, and a row more for each whose hash is in the log: there `address` is
        the hash.
    """
    known = known.with_columns(origin="address")
    printed = log_threads.filter(pl.col("log_tid") < LEAST_ADDRESS)["log_tid"].unique()
    if printed.is_empty() or known.is_empty():
        return known
    hashed = known.with_columns(address=hash_addresses(known["address"]), how=pl.col("how") + " (hash)")
    return pl.concat([known, hashed.filter(pl.col("address").is_in(printed.implode()))])


def keep_likely(pairs: pl.DataFrame) -> pl.DataFrame:
    """Return the pairs of log thread and kernel thread, of hashes those of the process that can be meant.

    In 20 bits some thread of a large machine agrees by chance: where the pid does not name the process, two threads of
    the log or more must be found in it, and more than in any other.

    Args:
        pairs: life, log_tid, tid, tgid, own_pid (whether the process is the log's by its pid).
    """
    hashed = pl.col("log_tid") < LEAST_ADDRESS
    unsure = pairs.filter(hashed & ~pl.col("own_pid"))
    if unsure.is_empty():
        return pairs
    found = unsure.group_by("life", "tgid").agg(n=pl.col("log_tid").n_unique())
    best = found.filter((pl.col("n") == pl.col("n").max().over("life")) & (pl.col("n") > 1))
    best = best.filter(pl.len().over("life") == 1).select("life", "tgid", likely=pl.lit(value=True))
    joined = pairs.join(best, on=["life", "tgid"], how="left", maintain_order="left", nulls_equal=True)
    return joined.filter(~hashed | pl.col("own_pid") | pl.col("likely").fill_null(value=False)).drop("likely")
