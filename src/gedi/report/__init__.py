"""The pages that show a run."""
