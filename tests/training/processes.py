"""What each process of `test_world.py` does, with its rank in the environment."""

import os
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save_file

from gedi.data import load
from gedi.objectives.term import kinds
from gedi.training import recipe
from gedi.training.build import prepare
from gedi.training.choice import choose_clusters, relabel
from gedi.training.config import override
from gedi.training.engine import Batch, Engine
from gedi.training.fit import fit_prepared
from gedi.training.presets import preset
from gedi.training.world import Hardware, World, _disconnect

ROWS = np.random.default_rng(0).normal(size=(64, 2)).astype(np.float32)


def shifted(x, rows, generator):
    """Two views that are the same in every process."""
    return x, x + 0.1 * torch.sin(7 * x.flip(1))


def terms(world: World) -> dict[str, torch.Tensor]:
    """Every kind of term on one global batch, with gradients; except those whose noise differs between processes.

    Those of clusters, before the choice and after it.
    """
    values: dict[str, torch.Tensor] = {}
    for family, members in kinds().items():
        for kind in members:
            for competing in (True, False) if family in ("clustering", "symbolic") else (True,):
                if kind not in ("vae", "denoising"):
                    name = f"{family}.{kind}" + ("" if competing else " after")
                    found = one_term(world, family, kind, competing=competing)
                    values |= {f"{name}/{key}": value for key, value in found.items()}
    return values


def one_term(world: World, family: str, kind: str, *, competing: bool) -> dict[str, torch.Tensor]:
    settings = {"flow": {"hidden": [8]}, "constraint": {"rule": "a, b : 3\na != b"}}
    changes = {"sampler.data_noise": 0.0, "sampler.burn_in": 5.0, "net.embedding": 6, "scaling": "none"}
    changes |= {f"objective.{family}": {"kind": kind} | settings.get(kind, {})}
    if kind == "kmeans":
        changes |= {"heads": {"random": 1, "starts": [], "neutral": 0}, "net.head": "projector"}
    config = override(preset("smoke", n_features=2), changes)
    run = Engine(replace(prepare(ROWS, config, 3), augment=shifted), seed=0, world=world)
    run.state.labels = torch.arange(len(ROWS)) % 3
    if family == "clustering" and kind != "kmeans" and not competing:
        run.state.marginals, run.state.iteration = torch.tensor([0.5, 0.3, 0.2]), config.step2.iterations // 2
    run.state.competing, run.state.length = competing, config.step2.iterations
    net = run.state.net
    net.train()
    net.refresh_density(run.x)
    rows = world.part(torch.arange(len(ROWS)).flip(0))
    batch = Batch(run.x[rows], rows)
    views = run.views(batch, *shifted(batch.x, rows, None), batch.x - 0.05, 1.3 * batch.x)
    term = config.objective[family]
    if term.relabels(0):
        relabel(run)
        views.all_labels = run.state.labels
    found = term.losses(views)
    values = {f"judged/{name}": loss.judges for name, loss in found.items() if loss.judges is not None}
    values |= {f"loss/{name}": loss.value.detach() for name, loss in found.items()}
    for name, loss in found.items():
        net.zero_grad()
        loss.value.backward(retain_graph=True)
        world.average_gradients(net.parameters())
        gradients = {k: p.grad for k, p in net.named_parameters() if p.grad is not None}
        values |= {f"gradient/{name}/{k}": g.clone() for k, g in gradients.items()}
    return values | {f"buffer/{k}": b.clone() for k, b in net.named_buffers() if "running" in k}


def chosen(world: World) -> dict[str, torch.Tensor]:
    """What the processes hold after the choice: among heads alone, and among starts alone."""
    found: dict[str, torch.Tensor] = {}
    for heads, starts in ((4, []), (0, ["walks", "neighbours", "kmeans", "mixture"])):
        changes = {"heads.random": heads, "heads.starts": starts, "scaling": "none"}
        config = override(preset("smoke", n_features=2), changes)
        run = Engine(prepare(ROWS, config, 3), seed=0, world=world)
        run.state.objective = torch.tensor([0.9, 0.5, 0.2, 0.7][: max(1, heads)])
        choose_clusters(run)
        state = run.state
        assert not state.competing and (state.labels is not None or not starts)
        of = {"chosen": state.net.clusters.chosen, "average": state.average.clusters.chosen}
        of |= {"candidates": torch.tensor(list(run.state.candidates.values()))}
        of |= {name: value for name in ("labels", "marginals") if (value := getattr(state, name)) is not None}
        found |= {f"{len(starts)} starts/{name}": value for name, value in of.items()}
    return found


def fit(world: World) -> dict[str, torch.Tensor]:
    """The labels of a whole fit."""
    rng = np.random.default_rng(1)
    rows = np.vstack([rng.normal(centre, 0.3, (60, 2)) for centre in (-2, 2)])
    config = override(preset("smoke", n_features=2), {"step1.batch_size": 60, "step2.batch_size": 60})
    model = fit_prepared(prepare(rows, config, 2), seed=0, world=world)
    weights = {f"net.{name}": value for name, value in model.net.state_dict().items()}
    return {"labels": torch.from_numpy(model.predict(rows)), "chains": model.chains} | weights


def moons(world: World) -> dict[str, torch.Tensor]:
    """Labels of fresh points, after a fit of the moons with default settings."""
    model = fit_prepared(prepare(load("moons").x, preset(None, n_features=2), 2), seed=0, world=world)
    test = load("moons", split="test")
    return {"labels": torch.from_numpy(model.predict(test.x)), "truth": torch.from_numpy(test.y)}


def rollback(world: World) -> dict[str, torch.Tensor]:
    """A run in which one batch is bad on the second process only, and the first is never calm by itself."""
    config = override(preset("smoke", n_features=2), {"guard.every": 2, "step1.iterations": 9, "step2.iterations": 4})
    original, calls = recipe.density_losses, [0]

    def losses(run, batch):
        calls[0] += 1
        found = original(run, batch)
        if world.rank == 1 and calls[0] == 6:
            run.values["at_box"] = float("nan")
        return found

    recipe.density_losses = losses
    model = fit_prepared(prepare(ROWS, config, 2), seed=0, world=world)
    events = [event for event in model.results["guard"] if "rolled back" in event["action"]]
    assert [event["seen"] for event in events] == ["at_box is nan"], model.results["guard"]
    assert "to iteration 4" in events[0]["action"]
    return {f"net.{name}": value for name, value in model.net.state_dict().items()}


JOBS = {"rollback": rollback, "terms": terms, "fit": fit, "chosen": chosen, "moons": moons}


def main(job: str, out: str) -> None:
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    processes = int(os.environ.get("WORLD_SIZE", "1"))
    world = World(Hardware(device="cpu", devices=processes, timeout=60))
    world.launch()
    found = JOBS[job](world)
    save_file(
        {name: value.contiguous().clone() for name, value in found.items()}, Path(out) / f"{world.rank}.safetensors"
    )
    _disconnect()
