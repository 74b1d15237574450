"""Subjects of messages: which reader a record is for, known by the code of its message."""

from __future__ import annotations

import numpy as np

from tracecorr.model.hip_names import STREAM_MAKERS
from tracecorr.read.amdlog.fields import HAS_FIELDS
from tracecorr.read.amdlog.messages import Kind
from tracecorr.read.digits import Ints

# Calls that do work on a stream that they are given.
_GIVEN_STREAMS = (
    "hipLaunch", "hipExtLaunch", "hipModuleLaunch", "hipExtModuleLaunch", "hipHccModuleLaunch", "hipMemcpy",
    "hipMemset", "hipMemPrefetch", "hipGraphLaunch", "hipEventRecord", "hipMallocAsync", "hipFreeAsync",
    "hipStreamSynchronize", "hipStreamQuery", "hipStreamWait", "hipStreamWrite", "hipStreamAddCallback",
    "hipStreamBatchMemOp", "hipStreamAttachMemAsync", "hipMallocFromPoolAsync", "hipDrvLaunch", "hipDrvMemcpy",
)  # fmt: skip
_OF_KIND = {"commands": (Kind.COMMAND,), "kernels": (Kind.SHADER,), "packets": (Kind.PACKET, Kind.COPY),
            "texts": (Kind.TEXT,)}  # fmt: skip
SUBJECTS = (*_OF_KIND, "fields", "streams", "given_streams")

# Subject -> rows that are read for it, in the order of the file.
Subjects = dict[str, Ints]


def subjects_of(message: Ints, kind: Ints, names: list[str]) -> Ints:
    """Return the subjects of messages, one bit each in the order of `SUBJECTS`.

    Args:
        message: index of each in `MESSAGES`; their number = none of them.
        kind: `Kind` of each.
        names: of each.
    """
    about = {subject: np.isin(kind, kinds) for subject, kinds in _OF_KIND.items()}
    about["fields"] = HAS_FIELDS[message]
    of_stream = np.array([name.startswith((*STREAM_MAKERS, "hipStreamDestroy")) for name in names], np.bool_)
    about["streams"] = of_stream & np.isin(kind, (Kind.ENTER, Kind.EXIT))
    given = np.array([name.startswith(_GIVEN_STREAMS) for name in names], np.bool_)
    about["given_streams"] = given & (kind == Kind.ENTER)
    bits = np.zeros(len(kind), np.int64)
    for bit, subject in enumerate(SUBJECTS):
        bits |= about[subject].astype(np.int64) << bit
    return bits
