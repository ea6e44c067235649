"""Where a run trains. Imports no torch, so that the command line can list the choices quickly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from gedi.settings import Count, Positive, at_most


@dataclass(frozen=True)
class Hardware:
    """Devices, processes and machines."""

    device: Literal["auto", "cpu", "cuda", "mps"] = "cpu"  # auto: the fastest available
    devices: Count = 1  # processes on this machine, one per device
    nodes: Annotated[Count, at_most(2**16)] = 1  # machines
    # Of the networks; sampling, Sinkhorn and losses stay in float32. auto: bfloat16 where it is faster and as good.
    precision: Literal["auto", "32", "bf16-mixed"] = "auto"
    timeout: Annotated[Positive, at_most(10**7)] = 600  # seconds to wait for a process that does not respond

    @property
    def processes(self) -> int:
        """The number of processes of the run."""
        return self.devices * self.nodes
