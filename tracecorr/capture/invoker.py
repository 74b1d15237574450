"""Who called: the user behind sudo, whose identity and environment the workload gets."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tracecorr.model.errors import MachineError

_PROC = Path("/proc")
# Python makes the locale C one of UTF-8 (PEP 538), polars sets up its allocator.
_SET_BY_LIBRARIES = ("LC_CTYPE", "_RJEM_MALLOC_CONF")


@dataclass(frozen=True)
class Invoker:
    """Say as whom the workload runs, and with which environment."""

    uid: int
    gid: int
    groups: tuple[int, ...]
    name: str
    environment: Mapping[str, str]

    def become(self) -> None:
        """Drop root for good in this process."""
        if os.geteuid() == self.uid and os.getgid() == self.gid:
            return
        os.setgroups(self.groups)
        os.setresgid(self.gid, self.gid, self.gid)
        os.setresuid(self.uid, self.uid, self.uid)


def find_invoker(environment: Mapping[str, str], *, as_root: bool = False) -> Invoker:
    """Return the user who called sudo, or the current one where sudo was not used.

    sudo resets the environment of what it starts, but its own still holds the caller's: without
    it ROCR_VISIBLE_DEVICES would be dropped and the workload would land on another user's GPU.

    Args:
        environment: that of this process.
        as_root: keep root and this process's environment.

    Raises:
        MachineError: the caller's environment cannot be read.
    """
    environment = _without_own(environment)
    uid = _number(environment.get("SUDO_UID"))
    if as_root or not uid or os.geteuid() != 0:
        user = _user_name(os.geteuid())
        return Invoker(os.geteuid(), os.getegid(), tuple(os.getgroups()), user, dict(environment))
    name = environment.get("SUDO_USER") or _user_name(uid)
    gid = _number(environment.get("SUDO_GID")) or _primary_group(uid)
    sudo, is_parent = _find_sudo()
    groups = _session_groups(sudo, uid) or tuple(os.getgrouplist(name, gid))
    return Invoker(uid, gid, groups, name, _caller_environment(sudo, environment, uid, is_parent=is_parent))


def _without_own(environment: Mapping[str, str]) -> dict[str, str]:
    """Leave out what Python and polars set in this process: the workload would run in another locale."""
    given = read_environment(os.getpid()) or {}
    return {key: value for key, value in environment.items() if key in given or key not in _SET_BY_LIBRARIES}


def _caller_environment(sudo: int | None, own: Mapping[str, str], uid: int, *, is_parent: bool) -> Mapping[str, str]:
    kept = {key: value for key, value in own.items() if not key.startswith("SUDO_")}
    callers = read_environment(sudo) if sudo else None
    if callers:
        # What a script between sudo and us exported is the caller's wish too.
        between = {} if is_parent else kept
        return {**between, **{key: value for key, value in callers.items() if not key.startswith("SUDO_")}}
    if own.get("HOME") == _home(uid):
        return kept
    raise MachineError(
        "the environment of the user who called sudo cannot be read, and the workload must have it",
        "run `sudo -E tracecorr capture ...`, or --as-root to run the workload as root",
    )


def read_environment(pid: int) -> dict[str, str] | None:
    """Return the environment that a process was started with, None where it cannot be read."""
    try:
        data = (_PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return None
    pairs = (os.fsdecode(item).partition("=") for item in data.split(b"\0") if item)
    return {key: value for key, _, value in pairs if key} or None


def _find_sudo() -> tuple[int | None, bool]:
    """Return the nearest sudo above this process, and whether nothing but sudo is between."""
    pid, is_parent = os.getppid(), True
    while pid > 1:
        fields = read_status(pid)
        if fields is None:
            break
        if fields.get("Name") == "sudo":
            return pid, is_parent
        pid, is_parent = int(fields.get("PPid", "0")), False
    return None, False


def _session_groups(sudo: int | None, uid: int) -> tuple[int, ...]:
    """Return the groups of the shell that called sudo: `newgrp` may have added one."""
    pid = sudo
    while pid and pid > 1:
        fields = read_status(pid)
        if fields is None:
            break
        if fields.get("Uid", "").split()[:1] == [str(uid)]:
            return tuple(int(group) for group in fields.get("Groups", "").split())
        pid = int(fields.get("PPid", "0"))
    return ()


def read_status(pid: int) -> dict[str, str] | None:
    """Return the fields of /proc/PID/status, None when the process is gone."""
    try:
        text = (_PROC / str(pid) / "status").read_text(errors="replace")
    except OSError:
        return None
    pairs = (line.partition(":") for line in text.splitlines())
    return {key: value.strip() for key, _, value in pairs}


def _number(text: str | None) -> int:
    return int(text) if text and text.isdigit() else 0


def _user_name(uid: int) -> str:
    try:
        return pwd.getpwuid(uid).pw_name
    except KeyError:
        return str(uid)


def _primary_group(uid: int) -> int:
    try:
        return pwd.getpwuid(uid).pw_gid
    except KeyError:
        return uid


def _home(uid: int) -> str | None:
    try:
        return pwd.getpwuid(uid).pw_dir
    except KeyError:
        return None
