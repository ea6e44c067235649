"""The table in which `gedi fit` says how it read each column."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from gedi.commands.terminal import err

if TYPE_CHECKING:
    from gedi.data import TableRecipe

COLUMNS_LISTED = 40  # columns to list


def say_columns(recipe: TableRecipe) -> None:
    """Say how each column was read; nothing if all of them are plain numbers without gaps."""
    if all(column.is_plain and not column.missing for column in recipe.columns):
        return
    table = Table("column", "read as", "", box=None, pad_edge=False, header_style="bold")
    for column in recipe.columns[:COLUMNS_LISTED]:
        what, more = column.in_words
        table.add_row(Text(column.name), Text(what), Text(more))
    if (rest := len(recipe.columns) - COLUMNS_LISTED) > 0:
        table.add_row(Text(f"and {rest} more"))
    err.print(table, soft_wrap=True)
