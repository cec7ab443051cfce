"""Everything about a quantization that can be refused before weights are loaded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from specq.core import hashes
from specq.core.errors import PromptError
from specq.models import headers, tokenizers
from specq.models.refs import Resolved
from specq.quantize import calibration as texts
from specq.quantize import contents, experts, room
from specq.quantize.calibration import Calibration
from specq.quantize.layers import Layer, asked, check_shapes, linear_layers
from specq.quantize.recipes import SELF, Recipe, need_calibration


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """A quantization that was checked: its layers, and its texts unless the model is still to write them.

    `tied`: the head is the embedding and the method keeps the two one.
    """

    source: Resolved
    recipe: Recipe
    layers: tuple[Layer, ...]
    calibration: Calibration | None
    tied: bool

    @property
    def asked(self) -> tuple[Layer, ...]:
        """The layers that the recipe asks to quantize."""
        return asked(self.recipe, self.layers)

    @property
    def columns(self) -> int:
        """The most inputs that one of them has."""
        return widest(self.recipe, self.layers)


def plan(source: Resolved, recipe: Recipe, out: Path) -> Plan:
    """Check recipe, model, texts, memory and disk, in the order of what they cost.

    Raises:
        ConfigError, PromptError, ModelError, Unsupported, DiskFull: each in one line that says what to type.
    """
    if recipe.facts.tool == "specq":
        # A folder that is turned over is quantized on purpose; what does that checks it.
        return Plan(source=source, recipe=recipe, layers=(), calibration=None, tied=False)
    room.refuse_quantized(source.name, source.folder)
    need_calibration(recipe)
    layers = linear_layers(source.folder)
    check_shapes(recipe, layers)
    config = headers.read_json(source.folder / "config.json")
    if recipe.facts.tool == "llmcompressor":
        from specq.quantize import llmcompressor

        llmcompressor.check(recipe, config["architectures"][0])
        if any(".experts." in layer.name for layer in asked(recipe, layers)):
            experts.check(recipe, config)
    else:
        from specq.quantize import mlx

        mlx.check(recipe, config)
    columns = widest(recipe, layers)
    loaded = None
    if recipe.calibration == SELF:
        _check_self(recipe, columns)
    elif recipe.calibration is not None:
        path = Path(recipe.calibration)
        loaded = texts.load(recipe, path, tokenizers.load(source), source=path.name, columns=columns)
    tokens = loaded.used.tokens_used if loaded else recipe.samples * recipe.tokens
    room.check_room(recipe, layers, source.folder, tokens=tokens, out=out, name=source.name)
    room.check_source(source.name, source.folder)
    tied = recipe.facts.tool == "mlx-lm" and contents.read(source.folder).tied
    return Plan(source=source, recipe=recipe, layers=layers, calibration=loaded, tied=tied)


def settled(recipe: Recipe, source: Resolved) -> Recipe:
    """The recipe with what a folder tells by itself, for a method that turns a quantized one over; else as it is.

    Raises:
        ConfigError, ModelError, Unsupported: as mlx_bridge.settled.
    """
    if recipe.facts.tool != "specq":
        return recipe
    from specq.quantize import mlx_bridge

    return mlx_bridge.settled(source, recipe)


def widest(recipe: Recipe, layers: tuple[Layer, ...]) -> int:
    """The most columns of a layer that the recipe asks for: so many tokens are the least that say something of each."""
    return max((layer.columns for layer in asked(recipe, layers)), default=0)


def text_sha256(recipe: Recipe) -> str:
    """What stands for a recipe's text in its key: the hash of the file, "self", or "" for none.

    Raises:
        PromptError: there is no such file.
    """
    if recipe.calibration is None or recipe.calibration == SELF:
        return recipe.calibration or ""
    path = Path(recipe.calibration)
    try:
        return hashes.of_file(path)
    except OSError as error:
        raise PromptError(f"{path}: {error.strerror}; give --calibration a file of texts, or self") from error


def from_itself(planned: Plan, path: Path, say: Callable[[str], None]) -> Calibration:
    """Let the model write its calibration texts to `path`, and take the rows from there.

    Raises:
        PromptError: it ended its texts so early that there are too few tokens.
    """
    from specq.quantize import self_text

    def told(done: int, of: int) -> None:
        say(f"calibration text {done} of {of}")

    self_text.write(planned.source, planned.recipe, path, told)
    tokenizer = tokenizers.load(planned.source)
    return texts.load(planned.recipe, path, tokenizer, source=SELF, columns=planned.columns)


def _check_self(recipe: Recipe, columns: int) -> None:
    from specq.quantize.self_text import ROW_TOKENS

    longest = min(recipe.tokens, ROW_TOKENS)
    most = recipe.samples * longest
    if most < columns:
        raise PromptError(
            f"calibration = self: {recipe.samples} texts of at most {longest} tokens are {most}, and {columns} are "
            f"needed, one for each column of the widest layer: type --samples {-(-columns // longest) * 2}"
        )
