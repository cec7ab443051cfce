"""Errors, the clock, record types, hashes and JSONL: what every other package stands on. Imports nothing heavy."""
