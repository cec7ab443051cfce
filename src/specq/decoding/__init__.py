"""Exact decoding: logits to probabilities, verification rules, drafters and the loops that join them."""
