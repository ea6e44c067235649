"""Arithmetic circuits as layers of index arrays: what a constraint is compiled to, from its models or from an SDD.

A node is a sum of products. Nodes are numbered: first the literals (variable by variable, value by value), then ONE
and ZERO, then the sums, layer by layer. Every circuit here is deterministic, decomposable and smooth: a set of
literals that makes the root true has exactly one literal of each variable and is counted once. So the root is the
polynomial sum over models of prod p, and its derivatives are the marginals.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

CHEAP_PRODUCTS = 1_000  # a layer of at most this size costs little more than launching its operations

Product = tuple[int, ...]


class Circuit(NamedTuple):
    """``layers[i]`` is [factors, nodes, products]: each node is a sum of products, each product has factors."""

    sizes: tuple[int, ...]  # of the variables
    layers: tuple[np.ndarray, ...]  # int64; short sums are padded with ZERO, short products with ONE

    @property
    def literals(self) -> int:
        return sum(self.sizes)

    @property
    def nodes(self) -> int:
        return self.literals + 2 + sum(layer.shape[1] for layer in self.layers)


def from_models(sizes: Sequence[int], models: np.ndarray) -> Circuit:
    """One layer with one sum: a product for each row of value indices, [models, variables]."""
    offsets = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    return Circuit(tuple(sizes), ((models + offsets).T[:, None, :].astype(np.int64),))


def from_diagram(root: Any, first_bit: Sequence[int], sizes: Sequence[int], order: Sequence[int]) -> Circuit:
    """The circuit of a satisfiable SDD over bits whose i-th variable, ``order[i]``, begins at ``first_bit[i]``."""
    reader = _DiagramReader(first_bit, [sizes[i] for i in order])
    builder = _Builder(sizes, order)
    number: dict[int, Product] = {}  # the factor of each diagram node; the true node has none
    stack = [(root, False)]
    while stack:
        node, done = stack.pop()
        if node.id in number or node.is_false():
            continue
        if node.is_true():
            number[node.id] = ()
        elif done:
            i = reader.position(node)
            products = [
                (builder.one_of(i, values), *number[sub.id], *builder.free(i + 1, reader.position(sub)))
                for sub, values in reader.branches(node)
            ]
            number[node.id] = (builder.sum(products),)
        else:
            stack.append((node, True))
            stack.extend((sub, False) for sub, _ in reader.branches(node))
    top = builder.sum([(*number[root.id], *builder.free(0, reader.position(root)))])
    return builder.build(top)


class _Builder:
    """Collects sums bottom-up, without duplicates, and arranges them in layers.

    Variables are named by their place in ``order``; their literals are numbered in the order of ``sizes``.
    """

    def __init__(self, sizes: Sequence[int], order: Sequence[int]) -> None:
        self.sizes, self.order = tuple(sizes), order
        self.offsets = np.concatenate([[0], np.cumsum(self.sizes)]).tolist()
        self.one, self.zero = self.offsets[-1], self.offsets[-1] + 1
        self._sums: list[tuple[Product, ...]] = []
        self._known: dict[tuple[Product, ...], int] = {}
        self._depth: dict[int, int] = {}

    def sum(self, products: Sequence[Product]) -> int:
        """The number of the node that sums these products."""
        key = tuple(products)
        if len(key) == 1 and len(key[0]) == 1:
            return key[0][0]
        if key not in self._known:
            self._known[key] = node = self.zero + 1 + len(self._sums)
            self._sums.append(key)
            self._depth[node] = 1 + max(self._depth.get(factor, 0) for product in key for factor in product)
        return self._known[key]

    def one_of(self, place: int, values: Sequence[int]) -> int:
        """P(variable in values)."""
        return self.sum([(self.offsets[self.order[place]] + value,) for value in values])

    def free(self, first: int, last: int) -> Product:
        """A factor, if needed, that allows variables first to last - 1 any value; it keeps the circuit smooth."""
        factors = tuple(self.one_of(place, range(self.sizes[self.order[place]])) for place in range(first, last))
        return (self.sum([factors]),) if factors else ()

    def build(self, root: int) -> Circuit:
        """The layers below ``root``, which is the last node."""
        if root <= self.zero:  # even a single literal needs a layer
            return Circuit(self.sizes, (np.array([[[root]]], dtype=np.int64),))
        number = list(range(self.zero + 1)) + [-1] * len(self._sums)
        count, layers = self.zero + 1, []
        for nodes in self._grouped(self._reached(root)):
            layers.append(self._layer(nodes, number))
            for node in nodes:
                number[node] = count
                count += 1
        return Circuit(self.sizes, tuple(layers))

    def _grouped(self, nodes: Sequence[int]) -> list[list[int]]:
        """Nodes by depth, and also by length of sum where padding would cost more than an extra layer."""
        by_depth: dict[int, dict[int, list[int]]] = {}
        for node in nodes:
            length = (len(self._of(node)) - 1).bit_length()
            by_depth.setdefault(self._depth[node], {}).setdefault(length, []).append(node)
        groups = []
        for _, lengths in sorted(by_depth.items()):
            together = [node for _, some in sorted(lengths.items()) for node in some]
            if len(together) * max(len(self._of(node)) for node in together) <= CHEAP_PRODUCTS:
                groups.append(together)
            else:
                groups.extend(some for _, some in sorted(lengths.items()))
        return groups

    def _layer(self, nodes: Sequence[int], number: Sequence[int]) -> np.ndarray:
        sums = [self._of(node) for node in nodes]
        factors = max(len(product) for products in sums for product in products)
        layer = np.full((factors, len(sums), max(map(len, sums))), self.one, dtype=np.int64)
        layer[0] = self.zero
        for n, products in enumerate(sums):
            for p, product in enumerate(products):
                layer[: len(product), n, p] = [number[factor] for factor in product]
        return layer

    def _of(self, node: int) -> tuple[Product, ...]:
        return self._sums[node - self.zero - 1]

    def _reached(self, root: int) -> list[int]:
        seen, stack = {root}, [root]
        while stack:
            for product in self._of(stack.pop()):
                for factor in product:
                    if factor > self.zero and factor not in seen:
                        seen.add(factor)
                        stack.append(factor)
        return sorted(seen)


class _DiagramReader:
    """Reads an SDD one variable (a group of bits) at a time."""

    def __init__(self, first_bit: Sequence[int], sizes: Sequence[int]) -> None:
        self.first_bit, self.sizes = list(first_bit), list(sizes)
        self._tops: dict[int, tuple[int, Any, Any]] = {}
        self._branches: dict[int, list[tuple[Any, list[int]]]] = {}

    def top(self, node: Any) -> tuple[int, Any, Any] | None:
        """The bit that the node decides on, and its successors for 1 and for 0; None for true and false."""
        if node.is_true() or node.is_false():
            return None
        if node.id not in self._tops:
            if node.is_literal():
                subs = {node.literal: node.manager.true(), -node.literal: node.manager.false()}
            else:  # every prime is a single bit, because the vtree is right-linear
                subs = {prime.literal: sub for prime, sub in node.elements()}
            bit = max(subs)
            self._tops[node.id] = bit, subs[bit], subs[-bit]
        return self._tops[node.id]

    def position(self, node: Any) -> int:
        """The index of the variable that the node decides on; one past the last for true and false."""
        top = self.top(node)
        return len(self.sizes) if top is None else bisect_right(self.first_bit, top[0]) - 1

    def branches(self, node: Any) -> list[tuple[Any, list[int]]]:
        """The node's successors, each with the values of its variable that lead there; dead ends are omitted."""
        if node.id not in self._branches:
            i = self.position(node)
            end = self.first_bit[i + 1]
            targets: dict[int, tuple[Any, list[int]]] = {}
            for value in range(self.sizes[i]):
                there, top = node, self.top(node)
                while top is not None and top[0] < end:
                    there = top[1] if value >> (end - 1 - top[0]) & 1 else top[2]
                    top = self.top(there)
                if not there.is_false():
                    targets.setdefault(there.id, (there, []))[1].append(value)
            self._branches[node.id] = list(targets.values())
        return self._branches[node.id]
