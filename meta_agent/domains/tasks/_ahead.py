"""Measurements under way side by side, taken in the order in which they were asked for."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Value = TypeVar("Value")


def ahead(
    pool: ThreadPoolExecutor,
    width: int,
    wanted: Iterator[Item],
    measure: Callable[[Item], Value],
) -> Iterator[tuple[Item, Future[Value]]]:
    """Items with their measurements, `width` of them at a time.

    `wanted` is read as late as possible, so it may leave out what earlier results have made
    superfluous; a caller that decides in this order decides the same for every width.
    """
    waiting: deque[tuple[Item, Future[Value]]] = deque()
    try:
        while True:
            for item in wanted:
                waiting.append((item, pool.submit(measure, item)))
                if len(waiting) >= width:
                    break
            if not waiting:
                return
            yield waiting.popleft()
    finally:
        for _, result in waiting:
            result.cancel()
