"""Processes that train one policy together: their process group, and how they divide the work.

Every rank is a whole trainer over all rows, so that a loss divides by the number of all rows. The
ranks divide the passes through the model (`_trainer`). Each rank holds the whole weights, and
torch's DistributedDataParallel adds their gradients up, or it holds a part (`shards`).

Why not `accelerate launch`: accelerate divides the rows among the ranks. Then the loss `bnpo`
divides by the tokens of one rank, and a rank whose rows are short or dead waits for the others. So
accelerate and TRL see one process here, and the passes are divided.

Promises: only rank 0 talks to the host and writes files. It starts the other ranks, and they end
with it. If one of them ends, rank 0 ends too and names it (`_spawn`). A collective never times out:
the host decides how long a silence may be.

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
    """This process's rank among the `count` processes that train together, and what they send."""

    def __init__(self, rank: int = 0, count: int = 1) -> None:
        self.rank, self.count = rank, count

    @property
    def first(self) -> bool:
        return self.rank == 0

    def open(self) -> int:
        """Opens on rank 0 the TCP store by which ranks find each other. Returns its port."""
        self._store = dist.TCPStore(
            _LOOPBACK, 0, self.count, is_master=True, timeout=_FOREVER, wait_for_workers=False
        )
        return int(self._store.port)

    def find(self, port: int) -> None:
        """Connects to the TCP store that rank 0 opened at `port`."""
        self._store = dist.TCPStore(_LOOPBACK, port, self.count, timeout=_FOREVER)

    def meet(self) -> None:
        """Waits for all ranks and makes their process group: gloo for the CPU, NCCL for GPUs."""
        os.environ["GLOO_SOCKET_IFNAME"] = os.environ["NCCL_SOCKET_IFNAME"] = "lo"
        backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
        dist.init_process_group(
            backend, store=self._store, rank=self.rank, world_size=self.count, timeout=_FOREVER
        )

    def leave(self) -> None:
        """Leaves the process group, so that a new one can be made."""
        dist.destroy_process_group()

    def broadcast(self, value: Any) -> None:
        """Sends a value from rank 0 to all other ranks, which wait for it."""
        if self.count > 1:
            dist.broadcast_object_list([value], src=0, device=torch.device("cpu"))

    def receive(self) -> Any:
        """Waits for the next value that rank 0 sends and returns it."""
        message = [None]
        dist.broadcast_object_list(message, src=0, device=torch.device("cpu"))
        return message[0]

    def add_up(self, *tensors: Tensor) -> None:
        """Replaces each tensor by its sum over all ranks."""
        for tensor in tensors if self.count > 1 else ():
            dist.all_reduce(tensor)

    def deal(self, items: Sequence[T]) -> Iterator[tuple[int, T, bool]]:
        """Yields this rank's items, each as its index, the item, and True.

        All ranks get the same number of items, as collective operations need. A rank that runs out
        of items gets the last item again, with False: its result must not be added up.
        """
        for start in range(0, len(items), self.count):
            at = start + self.rank
            counts = at < len(items)
            yield (at, items[at], True) if counts else (len(items), items[-1], counts)

    @contextmanager
    def draws(self, seed: int, at: int) -> Iterator[None]:
        """With several ranks, seeds torch in the `with` block by step `seed` and the index `at`."""
        if self.count == 1:
            yield
            return
        with torch.random.fork_rng():
            torch.manual_seed((seed << 20) + at)
            yield

    def replicated(self, model: Any) -> Any:
        """Returns the model wrapped so that a backward pass averages gradients over ranks."""
        return DistributedDataParallel(model, broadcast_buffers=False)

    @staticmethod
    def accumulating(model: Any, *, more: bool) -> AbstractContextManager[None]:
        """Returns a context in which ranks do not exchange gradients if `more` passes follow."""
        if more and isinstance(model, DistributedDataParallel):
            return model.no_sync()  # type: ignore[no-any-return]
        return nullcontext()
