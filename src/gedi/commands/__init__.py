"""The commands of `gedi`, one file per group; only they and `cli` print."""
