"""Processes that train one policy together: how they meet, what they say, how weights are held.

Every rank is a whole trainer over all rows, so that whatever a loss divides by is of all rows; what
is divided is the passes through the model (`_trainer`). Ranks hold the whole weights each, and
torch's DistributedDataParallel adds their gradients up, or a part each (`shards`). accelerate and
TRL see one process; accelerate's own FSDP2 does not run on a CPU.

Promises: only rank 0 speaks with the host and writes files. It starts the others, and they end with
it, whatever ends it; where one of them ends, it ends too and says which and how (`_spawn`). A
collective never times out: how long silence may be is the host's to decide.

Not covered: several machines.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import timedelta
from typing import Any, Final, TypeVar

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel

T = TypeVar("T")
_LOOPBACK: Final = "127.0.0.1"
_FOREVER: Final = timedelta(days=30)


class Ranks:
    """This process among `count`. One alone needs no group, and nothing here costs it anything."""

    def __init__(self, rank: int = 0, count: int = 1) -> None:
        self.rank, self.count = rank, count

    @property
    def first(self) -> bool:
        return self.rank == 0

    def open(self) -> int:
        """The port at which the others find rank 0."""
        self._store = dist.TCPStore(
            _LOOPBACK, 0, self.count, is_master=True, timeout=_FOREVER, wait_for_workers=False
        )
        return int(self._store.port)

    def find(self, port: int) -> None:
        """Finds rank 0."""
        self._store = dist.TCPStore(_LOOPBACK, port, self.count, timeout=_FOREVER)

    def meet(self) -> None:
        """Waits for the others; messages go by the CPU, tensors by where they are."""
        os.environ["GLOO_SOCKET_IFNAME"] = os.environ["NCCL_SOCKET_IFNAME"] = "lo"
        backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
        dist.init_process_group(
            backend, store=self._store, rank=self.rank, world_size=self.count, timeout=_FOREVER
        )

    def leave(self) -> None:
        """Before a new group is made."""
        dist.destroy_process_group()

    def say(self, value: Any) -> None:
        """Tells the others, who wait in `hear`."""
        if self.count > 1:
            dist.broadcast_object_list([value], src=0, device=torch.device("cpu"))

    def hear(self) -> Any:
        """What rank 0 says next."""
        message = [None]
        dist.broadcast_object_list(message, src=0, device=torch.device("cpu"))
        return message[0]

    def add_up(self, *tensors: Tensor) -> None:
        """Sums over all ranks, in place."""
        for tensor in tensors if self.count > 1 else ():
            dist.all_reduce(tensor)

    def deal(self, items: Sequence[T]) -> Iterator[tuple[int, T, bool]]:
        """This rank's of what all ranks go through in step: place, item, and whether it counts.

        Collectives need as many turns of every rank, so who has nothing left repeats the last.
        """
        for start in range(0, len(items), self.count):
            at = start + self.rank
            counts = at < len(items)
            yield (at, items[at], True) if counts else (len(items), items[-1], counts)

    @contextmanager
    def draws(self, seed: int, at: int) -> Iterator[None]:
        """The same draws (dropout) for a pass, whoever makes it, and none that others miss."""
        if self.count == 1:
            yield
            return
        with torch.random.fork_rng():
            torch.manual_seed((seed << 20) + at)
            yield

    def replicated(self, model: Any) -> Any:
        """The model, whose gradients are averaged over ranks when a pass goes back."""
        return DistributedDataParallel(model, broadcast_buffers=False)

    @staticmethod
    def alone(model: Any, *, still: bool) -> AbstractContextManager[None]:
        """Where more passes follow (`still`), gradients are added up here first."""
        if still and isinstance(model, DistributedDataParallel):
            return model.no_sync()  # type: ignore[no-any-return]
        return nullcontext()
