"""Reader of the AMD HIP runtime log (`AMD_LOG_LEVEL`) of ROCm 3.5 to 7.2.

The ledger counts every byte. Records are `used`; the rest is `skipped` for one of these reasons:

- `program_output`: text without the prefix of a record, also the part of a line before a record, or inside of one
  that it cut apart, and the rest of a torn or wrapped record that cannot surely be told to be one.
- `blank_line`: nothing but blanks.
- `continuation`: a further line of a message of the compiler (`devprogram.cpp`, `comgr`), or of the source text that
  `hiprtcCreateProgram` is given.
- `broken_record`: begins like a record, but its time cannot be read.
"""

from tracecorr.parse.amdlog.reader import looks_like_amd_log, read_amd_log

__all__ = ["looks_like_amd_log", "read_amd_log"]
