"""Reads untrusted files as plain data of bounded size; writes ours whole or not at all."""
