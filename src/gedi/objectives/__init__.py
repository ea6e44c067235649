"""The objectives, one file per family: pure functions of tensors that cite their equation, then the `Term` of each.

Settings select a term by family and kind. To add one, write a file here: see `gedi.objectives.term`.
"""
