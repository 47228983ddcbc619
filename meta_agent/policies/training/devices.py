"""The devices that a training may use, and the memory of each, listed without torch.

Promises: nothing starts on a GPU (torch would take half a gigabyte of it). GPUs that
CUDA_VISIBLE_DEVICES hides are not listed. Without an NVIDIA driver the device is this machine.
Not covered: parts of a GPU (MIG) and other makers' cards.
"""

from __future__ import annotations

import ctypes
import os
import re
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple

from meta_agent.core.errors import ConfigError

CARDS: Final = {"a100": 80, "h100": 80, "h200": 141, "b200": 180, "l40s": 48, "l4": 24, "t4": 16}
"""Memory in GiB of common cards, by the name that `evolve --dry-run --for` takes."""
_PLANNED: Final = re.compile(r"(?:(\d{1,2})x)?(?:([a-z]+\d+s?)|(\d{1,4})gib)")
_USABLE: Final = 0.95
"""Share of a card's memory that the driver and the runtime leave."""
_LIBRARY: Final = "libnvidia-ml.so.1"
_MEMINFO: Final = Path("/proc/meminfo")
_LIMIT: Final = Path("/sys/fs/cgroup/memory.max")


class Device(NamedTuple):
    """A GPU, or the CPU if the name is empty, with its free memory in bytes."""

    name: str  # as in CUDA_VISIBLE_DEVICES; empty: the CPU
    free_bytes: int


class _Memory(ctypes.Structure):
    _fields_ = (
        ("total", ctypes.c_ulonglong),
        ("free", ctypes.c_ulonglong),
        ("used", ctypes.c_ulonglong),
    )


def planned(name: str) -> list[Device]:
    """Returns the GPUs that a name such as `4xh100` describes. Raises ConfigError if it is none."""
    match = _PLANNED.fullmatch(name.lower())
    size = (CARDS.get(match[2]) if match[2] else int(match[3])) if match else None
    if match is None or not size or match[1] in ("0", "00"):
        raise ConfigError(
            f"--for {name!r} is not a known GPU",
            hint=f"use {', '.join(CARDS)}, or a memory size such as 48GiB; 4xh100 means four GPUs",
        )
    free = int(size * _USABLE * (1 << 30))
    return [Device(str(at), free) for at in range(int(match[1] or 1))]


def devices() -> list[Device]:
    """Returns the visible NVIDIA GPUs, or the CPU as the only device if there are none."""
    with suppress(OSError):
        if gpus := _gpus(ctypes.CDLL(_LIBRARY)):
            return gpus
    return [Device("", _memory_here())]


def _gpus(nvml: Any) -> list[Device]:
    if nvml.nvmlInit_v2():
        return []
    try:
        count = ctypes.c_uint()
        nvml.nvmlDeviceGetCount_v2(ctypes.byref(count))
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        names = [str(at) for at in range(count.value)] if visible is None else visible.split(",")
        return [gpu for name in names if (gpu := _gpu(nvml, name.strip()))]
    finally:
        nvml.nvmlShutdown()


def _gpu(nvml: Any, name: str) -> Device | None:
    handle, memory = ctypes.c_void_p(), _Memory()
    if name.isdecimal():
        failed = nvml.nvmlDeviceGetHandleByIndex_v2(int(name), ctypes.byref(handle))
    else:
        failed = nvml.nvmlDeviceGetHandleByUUID(name.encode(), ctypes.byref(handle))
    if failed or nvml.nvmlDeviceGetMemoryInfo(handle, ctypes.byref(memory)):
        return None
    return Device(name, int(memory.free))


def _memory_here() -> int:
    """Returns the memory that is free without swapping, within a container's limit."""
    meminfo = dict(line.split(":") for line in _MEMINFO.read_text().splitlines())
    free = int(meminfo["MemAvailable"].split()[0]) << 10
    with suppress(OSError, ValueError):
        used = int(_LIMIT.with_name("memory.current").read_text())
        free = min(free, int(_LIMIT.read_text()) - used)
    return free
