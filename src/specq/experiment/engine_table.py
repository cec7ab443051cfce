"""The table [engine] of an experiment: an engine of specq's own processes, or a server that is asked."""

from __future__ import annotations

from typing import Any, Literal, get_args

from pydantic import Field, model_validator

from specq.core.nouns import listed
from specq.experiment.levers import Dtype, Table

EngineKind = Literal["hf", "mlx", "vllm", "llamacpp", "ollama", "mlx_lm", "sglang", "openai"]
OWN: tuple[EngineKind, ...] = ("hf", "mlx")
SERVED: tuple[EngineKind, ...] = tuple(kind for kind in get_args(EngineKind) if kind not in OWN)
_OF_OWN = ("device", "attention", "device_map", "compile")
_OF_SERVED = (
    *("url", "url_env", "key_env", "served_name", "tokenizer", "args", "context", "slots", "start_s", "limit_s"),
)
_STARTED = ("args", "context", "start_s", "threads")


class Engine(Table):
    """What runs the models: hf or mlx in processes of specq's own, or a server of another kind.

    dtype "auto" is the dtype that the weights are stored in. A server is attached to where `url` or `url_env` (the
    environment variable that holds it) is given, else it is started for each arm, with `args` after what specq gives
    it. `key_env` names the environment variable with its key; `served_name` is what a server that runs already calls
    the model, and `tokenizer` the model whose tokens and chat template make the prompts, where target.model is no
    folder here. `context` is the most tokens of a request, `slots` how many run at once: a
    server that is started is told so, and of one that runs already it is how many evals may ask at once.
    """

    kind: EngineKind = "hf"
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    dtype: Dtype = "auto"
    attention: Literal["sdpa", "eager", "flash_attention_2", "flex_attention"] = "sdpa"
    device_map: Literal["auto"] | None = None
    threads: int | None = Field(default=None, ge=1, le=1024)
    compile: bool = False
    url: str | None = Field(default=None, min_length=1)
    url_env: str | None = Field(default=None, min_length=1)
    key_env: str | None = Field(default=None, min_length=1)
    served_name: str | None = Field(default=None, min_length=1)
    tokenizer: str | None = Field(default=None, min_length=1)
    args: tuple[str, ...] = Field(default=(), strict=False)
    context: int | None = Field(default=None, ge=1)
    slots: int = Field(default=1, ge=1, le=4096)
    start_s: float = Field(default=600.0, gt=0)
    limit_s: float = Field(default=300.0, gt=0)

    @property
    def is_server(self) -> bool:
        """Whether a server is asked."""
        return self.kind in SERVED

    @property
    def attaches(self) -> bool:
        """Whether a server is asked that runs already."""
        return self.url is not None or self.url_env is not None

    @model_validator(mode="after")
    def _fits_together(self) -> Engine:
        if self.compile and self.kind != "hf":
            raise ValueError(f'compile = true: kind = "{self.kind}" compiles nothing, allowed is kind = "hf"')
        if self.compile and self.device_map is not None:
            raise ValueError("compile = true beside device_map: allowed is one of the two")
        if self.device_map is not None and self.device != "auto":
            raise ValueError(f'device = "{self.device}" beside device_map: allowed is device = "auto"')
        self._keys_of_the_kind()
        return self

    def _keys_of_the_kind(self) -> None:
        """Refuse a key that would be ignored, for its author expects an effect."""
        foreign = _OF_OWN if self.is_server else _OF_SERVED
        for key in foreign:
            if (value := getattr(self, key)) != type(self).model_fields[key].default:
                kinds = listed([f'"{kind}"' for kind in (OWN if self.is_server else SERVED)])
                through = "; give a server its own options with args" if self.is_server else ""
                raise ValueError(
                    f'{key} = {_shown(value)}: kind = "{self.kind}" does not read it, allowed with kind {kinds}'
                    + through
                )
        if self.url is not None and self.url_env is not None:
            raise ValueError("url beside url_env: allowed is one of the two")
        if self.attaches:
            for key in _STARTED:
                if (value := getattr(self, key)) != type(self).model_fields[key].default:
                    raise ValueError(
                        f"{key} = {_shown(value)}: a server that runs already has what it was started with; take {key} "
                        "out of [engine], or url, so that one is started"
                    )
        if self.served_name is not None and not self.attaches:
            raise ValueError("served_name: it goes with url, for a server that is started has the name of its model")
        if self.url is not None:
            self._plain_url(self.url)

    @staticmethod
    def _plain_url(url: str) -> None:
        from specq.core.errors import UserError
        from specq.engines.served.address import address_of

        try:
            address_of(url)
        except UserError as error:
            raise ValueError(str(error)) from None


def _shown(value: Any) -> str:
    return f'"{value}"' if isinstance(value, str) else str(list(value) if isinstance(value, tuple) else value)
