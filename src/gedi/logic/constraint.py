"""A constraint over categorical variables: compiled once, then exact and batched on any device."""

# pyright: reportUnnecessaryIsInstance=false
from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import torch

from gedi.errors import LogicError
from gedi.logic import cache, checks, enumeration, evaluation, sdd, summing
from gedi.logic.circuit import Circuit, from_models
from gedi.logic.expressions import Categorical, Formula, holds
from gedi.logic.structure import description, variables_in

METHODS = ("auto", "enumeration", "sdd")
# Up to here listing the models is faster than the compiled circuit; see benchmarks/logic.py.
FEW_LITERALS = 10_000
FEW_VALUES = 10  # of a variable, shown in a notebook


class Constraint:
    """What must hold between the variables, as an event whose probability can be trained on.

    ``rule`` is a formula, or a Python function of the values of ``variables``. ``variables`` fixes their order and
    must be those of the formula. ``method`` is how it is compiled: "enumeration" lists the models, "sdd" compiles with
    PySDD (kept on disk), "auto" takes what is faster; the answers are the same.

    Variables are independent given the network's outputs: P(rule) sums, over the models, the product of their values'
    probabilities. ``log_probs`` maps each name to normalised log-probabilities [batch, size].

    >>> a, b, c = (Categorical(n, 10) for n in "abc")
    >>> uniform = torch.full((1, 10), 0.1).log()
    >>> sums = Constraint(a + b == c)
    >>> sums.log_prob({"a": uniform, "b": uniform, "c": uniform}).exp()  # 55 of 1000
    tensor([0.0550])
    """

    def __init__(
        self,
        rule: Formula | Callable[..., Any],
        *,
        variables: Sequence[Categorical] | None = None,
        method: str = "auto",
    ) -> None:
        if method not in METHODS:
            raise LogicError(f"method={method!r} is unknown: use one of {', '.join(METHODS)}.")
        if not isinstance(rule, Formula):
            rule = _from_function(rule, variables)
        self.formula = rule
        self.variables = _ordered(variables_in(rule), variables)
        self.circuit, self.method = _compile(rule, self.variables, method)
        self._fixed: dict[str, torch.Tensor] = {}
        self._layers: dict[torch.device, evaluation.Layers] = {}
        self._listed: summing.Listed | None = None

    @classmethod
    def from_dimacs(cls, cnf: str | Path, *, method: str = "auto") -> Constraint:
        """A CNF in DIMACS form: its text, or a Path. Variable n is named "n", with values 0 (false) and 1 (true).

        The variables are 1 to as many as are declared, in this order; one that no clause mentions may have any value.
        """
        from gedi.logic.dimacs import read_dimacs

        formula, variables = read_dimacs(cnf)
        return cls(formula, variables=variables, method=method)

    @classmethod
    def from_problog(cls, program: str | Path, query: str | None = None, *, method: str = "auto") -> Constraint:
        """That ``query`` (default: the program's own ``query(...)``) follows from a ProbLog program: text, or a Path.

        ``nn(net, [X], Y, [v1, v2, ...]) :: p(X, Y).`` is a neural predicate: each input x of the net that the query
        needs is a variable named "net(x)" with the values listed. Variables are in the order in which the program's
        text (and then ``query``) first names their inputs; inputs that it only makes up come last, by name. Facts with
        a probability in the program are summed out with it.
        """
        from gedi.logic.programs import read_problog

        formula, variables, fixed = read_problog(program, query)
        constraint = cls(formula, variables=variables, method=method)
        if all(v.name in fixed for v in constraint.variables):
            raise LogicError("The query needs no neural predicate, so there is nothing to train: check the program.")
        constraint._fixed = {
            v.name: torch.tensor(fixed[v.name], dtype=torch.float64).log()
            for v in constraint.variables
            if v.name in fixed
        }
        return constraint

    @classmethod
    def from_file(cls, path: str | Path, *, method: str = "auto") -> Constraint:
        """A file of declarations and formulas (docs/logic.md), DIMACS (.cnf, .dimacs), or ProbLog (.pl, .problog)."""
        from gedi.logic.files import read_constraint

        path = Path(path)
        if path.suffix in (".cnf", ".dimacs"):
            return cls.from_dimacs(path, method=method)
        if path.suffix in (".pl", ".problog"):
            return cls.from_problog(path, method=method)
        formula, variables = read_constraint(path)
        return cls(formula, variables=variables, method=method)

    def __repr__(self) -> str:
        return f"Constraint({', '.join(self.inputs)}; {self.method}, {self.circuit.nodes} nodes)"

    def _repr_html_(self) -> str:
        """How a notebook shows it: the rule, its variables and what it was compiled to."""
        lines = "".join(
            f"<tr><td>{escape(v.name)}</td><td>{v.size}</td><td>{escape(_few_values(v))}</td></tr>"
            for v in self.variables
        )
        head = "<tr><th>variable</th><th>size</th><th>values</th></tr>"
        rule, size = escape(repr(self.formula)), f"{escape(self.method)}, {self.circuit.nodes:,} nodes"
        return f"<div><b>Constraint</b> <code>{rule}</code> ({size})<table>{head}{lines}</table></div>"

    @property
    def inputs(self) -> list[str]:
        """The names ``log_probs`` must have."""
        return [v.name for v in self.variables if v.name not in self._fixed]

    def log_prob(self, log_probs: Mapping[str, torch.Tensor], *, check: bool = True) -> torch.Tensor:
        """log P(rule) for each row, [batch]; -inf with zero gradient where no model is possible.

        ``check=False`` skips the look at the values (not the shapes), which on a GPU waits for the device.
        """
        literals = self._literals(log_probs, check)
        return evaluation.log_prob(self._on(literals.device), literals)

    def marginals(self, log_probs: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """P(variable = value | rule), [batch, size] for each variable; differentiable."""
        literals = self._literals(log_probs)
        return self._by_variable(self._conditional(literals)[1].T)

    def entropy(self, log_probs: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """Entropy in nats of all the inputs together, given the rule, [batch]; differentiable."""
        literals = self._literals(log_probs)
        if self._fixed:
            return summing.entropy(self._log_joint(log_probs, literals.dtype))
        log_prob, marginals = self._conditional(literals)
        # log p(x | rule) = sum of log p(x_v) - log P(rule); a value of probability 0 adds nothing.
        possible = marginals > 0
        return log_prob - (marginals * torch.where(possible, literals, 0.0)).sum(0)

    @torch.no_grad()
    def most_likely(self, log_probs: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """The most probable values that satisfy the rule, as indices [batch] for each variable."""
        literals = self._literals(log_probs)
        if self._fixed:
            best = self._log_joint(log_probs, literals.dtype).argmax(dim=1)
            rows = self._rows().rows.to(best.device)[best]
            return dict(zip(self.inputs, rows.unbind(1), strict=True))
        layers = self._on(literals.device)
        values = evaluation.upward(layers, literals, evaluation.largest)
        return self._chosen(layers, values, evaluation.best_share)

    @torch.no_grad()
    def sample(self, log_probs: Mapping[str, torch.Tensor], *, generator: torch.Generator) -> dict[str, torch.Tensor]:
        """One draw a row from the distribution given the rule, as indices [batch] for each variable."""
        literals = self._literals(log_probs)
        layers = self._on(literals.device)
        values = evaluation.upward(layers, literals)
        return self._chosen(layers, values, evaluation.random_share(generator))

    def _literals(self, log_probs: Mapping[str, torch.Tensor], check: bool = True) -> torch.Tensor:
        """All log-probabilities under each other, [literals, batch], in float32 or wider."""
        asked = [v for v in self.variables if v.name not in self._fixed]
        checks.check_shapes(log_probs, asked)
        first = log_probs[asked[0].name]
        parts = dict(log_probs) | {
            name: fixed.to(first.device).expand(len(first), -1) for name, fixed in self._fixed.items()
        }
        given = [log_probs[v.name].dtype for v in asked]
        dtype = torch.float64 if torch.float64 in given else torch.float32
        literals = torch.cat([parts[v.name].to(dtype) for v in self.variables], dim=1).T.contiguous()
        if check:
            checks.check_normalised(literals, parts, self.variables)
        return literals

    def _rows(self) -> summing.Listed:
        """What the program's own facts make of each row of inputs; listed once."""
        if self._listed is None:
            self._listed = summing.listed(self._on(torch.device("cpu")), self.variables, self._fixed)
        return self._listed

    def _log_joint(self, log_probs: Mapping[str, torch.Tensor], dtype: torch.dtype) -> torch.Tensor:
        log_joint = self._rows().log_joint(log_probs, dtype)
        checks.check_possible(log_joint.detach().amax(dim=1))
        return log_joint

    def _conditional(self, literals: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """log P(rule) and its gradient, which is the marginals given the rule (the circuit is smooth)."""
        layers = self._on(literals.device)
        if torch.is_grad_enabled() and literals.requires_grad:
            log_prob = evaluation.log_prob(layers, literals)
            checks.check_possible(log_prob.detach())
            return log_prob, torch.autograd.grad(log_prob.sum(), literals, create_graph=True)[0]
        values = evaluation.upward(layers, literals)
        checks.check_possible(values[-1])
        return values[-1], evaluation.downward(layers, values, torch.ones_like(values[-1]))

    def _chosen(
        self, layers: evaluation.Layers, values: torch.Tensor, share: evaluation.Share
    ) -> dict[str, torch.Tensor]:
        checks.check_possible(values[-1])
        weights = evaluation.downward(layers, values, torch.ones_like(values[-1]), share)
        return {name: chosen.argmax(dim=1) for name, chosen in self._by_variable(weights.T).items()}

    def _by_variable(self, columns: torch.Tensor) -> dict[str, torch.Tensor]:
        pieces = torch.split(columns, [v.size for v in self.variables], dim=1)
        return {v.name: piece for v, piece in zip(self.variables, pieces, strict=True) if v.name not in self._fixed}

    def _on(self, device: torch.device) -> evaluation.Layers:
        if device not in self._layers:
            self._layers[device] = evaluation.layers_on(self.circuit, device)
        return self._layers[device]


def _few_values(variable: Categorical) -> str:
    values = [str(value) for value in variable.values]
    return ", ".join(values if len(values) <= FEW_VALUES else [*values[: FEW_VALUES - 1], "...", values[-1]])


def _from_function(rule: Any, variables: Sequence[Categorical] | None) -> Formula:
    if not callable(rule):
        raise LogicError(f"A constraint is a formula such as a + b == c, or a function, not {rule!r}.")
    if not variables:
        raise LogicError("A constraint given as a Python function needs variables=[...], in the function's order.")
    return holds(rule, *variables)


def _ordered(used: Sequence[Categorical], declared: Sequence[Categorical] | None) -> list[Categorical]:
    """The variables in the order declared, if they are; both lists must name the same ones."""
    if not used:
        raise LogicError("The constraint mentions no variable: compare at least one Categorical with something.")
    if declared is None:
        return list(used)
    by_name = {v.name: v for v in used}
    names: set[str] = set()
    for v in declared:
        if not isinstance(v, Categorical):
            raise LogicError(f"variables=[...] holds {v!r}, which is not a variable: pass a Categorical.")
        if v.name in names:
            raise LogicError(f"variables=[...] names {v.name!r} twice: name each once.")
        names.add(v.name)
        if v.name not in by_name:
            raise LogicError(f"The variable {v.name!r} is declared but the constraint does not use it: drop it.")
        if by_name[v.name].values != v.values:
            raise LogicError(
                f"The variable {v.name!r} is declared with {v.size} values and used with {by_name[v.name].size}: "
                "use the same one."
            )
    for v in used:
        if v.name not in names:
            raise LogicError(f"The constraint uses {v.name!r}, which variables=[...] does not name: add it.")
    return list(declared)


def _compile(formula: Formula, variables: Sequence[Categorical], method: str) -> tuple[Circuit, str]:
    combinations = enumeration.combinations(variables)
    small = combinations <= enumeration.MAX_COMBINATIONS
    if method == "enumeration" and not small:
        raise LogicError(
            f"The variables have {combinations:,} combinations, too many to enumerate "
            f"(at most {enumeration.MAX_COMBINATIONS:,}): use method='sdd'."
        )
    if small and method != "sdd":
        models = enumeration.models(formula, variables)
        if not len(models):
            raise _unsatisfiable(formula)
        if method == "enumeration" or models.size <= FEW_LITERALS or not sdd.available():
            return from_models([v.size for v in variables], models), "enumeration"
    name = cache.key([[v.data for v in variables], description(formula)])
    circuit = cache.load(name)
    if circuit is None:
        circuit = sdd.compile_formula(formula, variables)
        if circuit is None:
            raise _unsatisfiable(formula)
        cache.store(name, circuit)
    return circuit, "sdd"


def _unsatisfiable(formula: Formula) -> LogicError:
    text = repr(formula)
    shown = text if len(text) <= 200 else text[:200] + "..."
    return LogicError(f"No values of its variables satisfy the constraint {shown}: loosen or correct it.")
