"""traces.json: what each draft of a study said along the target's texts, kept in the folder of its live run.

Of each draft and text it holds what `replay.Traced` and `replay.Copied` do, at full precision, so that a replay of the
folder counts the steps that the forecast counted, without a model. A grid keeps the drafts of the plain target.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import specq
from specq.core.errors import ConfigError
from specq.experiment.schema import Experiment
from specq.forecast.replay import Copied, Traced
from specq.forecast.study import Study

FILE = "traces.json"
SCHEMA = 1
Texts = tuple[Traced | Copied, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kept:
    """What a run's folder keeps of its study: the texts of each draft, and the most tokens a lookup was followed."""

    most: int
    drafts: Mapping[str, Texts]


def beside(study: Study, asked: Experiment) -> dict[str, Any]:
    """The file for the folder of a run of `asked`, by its name: `beside` of run.runner.run."""
    drafts = {name: [_plain(text) for text in texts] for name, texts in study.texts.items()}
    return {
        FILE: {
            "schema": SCHEMA,
            "specq": specq.__version__,
            "config_sha256": asked.config_sha256,
            "most": max(one.cell.k for one in study.ranking.forecasts),
            "prompts": [prompt.id for prompt in study.plan.prompts],
            "drafts": drafts,
        }
    }


def read(folder: Path, info: Mapping[str, Any]) -> Kept | None:
    """What a run's folder keeps; None: it is no run of a study, or one of an older version.

    Raises:
        ConfigError: the file is damaged, of another schema or of another run (`info` is its run.json).
    """
    path = folder / FILE
    if not path.exists():
        return None
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
        if value["schema"] != SCHEMA:
            raise ValueError(f"its schema is {value['schema']!r}, this version of specq reads {SCHEMA}")
        if value["config_sha256"] != info["config_sha256"]:
            raise ValueError("it belongs to another run: its config_sha256 is not that of run.json")
        drafts = {str(name): tuple(_text(one) for one in texts) for name, texts in value["drafts"].items()}
        lengths = {tuple(map(len, texts)) for texts in drafts.values()}
        if len(lengths) != 1 or {len(value["prompts"])} != {len(one) for one in lengths}:
            raise ValueError("its drafts are not of the same texts")
        return Kept(most=int(value["most"]), drafts=drafts)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ConfigError(
            f"replay: {path} cannot be used ({_said(error)}); type specq drafts anew, or take the file away and "
            "replay lookups along the answers of the run"
        ) from error


def _plain(text: Traced | Copied) -> dict[str, Any]:
    if isinstance(text, Copied):
        found = {"matched": text.matched.tolist(), "proposed": text.proposed.tolist(), "room": text.room}
        return found if text.elsewhere is None else found | {"elsewhere": _plain(text.elsewhere)}
    arrays = {"p": text.p, "q": text.q, "hit": text.hit, "stops": text.stops, "unsure": text.unsure}
    return {name: one.tolist() for name, one in arrays.items() if one is not None} | {"room": text.room}


def _text(value: dict[str, Any]) -> Traced | Copied:
    if "matched" in value:
        other = _text(value["elsewhere"]) if "elsewhere" in value else None
        if isinstance(other, Copied):
            raise ValueError("a lookup before a lookup")
        matched, proposed = (_array(value[name], int) for name in ("matched", "proposed"))
        if not ((matched >= 0) & (matched <= proposed)).all():
            raise ValueError("a lookup matched more tokens than it proposed")
        return Copied(matched=matched, proposed=proposed, elsewhere=other, room=int(value["room"]))
    p, q, hit = (_array(value[name], float) for name in ("p", "q", "hit"))
    stops, unsure = (_array(value[name], bool) if name in value else None for name in ("stops", "unsure"))
    return Traced(p=p, q=q, hit=hit, stops=stops, unsure=unsure, room=int(value["room"]))


def _array(values: Any, kind: type) -> np.ndarray:
    allowed = (int, float) if kind is float else (kind,)
    if not isinstance(values, list) or not all(type(one) in allowed for one in values):
        raise ValueError(f"a list has something else than {kind.__name__}")
    return np.array(values, dtype=kind)


def _said(error: Exception) -> str:
    return f"it lacks {error}" if isinstance(error, KeyError) else str(error)
