"""The models of a server in a plan: sizes of the files that it loads, in the dtype that it is started with."""

from __future__ import annotations

from typing import Any

from specq.core.types import DraftSpec, TargetSpec
from specq.engines.served import files
from specq.engines.served.kinds.weights import gguf_file
from specq.experiment.engine_table import Engine
from specq.experiment.levers import SELF
from specq.experiment.sizes import PlannedModel
from specq.experiment.stand_ins import StandIns
from specq.models import tokenizers
from specq.models.facts import Facts
from specq.models.refs import Resolved
from specq.quantize import held
from specq.quantize.held import Held, Place


def planned(role: Any, resolved: Resolved, known: Facts, engine: Engine, fetch: bool) -> PlannedModel:
    """A model that a server loads: its file where the kind loads GGUF files, else its folder.

    Raises:
        UserError: it is no such file.
    """
    asked = None if engine.dtype == "auto" or engine.attaches else engine.dtype
    dtype, stored, read = asked or known.dtype, known.weight_bytes_in(asked), known.bytes_per_token(asked)
    if engine.kind in files.OF_GGUF and not engine.attaches:
        file = gguf_file(resolved.name, download=fetch)
        stored, read = files.gguf_bytes(file, tied=known.tied)
        dtype = files.gguf_dtype(file)
    return PlannedModel(
        role=role,
        resolved=resolved,
        facts=known,
        dtype=dtype,
        weights=held.of_folder(resolved.folder, "hf"),
        place=Place(engine="hf", device="server", dtype=dtype),
        held=Held(weight_bytes=stored, copy_bytes=0, read_bytes=read, head_bytes=0),
    )


class Drafts:
    """The draft models of a server's arms, each found and compared with its target once."""

    def __init__(self, engine: Engine, target: PlannedModel, tokenizer: Any, stand_ins: StandIns) -> None:
        self._engine, self._target, self._tokenizer, self._stand_ins = engine, target, tokenizer, stand_ins
        self._found: dict[tuple[str, str | None], PlannedModel] = {}

    def of(self, draft: DraftSpec | None, target: TargetSpec, own: PlannedModel) -> PlannedModel | None:
        """The second model of an arm's draft, `own` where it is the arm's target; None where there is none.

        Raises:
            UserError: it cannot be found, or speaks other tokens than the arm's target.
        """
        if draft is None or draft.method != "model" or draft.model is None:
            return None
        if draft.model == SELF:
            return own
        from specq.experiment import models

        key = (draft.model, target.source)
        if key not in self._found:
            found = models.planned("draft", draft.model, self._engine, None, self._stand_ins.fetch)
            tokenizer = self._tokenizer if target.source is None else self._stand_ins.of(target.source).tokenizer
            with models.named(found.resolved):
                tokenizers.compare(
                    tokenizer,
                    tokenizers.load(found.resolved),
                    target_vocab=own.facts.vocab,
                    draft_vocab=found.facts.vocab,
                )
            self._found[key] = found
        return self._found[key]

    def all(self) -> list[PlannedModel]:
        """Those that were asked for and can be used."""
        return list({model.name: model for model in self._found.values()}.values())
