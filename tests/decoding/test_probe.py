"""The probe that decides before weights load whether a cache can be rolled back."""

from __future__ import annotations

import pytest
import torch

import tiny_models as tiny
from specq.core.errors import Unsupported
from specq.decoding import probe, session

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize("drafting", [False, True])
@pytest.mark.parametrize("kind", [*tiny.DENSE, "window"])
def test_a_sound_architecture_is_refused(folder_of, kind, drafting):
    probe.check_rollback(folder_of(kind), drafting=drafting)


@pytest.mark.parametrize("drafting", [False, True])
def test_a_recurrent_hybrid_passes(folder_of, drafting):
    with pytest.raises(Unsupported, match=r"^Qwen3NextForCausalLM: .*run it without a draft"):
        probe.check_rollback(folder_of("hybrid"), drafting=drafting)


def test_only_a_folder_with_weights_is_probed(tmp_path):
    """The verdict needs config.json alone, so that it comes before any weight is loaded."""
    name, settings = tiny.CONFIGS["hybrid"]
    config = getattr(__import__("transformers"), name)(**settings)
    config.architectures = ["Qwen3NextForCausalLM"]
    config.save_pretrained(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["config.json"]
    with pytest.raises(Unsupported, match="Qwen3NextForCausalLM"):
        probe.check_rollback(tmp_path, drafting=False)


def of_type(folder, kind, **changes):
    """A folder that holds nothing but the default config of a model type."""
    from transformers import CONFIG_MAPPING

    config = CONFIG_MAPPING[kind](**changes)
    config.architectures = [f"{kind.title()}ForCausalLM"]
    config.save_pretrained(folder)
    return folder


@pytest.mark.parametrize("kind", ["mamba", "mamba2", "rwkv", "jamba", "granitemoehybrid", "olmo_hybrid"])
def test_a_recurrent_model_passes_or_breaks_the_probe(tmp_path, kind):
    """States of every make are refused in one line that names the architecture."""
    with pytest.raises(Unsupported, match=rf"^{kind.title()}ForCausalLM: [^\n]+$"):
        probe.check_rollback(of_type(tmp_path, kind), drafting=False)


@pytest.mark.parametrize("drafting", [False, True])
@pytest.mark.parametrize(
    "kind", ["gemma2", "gpt_oss", "llama4_text", "deepseek_v3", "falcon", "gptj", "bloom", "qwen3_moe"]
)
def test_attention_of_another_make_is_refused(tmp_path, kind, drafting):
    """Alternating windows, sinks, chunks, latent heads, derived head sizes, rotary parts, slopes, experts."""
    probe.check_rollback(of_type(tmp_path, kind), drafting=drafting)


def test_one_config_is_probed_again_for_every_arm(tmp_path, monkeypatch):
    folder = of_type(tmp_path, "llama", vocab_size=61)
    probe.check_rollback(folder, drafting=True)
    monkeypatch.setattr(probe, "rollback_error", lambda *_: pytest.fail("probed twice"))
    probe.check_rollback(folder, drafting=True)


def test_the_shrunken_copy_has_lost_a_kind_of_layer(folder_of):
    from transformers import CONFIG_MAPPING, AutoConfig

    small = probe.shrink(AutoConfig.from_pretrained(folder_of("hybrid")))
    assert set(small.layer_types) == {"linear_attention", "full_attention"}
    assert len(small.layer_types) == small.num_hidden_layers == 3
    window = probe.shrink(AutoConfig.from_pretrained(folder_of("window")))
    # The probe's text is longer than these, so windows and chunks are reached.
    assert window.sliding_window == 6
    assert probe.shrink(CONFIG_MAPPING["llama4_text"]()).attention_chunk_size == 6
    latent = probe.shrink(CONFIG_MAPPING["deepseek_v3"]())
    assert latent.num_key_value_heads == latent.num_attention_heads == 4


class OneTooMany(session.Session):
    def rollback(self, tokens):
        self.cache.crop(-(tokens + 1) if tokens else 0)
        self.length -= tokens


class OneTooFew(session.Session):
    def rollback(self, tokens):
        self.cache.crop(-max(0, tokens - 1))
        self.length -= tokens


class PositiveCount(session.Session):
    """The count is taken for a length, as an older crop would read it."""

    def rollback(self, tokens):
        if tokens or self.keep == "window":
            self.cache.crop(tokens)
        self.length -= tokens


class NoCropOfNothing(session.Session):
    def rollback(self, tokens):
        if tokens:
            self.cache.crop(-tokens)
        self.length -= tokens


class NoCropAtAll(session.Session):
    def rollback(self, tokens):
        self.length -= tokens


class NoRecording(session.Session):
    """Windows that drop what a rollback would need."""

    def restart(self):
        super().restart()
        if self.keep == "window":
            self.cache = session.DynamicCache(config=self.model.config)


class WindowWhileDrafting(session.Session):
    """A draft whose windows are kept for one forward only, though several are rolled back at once."""

    def restart(self):
        self.cache = session.new_cache(self.model, "window")
        self.length = 0


def detected(monkeypatch, planted, kind, keep):
    """Whether the probe sees a planted fault: a logit that is off, or a crash."""
    model = probe.tiny(tiny.make(kind).config)
    assert probe.rollback_error(model, keep) < probe.TOLERANCE
    monkeypatch.setattr(probe, "Session", planted)
    try:
        return probe.rollback_error(model, keep) > probe.TOLERANCE
    except (RuntimeError, ValueError, IndexError):
        return True


@pytest.mark.parametrize("planted", [OneTooMany, OneTooFew, PositiveCount, NoCropAtAll])
@pytest.mark.parametrize("keep", ["window", "everything"])
@pytest.mark.parametrize("kind", [*tiny.DENSE, "window"])
def test_a_planted_crop_passes_the_probe(monkeypatch, kind, keep, planted):
    assert detected(monkeypatch, planted, kind, keep)


@pytest.mark.parametrize(
    ("planted", "keep"),
    [(NoCropOfNothing, "window"), (NoRecording, "window"), (WindowWhileDrafting, "everything")],
    ids=["no-crop-of-nothing", "no-recording", "window-while-drafting"],
)
def test_a_planted_window_passes_the_probe(monkeypatch, planted, keep):
    assert detected(monkeypatch, planted, "window", keep)


def test_the_probe_leaves_the_global_chance_changed():
    config = tiny.make("llama").config
    torch.manual_seed(1234)
    before = torch.get_rng_state()
    probe.tiny(config)
    assert torch.equal(torch.get_rng_state(), before)
