"""The probe that decides before weights load whether a cache can be rolled back."""

from __future__ import annotations

import json

import pytest
import torch

import tiny_models as tiny
from specq.core.errors import ModelError, Unsupported
from specq.core.types import DraftSpec
from specq.decoding import probe, runnable, session, shrink

USES = ("target", "draft", "exit")

pytestmark = pytest.mark.usefixtures("one_thread")


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize("kind", [*tiny.DENSE, "window"])
def test_a_sound_architecture_is_refused(folder_of, kind, use):
    probe.check_rollback(folder_of(kind), use)


@pytest.mark.parametrize("use", USES)
def test_a_recurrent_hybrid_passes(folder_of, use):
    said = (
        r"^Qwen3NextForCausalLM keeps a recurrent state \(3 linear_attention, 1 full_attention\), "
        r"which cannot take tokens back: run it without a draft, or take a model whose layers are all attention$"
    )
    with pytest.raises(Unsupported, match=said):
        probe.check_rollback(folder_of("hybrid"), use)


def test_only_a_folder_with_weights_is_probed(tmp_path):
    """The verdict needs config.json alone, so that it comes before any weight is loaded."""
    name, settings = tiny.CONFIGS["hybrid"]
    config = getattr(__import__("transformers"), name)(**settings)
    config.architectures = ["Qwen3NextForCausalLM"]
    config.save_pretrained(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["config.json"]
    with pytest.raises(Unsupported, match="Qwen3NextForCausalLM"):
        probe.check_rollback(tmp_path, "target")


def of_type(folder, kind, **changes):
    """A folder that holds nothing but the default config of a model type."""
    from transformers import CONFIG_MAPPING

    config = CONFIG_MAPPING[kind](**changes)
    config.architectures = [f"{kind.title()}ForCausalLM"]
    config.save_pretrained(folder)
    return folder


RECURRENT = [
    "mamba",
    "mamba2",
    "rwkv",
    "jamba",
    "granitemoehybrid",
    "olmo_hybrid",
    "recurrent_gemma",
    "zamba",
    "minimax",
]


@pytest.mark.parametrize("kind", [*RECURRENT, "minimax", "bamba", "falcon_h1", "nemotron_h", "kimi_linear"])
def test_a_recurrent_model_passes_or_is_refused_by_what_broke_inside(tmp_path, kind):
    """States of every make are refused in one line that names the architecture and the state, and says what to do."""
    folder = of_type(tmp_path, kind)
    runnable.check_class(folder)
    assert not probe.takes_blocks(folder)
    said = rf"^{kind.title()}ForCausalLM keeps a recurrent state( \([\w, ]+\))?, which cannot take tokens back: run it"
    with pytest.raises(Unsupported, match=said):
        probe.check_rollback(folder, "target")


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize(
    "kind",
    [
        *("gemma2", "gpt_oss", "llama4_text", "deepseek_v3", "falcon", "gptj", "bloom", "qwen3_moe"),
        *("nemotron", "hunyuan_v1_dense", "hunyuan_v1_moe", "deepseek_v2", "dots1", "cwm", "lfm2", "phi3"),
        *("ministral", "ernie4_5_moe", "glm4_moe"),
    ],
)
def test_attention_of_another_make_is_refused(tmp_path, kind, use):
    """Alternating windows, sinks, chunks, latent heads, derived head sizes, rotary parts, slopes, experts."""
    probe.check_rollback(of_type(tmp_path, kind), use)


@pytest.mark.parametrize("kind", ["gemma3n_text", "gemma4_text"])
def test_embeddings_of_each_layer_pass_for_an_early_exit_or_fail_the_rollback(tmp_path, kind):
    folder = of_type(tmp_path, kind)
    for method, more in (("lookup", {}), ("model", {"model": "self"})):
        probe.check_drafting(DraftSpec(method=method, k=2, **more), folder, None)
    with pytest.raises(Unsupported, match=r"its first layers do not run alone .*use method = \"lookup\" or \"model\""):
        probe.check_drafting(DraftSpec(method="early_exit", k=2, layers=3), folder, None)


def test_an_exit_before_the_first_attention_runs_without_positions(folder_of):
    with pytest.raises(Unsupported, match=r"layers = 2: none of them keeps keys and values.* allowed is 3 or more"):
        probe.check_drafting(DraftSpec(method="early_exit", k=2, layers=2), folder_of("conv"), None)
    probe.check_drafting(DraftSpec(method="lookup", k=2), folder_of("conv"), None)


def test_a_config_that_transformers_cannot_build_is_blamed_on_the_cache(tmp_path):
    """The default settings of this one name no rotary base, so there is no model of them at all."""
    said = r"specq could not build a small copy of this architecture to test cache rollback \(.*rope_theta.*\): run it"
    with pytest.raises(Unsupported, match=said):
        probe.check_rollback(of_type(tmp_path, "dbrx"), "target")


def test_a_mixture_with_parts_in_its_config_cannot_be_shrunk(tmp_path):
    probe.check_rollback(
        of_type(tmp_path, "dbrx", attn_config={"rope_theta": 5e5, "kv_n_heads": 8, "clip_qkv": 8.0}), "draft"
    )


def test_a_cache_that_loses_a_token_is_called_recurrent(tmp_path, monkeypatch):
    monkeypatch.setattr(probe, "Session", OneTooMany)
    said = r"^LlamaForCausalLM: with its cache, passes over several tokens or taking tokens back are not exact"
    with pytest.raises(Unsupported, match=said):
        probe.check_rollback(of_type(tmp_path, "llama", vocab_size=59), "target")


def test_a_copy_that_stays_large_is_built(monkeypatch):
    from transformers import CONFIG_MAPPING

    monkeypatch.setattr(shrink, "LIMIT", 1000)
    with pytest.raises(ValueError, match="its small copy still has"):
        shrink.tiny(CONFIG_MAPPING["llama"]())


def test_layers_that_share_keys_and_lists_of_layers_come_apart():
    from transformers import CONFIG_MAPPING

    config = CONFIG_MAPPING["gemma3n_text"]()
    small = shrink.shrink(config)
    kinds = list(small.layer_types)
    assert (
        len(kinds) == small.num_hidden_layers == len(small.intermediate_size) == len(small.activation_sparsity_pattern)
    )
    own = kinds[: -small.num_kv_shared_layers]
    assert 0 < small.num_kv_shared_layers < len(kinds)
    assert set(kinds[-small.num_kv_shared_layers :]) <= set(own) == set(config.layer_types)
    wide = shrink.shrink(CONFIG_MAPPING["gemma4_text"]())
    dims = {wide.layer_types[i]: layer.head_dim for i, layer in enumerate(wide.per_layer_config)}
    assert dims == {"sliding_attention": 16, "full_attention": 32}


def test_an_encoder_decodes_text_that_it_could_see_ahead(tmp_path):
    with pytest.raises(Unsupported, match="BertLMHeadModel is an encoder by its config"):
        runnable.check_class(of_type(tmp_path, "bert"))
    runnable.check_class(of_type(tmp_path, "bert", is_decoder=True))


@pytest.mark.parametrize("kind", ["bloom", "gptj", "mpt", "xglm", "gpt_oss"])
def test_a_class_without_sdpa_is_found_out_by_loading(tmp_path, kind):
    folder = of_type(tmp_path, kind)
    with pytest.raises(
        Unsupported, match=r'has no attention = "sdpa" in transformers: type --set engine.attention=eager'
    ):
        runnable.check_class(folder, "sdpa")
    runnable.check_class(folder, "eager")


@pytest.mark.parametrize("wrong", [{"num_hidden_layers": "four"}, {"num_attention_heads": 0}, {"hidden_size": None}])
def test_a_config_that_transformers_refuses_ends_in_a_traceback(folder_of, tmp_path, wrong):
    config = json.loads((folder_of("llama") / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, **wrong}))
    with pytest.raises(ModelError, match=r"^transformers does not accept [^\n]+config\.json [^\n]+$"):
        runnable.check_class(tmp_path)


def test_one_config_is_probed_again_for_every_arm(tmp_path, monkeypatch):
    folder = of_type(tmp_path, "llama", vocab_size=61)
    probe.check_rollback(folder, "draft")
    monkeypatch.setattr(probe, "rollback_error", lambda *_: pytest.fail("probed twice"))
    probe.check_rollback(folder, "draft")


def test_the_shrunken_copy_has_lost_a_kind_of_layer(folder_of):
    from transformers import CONFIG_MAPPING, AutoConfig

    small = shrink.shrink(AutoConfig.from_pretrained(folder_of("hybrid")))
    assert set(small.layer_types) == {"linear_attention", "full_attention"}
    assert len(small.layer_types) == small.num_hidden_layers == 3
    window = shrink.shrink(AutoConfig.from_pretrained(folder_of("window")))
    # The probe's text is longer than these, so windows and chunks are reached.
    assert window.sliding_window == 6
    assert shrink.shrink(CONFIG_MAPPING["llama4_text"]()).attention_chunk_size == 6
    latent = shrink.shrink(CONFIG_MAPPING["deepseek_v3"]())
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
    model = shrink.tiny(tiny.make(kind).config)
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
    shrink.tiny(config)
    assert torch.equal(torch.get_rng_state(), before)
