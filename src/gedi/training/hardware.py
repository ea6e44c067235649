"""Where a run trains. Imports no torch, so that the command line can list the choices quickly."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from gedi.settings import Count, Rule, at_most


@dataclass(frozen=True)
class Hardware:
    """Devices, processes and machines."""

    device: Literal["auto", "cpu", "cuda", "mps"] = "cpu"  # auto: the fastest available
    devices: Count = 1  # processes on this machine, one per device
    nodes: Annotated[Count, at_most(2**16)] = 1  # machines
    # Of the networks; sampling, Sinkhorn and losses stay in float32. auto: bfloat16 where it is faster and as good.
    precision: Literal["auto", "32", "bf16-mixed"] = "auto"
    timeout: Annotated[float, Rule("lie between 0 and 10,000,000 seconds", lambda time: 0 < time < 1e7)] = (
        600.0  # seconds that a process waits for the others before it gives up
    )

    @property
    def processes(self) -> int:
        """The number of processes of the run."""
        return self.devices * self.nodes
