"""Processes of a container that do not descend from the workload: who belongs to it, and who of them uses the GPU."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from tracecorr.capture.container_workload import is_of_another_capture
from tracecorr.capture.processes import cgroup_pids, find_cgroup, has_open

_PROC = Path("/proc")


class ContainerMembers:
    """Find the processes of the container in which a process runs.

    They share its cgroup. Where it has none of its own (rootless on cgroup v1, `--cgroups=disabled`), they
    share its mount namespace: the cgroup would be that of the whole host, or of the user's session.

    Args:
        pid: host number of a process in the container.
        token: unique name of the capture; what runs for another one that records there, too, is left to that.
    """

    def __init__(self, pid: int, token: str) -> None:
        self._token = token
        cgroup = find_cgroup(pid)
        self._cgroup = cgroup if cgroup.strip("/") and cgroup not in _own_cgroups() else ""
        self._namespace = _mount_namespace(_PROC / str(pid))

    def find_openers(self) -> list[int]:
        """Return the host pids of those whose open files include the KFD."""
        pids = cgroup_pids(self._cgroup) if self._cgroup else self._share_namespace()
        return [pid for pid in pids if has_open(pid, "/dev/kfd") and not is_of_another_capture(pid, self._token)]

    def _share_namespace(self) -> list[int]:
        if self._namespace is None or self._namespace == _mount_namespace(_PROC / "self"):
            return []
        found = [p for p in _PROC.iterdir() if p.name.isdigit() and _mount_namespace(p) == self._namespace]
        return sorted(int(path.name) for path in found)


def _own_cgroups() -> set[str]:
    with suppress(OSError):
        return {line.partition(":")[2].partition(":")[2] for line in (_PROC / "self/cgroup").read_text().splitlines()}
    return set()


def _mount_namespace(process: Path) -> int | None:
    try:
        return (process / "ns/mnt").stat().st_ino
    except OSError:
        return None
