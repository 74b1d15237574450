"""Reader of the AMD HIP runtime log (`AMD_LOG_LEVEL`) of ROCm 3.5 to 7.2.

The ledger counts every byte. Records are `used`; the rest is `skipped` for a reason of `model.reasons`. What stands
behind NULs on the line of a record is no part of it. A record that the file ends in, and whose end may be missing, is
used as far as it goes, and counts as lost, too.
"""

from tracecorr.read.amdlog.reader import list_starts, looks_like_amd_log, read_amd_log

__all__ = ["list_starts", "looks_like_amd_log", "read_amd_log"]
