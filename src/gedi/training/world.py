"""The processes that train together: one, or several on one or many machines. Only this module uses Fabric.

The global batch is split into equal parts, one per process. Each process samples, walks, augments and encodes its own
part; then the representations are gathered, and everything that couples a batch (batch norm, Sinkhorn, covariances, the
energy gap) is computed by every process on the whole of it. No statistic is ever local, and a loss means the same on
one process as on a hundred.
"""

from __future__ import annotations

import atexit
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar, cast

import torch

from gedi.errors import ConfigError, RunError
from gedi.training.hardware import Hardware

if TYPE_CHECKING:
    from lightning_fabric import Fabric

T = TypeVar("T")


class ProcessLostError(RunError):
    """Another process of the run has died, or does not respond."""


class World:
    """The processes of a run, as seen from this one."""

    def __init__(self, hardware: Hardware | None = None, *, alone: bool = False) -> None:
        """``alone``: this process without the others that a launcher may have started."""
        self.hardware = hardware = hardware or Hardware()
        self.fabric: Fabric | None = None
        asked, started = hardware.processes, started_processes()
        if not alone and (started not in (1, asked) or (asked == 1 and not is_first_process())):
            raise ConfigError(
                f"{started} processes were started, but --devices {hardware.devices} and --nodes {hardware.nodes} mean "
                f"{asked}: set --devices to the processes on each machine, and --nodes to the number of machines."
            )
        if asked == 1 and (hardware.device == "cpu" or (hardware.device == "auto" and not has_accelerator())):
            return  # there is nothing to choose or to connect
        from lightning_fabric import Fabric  # takes two seconds to import, with torch's compiler
        from lightning_fabric.strategies.ddp import DDPStrategy

        strategy = DDPStrategy(timeout=timedelta(seconds=hardware.timeout)) if asked > 1 else "auto"
        try:
            self.fabric = Fabric(
                accelerator=hardware.device,
                devices=hardware.devices,
                num_nodes=hardware.nodes,
                strategy=strategy,
            )
        except Exception as error:
            # Fabric raises its own errors, torch's and plain RuntimeErrors. All mean that this hardware cannot be used.
            raise ConfigError(f"{hardware.devices} x {hardware.device} cannot be used here: {error}") from error

    def launch(self) -> None:
        """Start the other processes of this machine, unless torchrun or SLURM already has; then connect all."""
        if self.fabric is not None:
            with self.together():
                self.fabric.launch()
            atexit.register(_disconnect)

    @property
    def rank(self) -> int:
        return 0 if self.fabric is None else self.fabric.global_rank

    @property
    def size(self) -> int:
        return 1 if self.fabric is None else self.fabric.world_size

    @property
    def is_main(self) -> bool:
        """Whether this process writes files and prints."""
        return self.rank == 0

    @property
    def device(self) -> torch.device:
        return torch.device("cpu") if self.fabric is None else self.fabric.device

    def backward(self, loss: torch.Tensor) -> None:
        """Backpropagate; gathered representations exchange their gradients."""
        with self.together():
            loss.backward()

    def part(self, rows: torch.Tensor) -> torch.Tensor:
        """This process's part of the global batch."""
        if len(rows) < self.size:
            raise ConfigError(f"A batch of {len(rows)} cannot be shared by {self.size} processes: use fewer devices.")
        each = len(rows) // self.size
        return rows[self.rank * each : (self.rank + 1) * each]

    def gather(self, part: torch.Tensor) -> torch.Tensor:
        """The parts of all processes, one after the other; gradients flow back to where each part came from.

        Every process computes the same loss of the whole, so the gradient that comes back to a part is the sum over
        processes, `size` times too large; `average_gradients` divides by `size` again.
        """
        if self.size == 1:
            return part
        with self.together():
            return cast("torch.Tensor", _Gather.apply(part.contiguous(), self.rank, self.size))

    def gathered(self, tensors: dict[str, torch.Tensor], names: tuple[str, ...]) -> dict[str, torch.Tensor]:
        """The same tensors, with those named concatenated over all processes."""
        if self.size == 1:
            return tensors
        own = [name for name in tensors if name.rpartition("/")[2] in names]
        return tensors | {name: self.gather(tensors[name].to(self.device)).cpu() for name in own}

    def own_parts(self, tensors: dict[str, torch.Tensor], names: tuple[str, ...]) -> dict[str, torch.Tensor]:
        """The inverse of `gathered`: this process's parts again."""
        if self.size == 1:
            return tensors
        own = [name for name in tensors if name.rpartition("/")[2] in names]
        return tensors | {name: tensors[name].chunk(self.size)[self.rank].clone() for name in own}

    def average_gradients(self, parameters: Iterable[torch.nn.Parameter]) -> None:
        """Replace every gradient by its mean over the processes, in one exchange."""
        if self.fabric is None or self.size == 1:
            return
        # Every process runs the same lines, so the same parameters have gradients everywhere.
        gradients = [p.grad for p in parameters if p.grad is not None]
        with self.together():
            flat = self.fabric.all_reduce(torch.cat([g.flatten() for g in gradients]), reduce_op="mean")
        assert isinstance(flat, torch.Tensor)
        for gradient, mean in zip(gradients, flat.split([g.numel() for g in gradients]), strict=True):
            gradient.copy_(mean.view_as(gradient))

    def mean(self, value: float) -> float:
        """The mean of the processes' values."""
        return float(self.gather(torch.tensor([value], device=self.device)).mean()) if self.size > 1 else value

    def any(self, flags: list[bool]) -> list[bool]:
        """For each flag, whether any process raised it: they must all stop, save or go back together."""
        if self.fabric is None or self.size == 1:
            return flags
        with self.together():
            seen = self.fabric.all_reduce(torch.tensor(flags, dtype=torch.float32, device=self.device), reduce_op="sum")
        assert isinstance(seen, torch.Tensor)
        return [bool(count) for count in seen > 0]

    def from_main(self, make: Callable[[], T]) -> T:
        """What ``make`` returns on the main process, on all of them."""
        if self.fabric is None or self.size == 1:
            return make()
        made = make() if self.is_main else None
        with self.together():
            return self.fabric.broadcast(made)  # type: ignore[return-value]

    def first(self, value: T | None) -> T | None:
        """The value of the first process that has one."""
        if self.size == 1:
            return value
        values: list[T | None] = [None] * self.size
        with self.together():
            torch.distributed.all_gather_object(values, value)
        return next((one for one in values if one is not None), None)

    @contextmanager
    def together(self) -> Iterator[None]:
        """Wraps every exchange: an error of torch.distributed means that another process is gone."""
        try:
            yield
        except RuntimeError as error:
            if self.size == 1:
                raise
            # torch.distributed has no error of its own for this: gloo and NCCL both raise RuntimeError.
            raise ProcessLostError(
                f"Process {self.rank} of {self.size} lost the others (one was killed, failed, or did not answer within "
                f"{self.hardware.timeout:.0f} s): {str(error).splitlines()[0][:200]}"
            ) from error


def _disconnect() -> None:
    """End the connection's threads before the interpreter ends, or gloo may abort the process (Fabric ends NCCL's)."""
    if torch.distributed.is_available() and torch.distributed.is_initialized():
        torch.distributed.destroy_process_group()


class _Gather(torch.autograd.Function):
    """All parts, one after the other; the backward pass sums this part's gradient over the processes."""

    @staticmethod
    def forward(ctx: Any, part: torch.Tensor, rank: int, size: int) -> torch.Tensor:
        ctx.rank, ctx.rows = rank, len(part)
        parts = [torch.empty_like(part) for _ in range(size)]
        torch.distributed.all_gather(parts, part)
        return torch.cat(parts)

    @staticmethod
    def backward(ctx: Any, *gradients: torch.Tensor) -> Any:
        total = gradients[0].contiguous()
        torch.distributed.all_reduce(total)
        return total[ctx.rank * ctx.rows : (ctx.rank + 1) * ctx.rows], None, None


def has_accelerator() -> bool:
    """Whether this machine has a device of `Hardware` besides its processor."""
    return torch.cuda.is_available() or torch.backends.mps.is_available()


def started_processes() -> int:
    """How many processes a launcher (torchrun, srun, or Fabric itself) has started for this run; 1 if none did."""
    if "WORLD_SIZE" in os.environ:
        return int(os.environ["WORLD_SIZE"])
    return int(os.environ.get("SLURM_NTASKS", "1")) if "SLURM_PROCID" in os.environ else 1


def is_first_process() -> bool:
    """Whether this process is the first of its run, read from the launcher's environment before any `World` exists."""
    names = ("RANK", "SLURM_PROCID", "NODE_RANK", "LOCAL_RANK")
    return all(os.environ.get(name, "0") == "0" for name in names)
