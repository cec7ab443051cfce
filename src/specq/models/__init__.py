"""Models by name: where they lie, what they weigh and what tokens they speak."""
