"""Who called: the user behind sudo, whose identity and environment the workload gets; what this process may do.

A capture on 400 CPUs opens two descriptors for each of them and each instance, and perf events.
"""

from __future__ import annotations

import contextlib
import os
import pwd
import resource
import select
import shlex
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from tracecorr.model.errors import MachineError

# Where sudo searches on Debian and Ubuntu (`secure_path` of sudoers), whatever the PATH of the user says.
_SEARCHED = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def call_as_root(words: str) -> str:
    """Return the command line that calls tracecorr with some words as root; in full where sudo would not find it."""
    if shutil.which("tracecorr", path=_SEARCHED):
        return f"sudo tracecorr {words}"
    called = Path(sys.argv[0])
    if called.name == "tracecorr" and called.exists():
        return f"sudo {shlex.quote(str(called.absolute()))} {words}"
    return f"sudo {shlex.quote(sys.executable)} -m tracecorr {words}"


_PROC = Path("/proc")
_SUDO = ("sudo", "sudo-rs")
# Python makes the locale C one of UTF-8 (PEP 538), polars sets up its allocator.
_SET_BY_LIBRARIES = ("LC_CTYPE", "_RJEM_MALLOC_CONF")
# What sudo, PAM and shells set by themselves (sudo(8), pam_env(8)): their values are root's, or those of a login.
_SET_ON_THE_WAY = {
    "HOME", "LOGNAME", "MAIL", "PATH", "SHELL", "TERM", "USER", "USERNAME", "XAUTHORITY", "LANG", "LANGUAGE",
    "DBUS_SESSION_BUS_ADDRESS", "PWD", "OLDPWD", "SHLVL", "PS1", "_",
}  # fmt: skip
_PREFIXES_ON_THE_WAY = ("SUDO_", "LC_", "XDG_")


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
    it ROCR_VISIBLE_DEVICES would be dropped and the workload would land on another user's GPU. What
    was set after sudo was called holds before it.

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
    sudo = _find_sudo()
    groups = _session_groups(sudo, uid) or tuple(os.getgrouplist(name, gid))
    return Invoker(uid, gid, groups, name, _caller_environment(sudo, environment, uid))


def _without_own(environment: Mapping[str, str]) -> dict[str, str]:
    """Leave out what Python and polars set in this process: the workload would run in another locale."""
    given = read_environment(os.getpid()) or {}
    return {key: value for key, value in environment.items() if key in given or key not in _SET_BY_LIBRARIES}


def _caller_environment(sudo: int | None, own: Mapping[str, str], uid: int) -> Mapping[str, str]:
    callers = read_environment(sudo) if sudo else None
    if sudo and callers:
        later = {key: value for key, value in own.items() if not _is_set_on_the_way(key)}
        known = {key: value for key, value in callers.items() if not key.startswith("SUDO_")}
        return {**known, **later, **_assignments(sudo, own)}
    if own.get("HOME") == _home(uid):
        return {key: value for key, value in own.items() if not key.startswith("SUDO_")}
    raise MachineError(
        "the environment of the user who called sudo cannot be read, and the workload must have it",
        "run `sudo -E tracecorr capture ...`, or --as-root to run the workload as root",
    )


def _is_set_on_the_way(key: str) -> bool:
    return key in _SET_ON_THE_WAY or key.startswith(_PREFIXES_ON_THE_WAY)


def _assignments(sudo: int, own: Mapping[str, str]) -> dict[str, str]:
    """Return what `sudo NAME=VALUE tracecorr` and `sudo env NAME=VALUE tracecorr` set: the user's own words.

    The workload's words look the same; they are not in this process's environment.
    """
    words = (os.fsdecode(word).partition("=") for word in _read_process(sudo, "cmdline").split(b"\0"))
    return {key: value for key, _, value in words if own.get(key) == value}


def read_environment(pid: int) -> dict[str, str] | None:
    """Return the environment that a process was started with, None if it cannot be read."""
    pairs = (os.fsdecode(item).partition("=") for item in _read_process(pid, "environ").split(b"\0"))
    return {key: value for key, _, value in pairs if key} or None


def _read_process(pid: int, name: str) -> bytes:
    """Return a file of a process, empty if it cannot be read."""
    try:
        return (_PROC / str(pid) / name).read_bytes()
    except OSError:
        return b""


def _find_sudo() -> int | None:
    """Return the nearest sudo above this process."""
    return next((pid for pid, fields in _ancestors(os.getppid()) if fields.get("Name") in _SUDO), None)


def _session_groups(sudo: int | None, uid: int) -> tuple[int, ...]:
    """Return the groups of the shell that called sudo: `newgrp` may have added one."""
    for _, fields in _ancestors(sudo or 0):
        # sudo itself keeps the caller's real uid, but has root's groups.
        if set(fields.get("Uid", "").split()) == {str(uid)}:
            return tuple(int(group) for group in fields.get("Groups", "").split())
    return ()


def _ancestors(pid: int) -> Iterator[tuple[int, dict[str, str]]]:
    """Yield a process and those above it, each with the fields of its status."""
    while pid > 1:
        fields = read_status(pid)
        if fields is None:
            return
        yield pid, fields
        pid = int(fields.get("PPid", "0"))


def read_status(pid: int) -> dict[str, str] | None:
    """Return the fields of /proc/PID/status, None when the process is gone."""
    try:
        text = (_PROC / str(pid) / "status").read_text(errors="replace")
    except OSError:
        return None
    pairs = (line.partition(":") for line in text.splitlines())
    return {key: value.strip() for key, _, value in pairs}


def has_capability(number: int) -> bool:
    """Tell whether this process has a capability of the kernel (linux/capability.h)."""
    return bool(int((read_status(os.getpid()) or {}).get("CapEff", "0"), 16) >> number & 1)


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


_MOST_FILES, _CAP_SYS_RESOURCE = Path("/proc/sys/fs/nr_open"), 24


def wait_readable(descriptors: Iterable[int], seconds: float | None) -> bool:
    """Wait until one of some descriptors is readable; return False if none is after `seconds`, None = for ever.

    Not by select(2), which takes no number from 1024 on.
    """
    poller = select.poll()
    for descriptor in descriptors:
        poller.register(descriptor, select.POLLIN)
    return bool(poller.poll(None if seconds is None else seconds * 1000))


def most_files() -> int:
    """Return how many descriptors this process may open; with CAP_SYS_RESOURCE the kernel's own limit."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return max(hard, int(_MOST_FILES.read_text())) if has_capability(_CAP_SYS_RESOURCE) else hard


def allow_files() -> None:
    """Let this process open as many files as it may."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    for most in (most_files(), hard):
        with contextlib.suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (most, max(most, hard)))
            return
