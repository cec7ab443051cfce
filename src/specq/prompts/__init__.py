"""Prompts with fewer tokens: `clean` drops what says nothing new, `select` keeps what the question needs."""
