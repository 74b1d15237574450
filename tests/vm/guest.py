"""Run in the guest of scripts/test_vm: doctor, plan, one capture of KFD calls, and nothing left behind."""

from __future__ import annotations

import errno
import subprocess
import sys
import time
from pathlib import Path

from described import describe_offer
from machine_state import OURS, read_state

from tracecorr.capture.plan.machine import probe_machine
from tracecorr.capture.plan.plan import EVENT_SETS, Wanted
from tracecorr.capture.plan.planning import make_plan, render_plan
from tracecorr.capture.smi_events import close_clients, open_clients
from tracecorr.capture.tracefs.control import find_tracefs

# A function that kfd_poke.py surely reaches, for the function tracer.
TRACED = "kfd_ioctl_get_version"
CAPTURE = ["capture", "--quiet", "--no-correlate", "--as-root", "--functions", TRACED, "-o", "poke.tracecorr", "--"]
# Before Linux 6.13 children lose the probes that they inherited when others end.
KEPT = Path(sys.modules["described"].__file__ or "").with_name("test_kept_probes.py")


def main() -> None:
    """Write what check.py looks at; the file `done` comes last."""
    log = Path("guest.log").open("w", buffering=1)  # noqa: SIM115
    OURS.clear()
    before = read_state(find_tracefs())
    start = time.monotonic()
    offer = probe_machine()
    log.write(f"probe_machine: {time.monotonic() - start:.1f} s\n")
    Path("machine.json").write_text(describe_offer(offer, f"scripts/test_vm, kernel {offer.kernel}"))
    for name in EVENT_SETS:
        Path(f"plan-{name}.txt").write_text(render_plan(make_plan(Wanted(name), offer), offer))
    findings = [f"{f.state:7}{f.name}: {f.why}\n" for f in offer.findings]
    Path("doctor.txt").write_text("".join(findings))
    Path("smi.txt").write_text(_ask_for_smi_events())
    start = time.monotonic()
    with Path("poke.jsonl").open("w") as out:
        done = subprocess.run(
            [sys.executable, "-m", "tracecorr", *CAPTURE, sys.executable, "kfd_poke.py", "3"],
            stdout=out, stderr=log, check=False,
        )  # fmt: skip
    log.write(f"capture: status {done.returncode}, {time.monotonic() - start:.1f} s\n")
    with Path("kept.txt").open("w") as out:
        subprocess.run([sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", KEPT], stdout=out, check=False)
    after = read_state(find_tracefs())
    changed = sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))
    Path("state.txt").write_text("\n".join(changed))
    Path("done").write_text(str(done.returncode))


def _ask_for_smi_events() -> str:
    """Ask the driver for the events of a GPU that is not there; return what it says."""
    node = Path("nodes/1")
    node.mkdir(parents=True)
    (node / "gpu_id").write_text("57005\n")
    try:
        clients = open_clients(nodes=node.parent)
    except OSError as error:
        return errno.errorcode[error.errno or 0]
    close_clients(clients)
    return "clients"


main()
