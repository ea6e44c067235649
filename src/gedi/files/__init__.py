"""Reads files that may come from a stranger as plain data of bounded size; writes ours whole or not at all."""
