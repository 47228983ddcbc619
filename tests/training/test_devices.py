"""Devices as an NVIDIA driver tells them, and none."""

from __future__ import annotations

import ctypes
from types import SimpleNamespace
from typing import Any

import pytest

from meta_agent.policies.training import devices


def driver(free: list[int]) -> Any:
    """Answers as NVML does: by reference, 0 for success."""

    def count(found: Any) -> int:
        found._obj.value = len(free)
        return 0

    def by_index(index: int, handle: Any) -> int:
        handle._obj.value = index + 1
        return int(index >= len(free))

    def by_uuid(uuid: bytes, handle: Any) -> int:
        handle._obj.value = 1
        return int(uuid != b"GPU-a")

    def memory(handle: Any, told: Any) -> int:
        told._obj.free = free[handle.value - 1]
        return 0

    return SimpleNamespace(
        nvmlInit_v2=lambda: 0,
        nvmlShutdown=lambda: 0,
        nvmlDeviceGetCount_v2=count,
        nvmlDeviceGetHandleByIndex_v2=by_index,
        nvmlDeviceGetHandleByUUID=by_uuid,
        nvmlDeviceGetMemoryInfo=memory,
    )


@pytest.mark.parametrize(
    ("visible", "names"), [(None, ["0", "1"]), ("1", ["1"]), ("GPU-a", ["GPU-a"]), ("0,9", ["0"])]
)
def test_what_is_hidden_is_not_told(
    monkeypatch: pytest.MonkeyPatch, visible: str | None, names: list[str]
) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda _: driver([80 << 30, 40 << 30]))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    found = devices.devices()
    assert [one.name for one in found] == names
    assert all(one.free_bytes == (40 << 30 if one.name == "1" else 80 << 30) for one in found)


def test_without_a_driver_it_is_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(_: str) -> Any:
        raise OSError("libnvidia-ml.so.1: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", missing)
    (machine,) = devices.devices()
    assert machine.name == "" and machine.free_bytes > 1 << 20
