"""A constraint over categorical variables: compiled once, then exact and batched on any device."""

# pyright: reportUnnecessaryIsInstance=false
from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any

import torch

from gedi.errors import LogicError
from gedi.logic import cache, enumeration, passes, sdd
from gedi.logic.circuit import Circuit, from_models
from gedi.logic.expressions import Categorical, Formula, few_values, holds, variables_in
from gedi.logic.formats import read_dimacs, read_problog
from gedi.logic.nodes import cut, description
from gedi.logic.passes import check_normalised, check_possible, check_shapes
from gedi.logic.text import check_text, read_constraint, read_text, write_constraint

COMPILERS = ("auto", "enumeration", "sdd")
DIMACS, PROBLOG = (".cnf", ".dimacs"), (".pl", ".problog")  # suffixes of files
# Up to this size, a list of the models is faster than a compiled circuit; see benchmarks/logic.py.
FEW_LITERALS = 10_000


class Constraint:
    """A rule that must hold between variables, as an event whose probability a network can be trained on.

    ``rule`` is a formula, or a Python function of the values of ``variables``. ``variables`` sets their order, and must
    list exactly the formula's variables. ``method`` is how the rule is compiled: "enumeration" lists the models, "sdd"
    compiles with PySDD and caches the result on disk, "auto" picks the faster; the answers are the same.

    Variables are independent given the network's outputs: P(rule) is the sum over the models of the product of their
    values' probabilities. ``log_probs`` maps each name to normalised log-probabilities [batch, size].

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
        if method not in COMPILERS:
            raise LogicError(f"method={method!r} is unknown: use one of {', '.join(COMPILERS)}.")
        if not isinstance(rule, Formula):
            rule = _from_function(rule, variables)
        self.formula = rule
        self.variables = _ordered(variables_in(rule), variables)
        self.circuit, self.method = _compile(rule, self.variables, method)
        self._fixed: dict[str, torch.Tensor] = {}
        self._layers: dict[torch.device, passes.LayersOf] = {}

    @classmethod
    def from_dimacs(cls, cnf: str | Path, *, method: str = "auto") -> Constraint:
        """A CNF in DIMACS format, given as text or as a Path. Variable n is named "n" and has values 0 and 1.

        All declared variables are included, in order; one that no clause mentions may have any value.
        """
        formula, variables = read_dimacs(cnf)
        return cls(formula, variables=variables, method=method)

    @classmethod
    def from_problog(cls, program: str | Path, query: str | None = None, *, method: str = "auto") -> Constraint:
        """The event that ``query`` (default: the program's own) follows from a ProbLog program, as text or a Path.

        ``nn(net, [X], Y, [v1, v2, ...]) :: p(X, Y).`` is a neural predicate: each input x of the net that the query
        needs becomes a variable named "net(x)" with the listed values. Variables are in the order in which the
        program's text (and then ``query``) first mentions their inputs; inputs that appear only when the program is
        grounded come last, by name. Facts with a probability in the program are summed out.
        """
        formula, variables, facts = read_problog(program, query)
        constraint = cls(formula, variables=variables, method=method)
        constraint._fixed = {name: torch.tensor(p, dtype=torch.float64).log() for name, p in facts.items()}
        return constraint

    @classmethod
    def from_file(cls, path: str | Path, *, method: str = "auto") -> Constraint:
        """A file in DIMACS format (.cnf, .dimacs), a ProbLog program (.pl, .problog), or a text (docs/logic.md)."""
        path = Path(path)
        if path.suffix in DIMACS:
            return cls.from_dimacs(path, method=method)
        if path.suffix in PROBLOG:
            return cls.from_problog(path, method=method)
        formula, variables = read_constraint(read_text(path))
        return cls(formula, variables=variables, method=method)

    def __repr__(self) -> str:
        return f"Constraint({', '.join(self.inputs)}; {self.method}, {self.circuit.nodes} nodes)"

    def _repr_html_(self) -> str:
        """Shown by notebooks: the rule, its variables and the size of its circuit."""
        lines = "".join(
            f"<tr><td>{escape(v.name)}</td><td>{v.size}</td><td>{escape(few_values(v))}</td></tr>"
            for v in self.variables
        )
        head = "<tr><th>variable</th><th>size</th><th>values</th></tr>"
        rule, size = escape(repr(self.formula)), f"{escape(self.method)}, {self.circuit.nodes:,} nodes"
        return f"<div><b>Constraint</b> <code>{rule}</code> ({size})<table>{head}{lines}</table></div>"

    @property
    def inputs(self) -> list[str]:
        """The names that ``log_probs`` must have."""
        return [v.name for v in self.variables if v.name not in self._fixed]

    def log_prob(self, log_probs: Mapping[str, torch.Tensor], *, check: bool = True) -> torch.Tensor:
        """log P(rule) for each row, [batch]; -inf with zero gradient where no model is possible.

        ``check=False`` skips the check of the values (not of the shapes), which on a GPU waits for the device.
        """
        literals = self._literals(log_probs, check)
        return passes.log_prob(self._on(literals.device), literals)

    def marginals(self, log_probs: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """P(variable = value | rule), [batch, size] for each variable; differentiable."""
        return self._by_variable(self._conditional(self._literals(log_probs))[1].T)

    def entropy(self, log_probs: Mapping[str, torch.Tensor]) -> torch.Tensor:
        """The joint entropy in nats of all inputs, given the rule, [batch]; differentiable."""
        literals = self._literals(log_probs)
        if self._fixed:
            return passes.joint_entropy(self._log_joint(log_probs, literals.dtype))
        log_prob, marginals = self._conditional(literals)
        # log p(x | rule) = sum of log p(x_v) - log P(rule); a value of probability 0 adds nothing.
        return log_prob - (marginals * torch.where(marginals > 0, literals, 0.0)).sum(0)

    @torch.no_grad()
    def most_likely(self, log_probs: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor]:
        """The most probable values that satisfy the rule, as indices [batch] for each variable."""
        literals = self._literals(log_probs)
        if self._fixed:
            best = self._log_joint(log_probs, literals.dtype).argmax(dim=1)
            rows = self._listed.rows.to(best.device)[best]
            return dict(zip(self.inputs, rows.unbind(1), strict=True))
        return self._chosen(literals, lambda terms: terms.amax(dim=1), passes.best_share)

    @torch.no_grad()
    def sample(self, log_probs: Mapping[str, torch.Tensor], *, generator: torch.Generator) -> dict[str, torch.Tensor]:
        """One draw per row from the distribution given the rule, as indices [batch] for each variable."""
        share = passes.random_share(generator)
        return self._chosen(self._literals(log_probs), passes.logsumexp, share)

    def _literals(self, log_probs: Mapping[str, torch.Tensor], check: bool = True) -> torch.Tensor:
        """All log-probabilities stacked, [literals, batch], in float32 or wider."""
        inputs = [v for v in self.variables if v.name not in self._fixed]
        check_shapes(log_probs, inputs)
        first = log_probs[inputs[0].name]
        parts = dict(log_probs) | {
            name: fixed.to(first.device).expand(len(first), -1) for name, fixed in self._fixed.items()
        }
        given = [log_probs[v.name].dtype for v in inputs]
        dtype = torch.float64 if torch.float64 in given else torch.float32
        literals = torch.cat([parts[v.name].to(dtype) for v in self.variables], dim=1).T.contiguous()
        if check:
            check_normalised(literals, parts, self.variables)
        return literals

    @cached_property
    def _listed(self) -> passes.Listed:
        """The inputs' joint values with the program's own facts summed out."""
        return passes.list_inputs(self._on(torch.device("cpu")), self.variables, self._fixed)

    def _log_joint(self, log_probs: Mapping[str, torch.Tensor], dtype: torch.dtype) -> torch.Tensor:
        log_joint = self._listed.log_joint(log_probs, dtype)
        check_possible(log_joint.detach().amax(dim=1))
        return log_joint

    def _conditional(self, literals: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """log P(rule) and its gradient, which is the marginals given the rule (the circuit is smooth)."""
        layers = self._on(literals.device)
        if torch.is_grad_enabled() and literals.requires_grad:
            log_prob = passes.log_prob(layers, literals)
            check_possible(log_prob.detach())
            return log_prob, torch.autograd.grad(log_prob.sum(), literals, create_graph=True)[0]
        values = passes.upward(layers, literals)
        check_possible(values[-1])
        return values[-1], passes.downward(layers, values, torch.ones_like(values[-1]))

    def _chosen(self, literals: torch.Tensor, reduce: passes.Reduce, share: passes.ShareOf) -> dict[str, torch.Tensor]:
        """One model per row: on the way down, every sum passes its whole weight to one product."""
        layers = self._on(literals.device)
        values = passes.upward(layers, literals, reduce)
        check_possible(values[-1])
        weights = passes.downward(layers, values, torch.ones_like(values[-1]), share)
        return {name: chosen.argmax(dim=1) for name, chosen in self._by_variable(weights.T).items()}

    def _by_variable(self, columns: torch.Tensor) -> dict[str, torch.Tensor]:
        pieces = torch.split(columns, [v.size for v in self.variables], dim=1)
        return {v.name: piece for v, piece in zip(self.variables, pieces, strict=True) if v.name not in self._fixed}

    def _on(self, device: torch.device) -> passes.LayersOf:
        if device not in self._layers:
            self._layers[device] = passes.layers_on(self.circuit, device)
        return self._layers[device]


def constraint_text(source: Constraint | str | Path) -> str:
    """A constraint in the language of docs/logic.md, from a Constraint, a file's path, or text of more than one line.

    Files are read, but not compiled: that may take minutes, and the text is compiled when it is used.

    >>> a, b = Categorical("a", 3), Categorical("b", 3)
    >>> constraint_text(Constraint(a < b))
    'a : 3\\nb : 3\\n(a < b)'
    """
    if isinstance(source, str) and "\n" not in source:
        source = Path(source).expanduser()
    facts: Any = ()
    if isinstance(source, Constraint):
        formula, variables = source.formula, source.variables
        facts = {v.name for v in variables} - set(source.inputs)
    elif isinstance(source, Path) and source.suffix in DIMACS:
        formula, variables = read_dimacs(source)
    elif isinstance(source, Path) and source.suffix in PROBLOG:
        formula, variables, facts = read_problog(source, None)
    else:
        text = read_text(source).expandtabs()
        check_text(text)
        read_constraint(text)
        return text
    if facts:
        raise LogicError(
            "The program has facts with probabilities of their own, which a constraint as text cannot express: "
            "remove them, or turn them into neural predicates."
        )
    return write_constraint(formula, variables)


def _from_function(rule: Any, variables: Sequence[Categorical] | None) -> Formula:
    if not callable(rule):
        raise LogicError(f"A constraint cannot be {rule!r}: pass a formula such as a + b == c, or a function.")
    if not variables:
        raise LogicError("A constraint given as a function needs variables=[...]: list one per argument, in order.")
    return holds(rule, *variables)


def _ordered(used: Sequence[Categorical], declared: Sequence[Categorical] | None) -> list[Categorical]:
    """The variables in the declared order, if there is one; both lists must have the same variables."""
    if not used:
        raise LogicError("The constraint has no variable: compare at least one Categorical with something.")
    if declared is None:
        return list(used)
    by_name = {v.name: v for v in used}
    names: set[str] = set()
    for v in declared:
        if not isinstance(v, Categorical):
            raise LogicError(f"variables=[...] contains {v!r}, which is not a variable: pass a Categorical.")
        if v.name in names:
            raise LogicError(f"variables=[...] lists {v.name!r} twice: list each variable once.")
        names.add(v.name)
        if v.name not in by_name:
            raise LogicError(f"The variable {v.name!r} is declared but the constraint does not use it: remove it.")
        if by_name[v.name].values != v.values:
            raise LogicError(f"The variable {v.name!r} is declared and used with different domains: use one of them.")
    for v in used:
        if v.name not in names:
            raise LogicError(f"The constraint uses {v.name!r}, which variables=[...] does not list: add it.")
    return list(declared)


def _compile(formula: Formula, variables: Sequence[Categorical], method: str) -> tuple[Circuit, str]:
    combinations = math.prod(v.size for v in variables)
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
    return LogicError(f"No values of its variables satisfy the constraint {cut(str(formula))}: relax or correct it.")
