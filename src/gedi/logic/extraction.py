"""From a sentential decision diagram over bits to an arithmetic circuit over variables."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from typing import Any

import numpy as np

from gedi.logic.circuit import Builder, Circuit


def circuit_of(root: Any, first_bit: Sequence[int], sizes: Sequence[int], order: Sequence[int]) -> Circuit:
    """The circuit of a satisfiable diagram whose i-th variable, ``order[i]``, begins at ``first_bit[i]``."""
    reader = _Reader(first_bit, [sizes[i] for i in order])
    builder = Builder(reader.sizes)
    number: dict[int, tuple[int, ...]] = {}  # a diagram node's factor; the true node has none
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
    return _in_order(builder.build(top), sizes, order)


class _Reader:
    """Reads the diagram a variable at a time."""

    def __init__(self, first_bit: Sequence[int], sizes: Sequence[int]) -> None:
        self.first_bit, self.sizes = list(first_bit), list(sizes)
        self._tops: dict[int, tuple[int, Any, Any] | None] = {}
        self._branches: dict[int, list[tuple[Any, list[int]]]] = {}

    def top(self, node: Any) -> tuple[int, Any, Any] | None:
        """The bit the node decides on, where it goes if set, where if not; None for true and false."""
        if node.id not in self._tops:
            self._tops[node.id] = self._read(node)
        return self._tops[node.id]

    def _read(self, node: Any) -> tuple[int, Any, Any] | None:
        if node.is_true() or node.is_false():
            return None
        if node.is_literal():
            true, false = node.manager.true(), node.manager.false()
            return (node.literal, true, false) if node.literal > 0 else (-node.literal, false, true)
        subs = {prime.literal: sub for prime, sub in node.elements()}  # primes are one bit: the vtree is right-linear
        bit = max(subs)
        return bit, subs[bit], subs[-bit]

    def position(self, node: Any) -> int:
        """The place of the variable the node decides on; one past the last for true and false."""
        top = self.top(node)
        return len(self.sizes) if top is None else bisect_right(self.first_bit, top[0]) - 1

    def branches(self, node: Any) -> list[tuple[Any, list[int]]]:
        """Where the node goes for which values of its variable, dead ends left out."""
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


def _in_order(circuit: Circuit, sizes: Sequence[int], order: Sequence[int]) -> Circuit:
    """Renumber the literals from the diagram's order of variables to the user's."""
    offsets = np.concatenate([[0], np.cumsum(sizes)])
    literals = np.concatenate([np.arange(offsets[i], offsets[i + 1]) for i in order])
    number = np.concatenate([literals, np.arange(len(literals), circuit.nodes)]).astype(np.int64)
    return Circuit(tuple(sizes), tuple(number[layer] for layer in circuit.layers))
