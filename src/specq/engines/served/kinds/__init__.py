"""The kinds of server, by the word that [engine] has for them."""

from __future__ import annotations

from specq.engines.served.kinds import llamacpp, mlx_lm, ollama, openai, sglang, vllm
from specq.engines.served.kinds.base import Kind

KINDS: dict[str, Kind] = {one.NAME: one for one in (vllm, llamacpp, ollama, mlx_lm, sglang, openai)}
