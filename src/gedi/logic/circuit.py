"""Arithmetic circuits as layers of index arrays: what a constraint is compiled to, and what is cached.

A node is a sum of products. Nodes are numbered: first the literals (variable by variable, value by value), then ONE
and ZERO, then the sums, layer by layer. Every circuit here is deterministic, decomposable and smooth: a set of
literals that makes the root true has exactly one literal of each variable and is counted once, so the root is the
polynomial sum over models of prod p, and its derivatives are the marginals.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

CHEAP_PRODUCTS = 1_000  # a layer this small costs what starting its operations costs

Product = tuple[int, ...]


class Circuit(NamedTuple):
    """``layers[i]`` is [factors, nodes, products]: node n is the sum over products of the product of its factors."""

    sizes: tuple[int, ...]  # of the variables
    layers: tuple[np.ndarray, ...]  # int64; short sums are filled with ZERO, short products with ONE

    @property
    def literals(self) -> int:
        return sum(self.sizes)

    @property
    def nodes(self) -> int:
        return self.literals + 2 + sum(layer.shape[1] for layer in self.layers)

    @property
    def products(self) -> int:
        return sum(layer.shape[1] * layer.shape[2] for layer in self.layers)


def from_models(sizes: Sequence[int], models: np.ndarray) -> Circuit:
    """One layer with one sum: a product for each row of value indices."""
    offsets = np.concatenate([[0], np.cumsum(sizes)[:-1]])
    return Circuit(tuple(sizes), ((models + offsets).T[:, None, :].astype(np.int64),))


class Builder:
    """Collects sums bottom-up, each distinct one once, and lays them out in layers."""

    def __init__(self, sizes: Sequence[int]) -> None:
        self.sizes = tuple(sizes)
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

    def one_of(self, variable: int, values: Sequence[int]) -> int:
        """P(variable in values)."""
        return self.sum([(self.offsets[variable] + value,) for value in values])

    def free(self, first: int, last: int) -> Product:
        """The factor, if any is needed, that gives variables first .. last-1 any value: it makes the circuit smooth."""
        factors = tuple(self.one_of(v, range(self.sizes[v])) for v in range(first, last))
        return (self.sum([factors]),) if factors else ()

    def build(self, root: int) -> Circuit:
        """The layers under ``root``, which comes last."""
        if root <= self.zero:  # a bare literal still needs a layer to stand in
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
        """Nodes by depth; where filling up would cost more than a layer of its own does, by length of sum too."""
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
