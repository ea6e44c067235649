"""Speed of constraints compared with other libraries, on one thread; --out writes numbers and a picture.

klay and DeepProbLog are measured if they are installed (`pip install klaycircuits`; `pip install --no-deps
deepproblog`, whose torchvision is not needed here).
"""

from __future__ import annotations

import itertools
import os
import tempfile
import time
import warnings
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch
from machine import arguments, show, write

from gedi.experiments import plots
from gedi.logic import Categorical, Constraint, Expression, all_different, conjunction
from gedi.runs import provenance

PROGRAM = """
nn(net,[X],Y,[0,1,2,3,4,5,6,7,8,9]) :: digit(X,Y).
addition(X,Y,Z) :- digit(X,X2), digit(Y,Y2), digit(Z,Z2), Z2 is X2+Y2.
"""


def milliseconds(function: Callable[[], object], seconds: float = 1.0) -> float:
    """Median time of one call, after warming up."""
    function()
    times: list[float] = []
    while sum(times) < seconds or len(times) < 5:
        began = time.perf_counter()
        function()
        times.append(time.perf_counter() - began)
    return 1000 * sorted(times)[len(times) // 2]


def scores(constraint: Constraint, batch: int) -> dict[str, torch.Tensor]:
    return {
        v.name: torch.randn(batch, v.size).log_softmax(1).requires_grad_()
        for v in constraint.variables
        if v.name in constraint.inputs
    }


def forward_backward(constraint: Constraint, batch: int, check: bool = True) -> float:
    log_probs = scores(constraint, batch)
    return milliseconds(lambda: constraint.log_prob(log_probs, check=check).sum().backward())


def klay_forward_backward(constraint: Constraint, batch: int) -> float:
    """The same circuit in klay's layers, on inputs that are already stacked and are not checked."""
    import klay

    circuit = klay.Circuit()
    nodes: list[Any] = [circuit.literal_node(i + 1) for i in range(constraint.circuit.literals)]
    zero = len(nodes) + 1
    nodes += [circuit.true_node(), circuit.false_node()]
    for layer in constraint.circuit.layers:
        for n in range(layer.shape[1]):
            products = [column for column in layer[:, n].T.tolist() if zero not in column]
            nodes.append(circuit.or_node([circuit.and_node([nodes[f] for f in product]) for product in products]))
    circuit.set_root(nodes[-1])
    circuit.remove_unused_nodes()
    module = circuit.to_torch_module(semiring="log", compile=False)

    def evaluate(weights: torch.Tensor) -> torch.Tensor:
        return module(weights, torch.zeros_like(weights))

    log_probs = scores(constraint, batch)
    stacked = torch.cat([log_probs[v.name] for v in constraint.variables], dim=1).detach().requires_grad_()
    ours = constraint.log_prob(log_probs)
    torch.testing.assert_close(evaluate(stacked)[:, 0], ours, atol=1e-4, rtol=1e-4)
    return milliseconds(lambda: evaluate(stacked).sum().backward())


def deepproblog_forward_backward(batch: int) -> tuple[float, float]:
    """Time of DeepProbLog's own evaluation of the addition of three images, with its cache of compiled circuits, and
    how far its probabilities are from ours."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from deepproblog.engines import ExactEngine
        from deepproblog.model import Model
        from deepproblog.network import Network
        from deepproblog.query import Query
    from problog.logic import Constant, Term

    inputs = torch.randn(3 * batch, 10, requires_grad=True)
    model = Model(PROGRAM, [Network(torch.nn.Softmax(dim=-1), "net", batching=True)], load=False)
    model.set_engine(ExactEngine(model), cache=True)
    model.add_tensor_source("rows", {(Constant(i),): inputs[i] for i in range(3 * batch)})
    places = [Term(f"p{i}") for i in range(3)]
    queries = [
        Query(
            Term("addition", *places),
            {place: Term("tensor", Term("rows", Constant(3 * k + i))) for i, place in enumerate(places)},
        )
        for k in range(batch)
    ]

    def probabilities() -> torch.Tensor:
        return torch.stack([next(iter(answer.result.values())) for answer in model.solve(queries)])

    a, b, c = (Categorical(n, 10) for n in "abc")
    rows = inputs.log_softmax(1).view(batch, 3, 10)
    ours = Constraint(a + b == c).log_prob({n: rows[:, i] for i, n in enumerate("abc")})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        apart = float((probabilities() - ours.exp()).abs().max())
        return milliseconds(lambda: (-probabilities().log()).sum().backward()), apart


def digits_added(n: int) -> Constraint:
    """Two numbers of n digits and their sum: 3n + 1 variables; a known sum is given as one-hot log-probabilities."""
    numbers = [
        [Categorical(f"{name}{i}", 10) for i in range(size)] for name, size in (("a", n), ("b", n), ("s", n + 1))
    ]
    a, b, s = (_positional(digits) for digits in numbers)
    return Constraint(a + b == s, method="sdd")


def _positional(digits: list[Categorical]) -> Expression:
    return sum((10**i * digit for i, digit in enumerate(digits[1:], start=1)), start=1 * digits[0])


def growth(digits: list[int], batch: int) -> list[dict[str, float]]:
    lines = []
    for n in digits:
        began = time.perf_counter()
        constraint = digits_added(n)
        seconds = time.perf_counter() - began
        began = time.perf_counter()
        digits_added(n)
        line = {"digits": n, "compile_s": seconds, "from_cache_s": time.perf_counter() - began}
        log_probs = scores(constraint, batch)
        for i in range(n + 1):  # the sum is given
            given = torch.randint(0, 10 if i < n else 2, (batch,))
            log_probs[f"s{i}"] = torch.nn.functional.one_hot(given, 10).float().log()
        line["nodes"] = constraint.circuit.nodes
        line["forward_ms"] = milliseconds(lambda c=constraint, p=log_probs: c.log_prob(p))
        line["forward_backward_ms"] = milliseconds(
            lambda c=constraint, p=log_probs: c.log_prob(p).exp().sum().backward()
        )
        lines.append(line)
    return lines


def crossing(batch: int) -> list[dict[str, float]]:
    """Enumeration against the compiled circuit, on constraints with more and more models."""
    lines = []
    v = [Categorical(f"v{i}", 9) for i in range(6)]
    rules = {
        "different": lambda n: all_different(*v[:n]),
        "sum": lambda n: sum(v[1:n], start=1 * v[0]) == 4 * n,
        "ordered": lambda n: conjunction(left <= right for left, right in itertools.pairwise(v[:n])),
    }
    for name, rule in rules.items():
        for n in (2, 3, 4, 5):
            listed, compiled = (Constraint(rule(n), method=method) for method in ("enumeration", "sdd"))
            times = {"enumeration_ms": forward_backward(listed, batch), "sdd_ms": forward_backward(compiled, batch)}
            lines.append({"rule": f"{name} {n}", "literals": int(listed.circuit.layers[0].size)} | times)
    return lines


def draw(lines: list[dict[str, float]], path: Path) -> None:
    figure, ((left, right),) = plots.figure(1, 2, width=4.5, height=3.4)
    digits = [line["digits"] for line in lines]
    left.plot(digits, [line["compile_s"] for line in lines], "o-", label="compile")
    left.plot(digits, [line["from_cache_s"] for line in lines], "s--", label="from the cache")
    left.set(xlabel="digits per number", ylabel="seconds", yscale="log")
    right.plot(digits, [line["forward_backward_ms"] for line in lines], "o-", label="forward and backward")
    right.plot(digits, [line["forward_ms"] for line in lines], "s--", label="forward")
    right.set(xlabel="digits per number", ylabel="ms, batch 64", ylim=(0, None))
    for axis in (left, right):
        axis.legend(frameon=False)
        plots.quiet(axis)
    plots.save(figure, path)


def measure() -> dict[str, Any]:
    torch.manual_seed(0)
    a, b, c = (Categorical(n, 10) for n in "abc")
    grown = growth([1, 2, 3, 4, 6, 8, 12, 16, 24, 32], 64)  # first, while the cache is empty
    numbers: dict[str, Any] = {"addition, batch 20, forward and backward": {}}
    addition = numbers["addition, batch 20, forward and backward"]
    addition["gedi, enumeration"] = forward_backward(Constraint(a + b == c), 20)
    addition["gedi, circuit"] = forward_backward(Constraint(a + b == c, method="sdd"), 20)
    addition["gedi, enumeration, inputs unchecked"] = forward_backward(Constraint(a + b == c), 20, check=False)
    four = numbers["4 digits, batch 64, forward and backward"] = {
        "gedi, circuit": forward_backward(digits_added(4), 64)
    }
    if find_spec("klay"):
        addition["klay"] = klay_forward_backward(Constraint(a + b == c, method="sdd"), 20)
        four["klay"] = klay_forward_backward(digits_added(4), 64)
    if find_spec("deepproblog"):
        addition["DeepProbLog"], numbers["DeepProbLog's probabilities differ by"] = deepproblog_forward_backward(20)
        numbers["times faster than DeepProbLog"] = addition["DeepProbLog"] / addition["gedi, enumeration"]
    numbers["growth with digits, batch 64, the sum given"] = grown
    numbers["enumeration or circuit, batch 64"] = crossing(64)
    return numbers


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--out", type=Path, help="folder for logic.json and logic-growth.png")
    args = parser.parse_args()
    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as folder:  # an empty cache, so that compilation is measured
        os.environ["GEDI_CACHE"] = folder
        numbers = measure()
    for title, found in numbers.items():
        if isinstance(found, float):
            print(f"{title}: {found:.3g}")
        else:
            lines = found if isinstance(found, list) else [{"what": name, "ms": value} for name, value in found.items()]
            show(title, lines)
    if args.out:
        write(numbers | {"provenance": provenance()}, args.out / "logic.json")
        draw(numbers["growth with digits, batch 64, the sum given"], args.out / "logic-growth.png")


if __name__ == "__main__":
    main()
