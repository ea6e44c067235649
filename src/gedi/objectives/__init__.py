"""The family of objectives, one file each: pure functions of tensors that name their equation, then the `Term` of each.

A term is what settings ask for by family and kind. To add one, write a file here: see `gedi.objectives.term`.
"""
