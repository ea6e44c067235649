"""Training: Algorithm 2 (recipe), its engine, its settings."""
