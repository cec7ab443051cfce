"""Options on the user's own request that say nothing beside the others: refused, or told which goes before which."""

from __future__ import annotations

from collections.abc import Sequence

from specq.core.errors import ConfigError
from specq.lab import context, halves, prompt_cache


def check(
    parts: Sequence[str],
    *,
    prompts: str | None,
    prompt_tokens: int | None,
    output_tokens: int | None,
    cached_share: float | None,
) -> tuple[str, ...]:
    """Refuse what no part that is asked for reads; what goes before `prompts`, in sentences.

    Raises:
        ConfigError: an option would change nothing.
    """
    comes, asks = bool({halves.PART, context.PART} & set(parts)), prompt_cache.PART in parts
    given = {"prompt-tokens": prompt_tokens, "output-tokens": output_tokens, "cached-share": cached_share}
    said = [name for name, value in given.items() if value is not None]
    if said and not comes:
        raise ConfigError(
            f"--{said[0]} is of your own request, which the parts halves and context tell of, and neither is asked "
            f"for: leave it out, or add --part {halves.PART}"
        )
    if prompts is None:
        return ()
    if not asks and not comes:
        raise ConfigError(
            "--prompts is of the parts halves, context and cache, and none is asked for: leave it out, or add "
            f"--part {prompt_cache.PART}"
        )
    if not asks and {"prompt-tokens", "output-tokens"} <= set(said):
        raise ConfigError(
            "--prompts beside --prompt-tokens and --output-tokens says nothing more, for the part cache, which asks "
            f"them, is not asked for: leave it out, or add --part {prompt_cache.PART}"
        )
    notes = []
    if prompt_tokens is not None:
        notes.append(f"--prompt-tokens {prompt_tokens} is their length here, and not their own median")
    if output_tokens is not None:
        notes.append(f"--output-tokens {output_tokens} is the length of their answers here, whatever the file says")
    if cached_share is not None and asks:
        notes.append(f"--cached-share {cached_share:g} goes before the share that the cache gives for them")
    return tuple(notes)
