"""What the figures were measured on, and how quiet it was."""

import os
import platform
import subprocess
import time

from testbed import shell


def describe(work_directory):
    """The machine as the page and every result name it. What cannot be had is absent."""
    told = {
        "kernel": platform.release(),
        "system": _os_name(),
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
        "file_system": _file_system(work_directory),
        "hypervisor": _output(["systemd-detect-virt", "--vm"]),
        "loopback_mtu": shell.read("/sys/class/net/lo/mtu"),
        "wmem_max_bytes": shell.read("/proc/sys/net/core/wmem_max"),
        "rmem_max_bytes": shell.read("/proc/sys/net/core/rmem_max"),
        "transparent_hugepages": _chosen(shell.read("/sys/kernel/mm/transparent_hugepage/enabled")),
    }
    return {key: value for key, value in told.items() if value is not None}


class CpuMeter:
    """How busy the processors were and how much of them the hypervisor kept, between two readings of /proc/stat."""

    def __init__(self):
        self.start = _cpu_ticks()

    def read(self):
        """`busy` and `steal` as shares of all processors since the meter was made; None where there is no /proc/stat."""
        if self.start is None:
            return None
        spent = [now - then for now, then in zip(_cpu_ticks(), self.start, strict=True)]
        total = sum(spent[:8]) or 1
        return {"busy": 1 - (spent[3] + spent[4]) / total, "steal": spent[7] / total}


def busy_share(seconds=1.0):
    """How busy the machine is while we do nothing: the noise that every figure will carry."""
    meter = CpuMeter()
    time.sleep(seconds)
    reading = meter.read()
    return reading["busy"] if reading else None


def _cpu_ticks():
    text = shell.read("/proc/stat")
    return [int(word) for word in text.splitlines()[0].split()[1:9]] if text else None


def _chosen(text):
    return text[text.index("[") + 1 : text.index("]")] if text and "[" in text else text


def _output(argv):
    try:
        return subprocess.run(argv, capture_output=True, text=True, check=False).stdout.strip() or None
    except OSError:
        return None


def _os_name():
    for line in (shell.read("/etc/os-release") or "").splitlines():
        if line.startswith("PRETTY_NAME="):
            return line.split("=", 1)[1].strip('"')
    return None


def _processor():
    for line in (shell.read("/proc/cpuinfo") or "").splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.machine()


def _file_system(directory):
    """Type and device of the mount that holds a directory."""
    _, kind, device = shell.mount_of(os.path.realpath(directory))
    if kind == "?":
        return None
    journal = os.path.isdir("/proc/fs/jbd2") and any(name.startswith(os.path.basename(device)) for name in os.listdir("/proc/fs/jbd2"))
    return f"{kind} on {device}" + (", without a journal" if kind == "ext4" and not journal else "")
