"""The step that drops what says nothing new: repeats, boilerplate, needless serialization, stale tool output."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from specq.prompts import boilerplate, markup, repeats, serialization, tools
from specq.prompts.work import Edit, Work

# Blobs go first, so that nothing else reads them; repeats last, when what stands between them is gone.
_PASSES: tuple[Callable[[Work], Iterator[Edit]], ...] = (
    tools.stale,
    markup.blobs,
    markup.empty_tags,
    serialization.tables,
    serialization.empty_fields,
    serialization.white_space,
    boilerplate.navigation,
    boilerplate.mail_chain,
    boilerplate.signatures,
    boilerplate.legal_footers,
    repeats.messages,
    repeats.paragraphs,
    repeats.within,
)


def clean(work: Work) -> None:
    """Take rounds until one changes nothing, so that a cleaned prompt is left as it is.

    Every change makes the text shorter, so rounds come to an end. What was refused is that of the last round: all of
    it would be refused again.
    """
    while True:
        refused = len(work.kept)
        changed = False
        for propose in _PASSES:
            changed = work.settle("clean", list(propose(work))) or changed
        if not changed:
            return
        del work.kept[refused:]
