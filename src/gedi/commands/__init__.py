"""The commands of `gedi`, one file each; only they and `cli` print."""
