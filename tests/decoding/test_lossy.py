"""The lossy rule: against a plain twin on probabilities, at its two ends, and kept apart from the exact rules."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import partial
from typing import Any, get_args

import numpy as np
import pytest
import torch
import toy
from toy_enumeration import Outcome, by_code, text_law

import tiny_models as tiny
from specq.core.errors import ConfigError
from specq.core.types import EXACT_RULES, LOSSY_RULES, RULES, DraftSpec, Prompt, Rule, Sampling
from specq.decoding import law, rules
from specq.decoding.compiled import CompiledSession
from specq.decoding.drafters import Proposal
from specq.decoding.drafters.chain import ModelDrafter
from specq.decoding.loop import decode
from specq.decoding.request import Request
from specq.decoding.session import Session

one_thread = pytest.fixture(autouse=True, scope="module")(toy.one_thread)

LOSSY: Rule = "lossy_threshold"
PAIR = toy.toy(6, spread=1.0, apart=1.0)
NEW, K = 40, 4


def softmax(scores: Sequence[float]) -> list[float]:
    top = max(scores)
    weights = [math.exp(score - top) for score in scores]
    return [weight / sum(weights) for weight in weights]


def after(table: torch.Tensor, ids: Sequence[int], penalty: float, temperature: float = 1.0) -> list[float]:
    """The law of the next token in plain Python: repetition penalty, temperature, softmax."""
    scores = [float(score) for score in table[ids[-2], ids[-1]]]
    for token in set(ids):
        scores[token] = scores[token] / penalty if scores[token] > 0 else scores[token] * penalty
    return softmax([score / temperature for score in scores])


def best(p: Sequence[float]) -> int:
    return max(range(len(p)), key=lambda token: (p[token], -token))


def twin(threshold: float, penalty: float = 1.0) -> tuple[list[int], list[int]]:
    """The text at temperature 0 and what each step accepted, by the definition."""
    ids, counts = [*toy.PROMPT], []
    ids.append(best(after(PAIR.target, ids, penalty)))
    end = len(toy.PROMPT) + NEW
    while len(ids) < end:
        proposed: list[int] = []
        for _ in range(min(K, end - len(ids) - 1)):
            proposed.append(best(after(PAIR.draft, [*ids, *proposed], penalty)))
        accepted = 0
        for token in proposed:
            p = after(PAIR.target, ids, penalty)
            if p[token] < threshold * max(p):
                break
            ids.append(token)
            accepted += 1
        ids.append(best(after(PAIR.target, ids, penalty)))
        counts.append(accepted)
    return ids[len(toy.PROMPT) :], counts


def loop(threshold: float, penalty: float = 1.0, make: Any = Request) -> tuple[list[int], list[int]]:
    sampling = Sampling(max_new_tokens=NEW, repetition_penalty=penalty)
    one = make(
        prompt=Prompt(id="toy", ids=toy.PROMPT),
        sampling=sampling,
        eos_ids=(),
        tokenizer=toy.Letters(),
        rule=LOSSY,
        threshold=threshold,
    )
    toy.run(PAIR, one, K)
    return one.new_ids, [step.accepted for step in one.steps]


@pytest.mark.parametrize("penalty", [1.0, 1.4])
@pytest.mark.parametrize("threshold", [0.03, 0.2, 0.5, 0.9])
def test_the_loop_accepts_another_token_than_the_definition(threshold: float, penalty: float) -> None:
    assert loop(threshold, penalty) == twin(threshold, penalty)


def test_thresholds_all_come_to_one_text() -> None:
    # Else the comparison with the twin would see nothing.
    assert len({tuple(twin(threshold)[0]) for threshold in (0.03, 0.2, 0.5, 0.9)}) >= 3


class OnLogits(Request):
    """Compares logits where probabilities are meant."""

    def _verify_lossy(self, threshold: float, proposal: Proposal, text: Any, logits: Any) -> tuple[int, int]:
        scores = self.warper.scores(text, logits)
        n, x = torch.tensor([len(proposal.ids)]), torch.tensor([proposal.ids], dtype=torch.long)
        found = rules.lossy_threshold_greedy(scores[None], scores.argmax(dim=-1)[None], x, n, threshold)
        return int(found.accepted), int(found.token)


class OnDraft(Request):
    """Holds the threshold against the draft's law in place of the target's."""

    def _verify_lossy(self, threshold: float, proposal: Proposal, text: Any, logits: Any) -> tuple[int, int]:
        at = len(text) - len(proposal.ids)
        rows = torch.stack([PAIR.draft[text[i - 2], text[i - 1]] for i in range(at, len(text) + 1)])
        n, x = torch.tensor([len(proposal.ids)]), torch.tensor([proposal.ids], dtype=torch.long)
        found = rules.lossy_threshold_greedy(rows.softmax(dim=-1)[None], logits.argmax(dim=-1)[None], x, n, threshold)
        return int(found.accepted), int(found.token)


@pytest.mark.parametrize("planted", [OnLogits, OnDraft])
def test_a_planted_threshold_on_logits_or_on_the_draft_passes_for_the_rule(planted: Any) -> None:
    assert any(loop(threshold, make=planted) != twin(threshold) for threshold in (0.2, 0.5))


def test_sampled_text_is_not_made_by_the_definition() -> None:
    threshold, sampling = 0.4, Sampling(temperature=1.3, max_new_tokens=12)
    rng = np.random.default_rng(5)
    for seed in range(30):
        one = toy.request(Sampling(temperature=1.3, max_new_tokens=12, seed=seed), LOSSY, threshold=threshold)
        script = [[int(token) for token in rng.integers(0, PAIR.words, 3)] for _ in range(12)]
        waiting = iter(script)

        class Scripted:
            def start(self, *_: Any) -> None: ...
            def commit(self, *_: Any) -> None: ...
            def propose(self, ids: Any, k: int, waiting: Any = waiting) -> Proposal:
                return Proposal(next(waiting)[:k], None)

        decode(one, toy.ToySession(PAIR.target), Scripted(), 3)  # type: ignore[arg-type]
        token = rules.draw  # The draw itself has tests of its own; which law it is made from is what counts here.
        streams = type(one.streams)(seed)
        ids, waiting = [*toy.PROMPT], iter(script)
        while len(ids) < len(toy.PROMPT) + 12:
            left = len(toy.PROMPT) + 12 - len(ids) - 1
            first = len(ids) == len(toy.PROMPT)
            for x in [] if first or left < 1 else next(waiting)[: min(3, left)]:
                p = after(PAIR.target, ids, 1.0, sampling.temperature)
                if p[x] < threshold * max(p):
                    break
                ids.append(x)
            p = after(PAIR.target, ids, 1.0, sampling.temperature)
            ids.append(int(token(torch.tensor([p]), torch.tensor([streams.token.random()]))))
        assert one.new_ids == ids[len(toy.PROMPT) :]


def test_towards_1_the_text_is_not_the_targets_own() -> None:
    plain, _ = loop_plain()
    assert loop(1 - 1e-6)[0] == plain
    assert loop(0.03)[0] != plain


def loop_plain() -> tuple[list[int], list[int]]:
    one = toy.request(Sampling(max_new_tokens=NEW), "greedy_draft")
    toy.run(PAIR, one, K)
    return one.new_ids, [step.accepted for step in one.steps]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_towards_0_a_proposal_is_refused(temperature: float) -> None:
    one = toy.request(Sampling(temperature=temperature, max_new_tokens=NEW), LOSSY, threshold=1e-30)
    toy.run(PAIR, one, K)
    assert all(step.accepted == step.proposed for step in one.steps)
    assert len(one.steps) == -(-(NEW - 1) // (K + 1))


def test_a_token_that_truncation_cut_is_accepted_by_a_tiny_threshold() -> None:
    p = torch.tensor([[[0.0, 1.0, 0.0], [0.2, 0.3, 0.5]]])
    u = torch.tensor([0.5], dtype=torch.float64)
    for threshold in (1e-300, 0.5):
        found = rules.lossy_threshold(p, torch.tensor([[0]]), torch.tensor([1]), threshold, u)
        assert (int(found.accepted), int(found.token)) == (0, 1)


def test_padding_changes_a_row() -> None:
    rng = torch.Generator().manual_seed(3)
    p = torch.randn(60, 5, 6, generator=rng).softmax(dim=-1)
    x, n = torch.randint(0, 6, (60, 4), generator=rng), torch.arange(60) % 5
    u = torch.rand(60, generator=rng, dtype=torch.float64)
    found = rules.lossy_threshold(p, x, n, 0.3, u)
    for row, length in enumerate(n.tolist()):
        one = slice(row, row + 1)
        alone = rules.lossy_threshold(p[one, : length + 1], x[one, :length], n[one], 0.3, u[one])
        assert (int(alone.accepted), int(alone.token)) == (int(found.accepted[row]), int(found.token[row]))


def test_a_lossy_rule_is_listed_with_the_exact_ones() -> None:
    assert not set(EXACT_RULES) & set(LOSSY_RULES)
    assert (*EXACT_RULES, *LOSSY_RULES) == RULES == get_args(Rule)
    assert all("lossy" in rule for rule in LOSSY_RULES)
    assert not [rule for rule in EXACT_RULES if "lossy" in rule]
    assert all(DraftSpec(method="lookup", k=2, rule=rule).lossy == (rule in LOSSY_RULES) for rule in RULES)


def test_the_law_tests_of_the_exact_rules_let_the_lossy_one_through() -> None:
    at, threshold = toy.tree(toy.toy(4), toy.SAMPLINGS["T=1.0 none"], 3), 0.5
    p, q = at.p.double().numpy(), at.q.double().numpy()

    def by_definition(node: int, n: int) -> list[Outcome]:
        if n == 0:
            return [(0, at.child(node, v), p[node, v]) for v in range(at.words)]
        stays = p[node] >= threshold * p[node].max()
        out = [(0, at.child(node, v), q[node][~stays].sum() * p[node, v]) for v in range(at.words)]
        for v in np.flatnonzero(stays):
            out += [(a + 1, end, q[node, v] * m) for a, end, m in by_definition(at.child(node, v), n - 1)]
        return out

    found = text_law(at, by_code(at, LOSSY, verify=partial(rules.verify, threshold=threshold)), 2, 3)
    assert found == pytest.approx(text_law(at, by_definition, 2, 3), abs=1e-6)
    assert found != pytest.approx(at.law(3), abs=1e-2)


@pytest.mark.parametrize("rule", LOSSY_RULES)
def test_a_lossy_rule_is_given_the_law_of_an_exact_one(rule: Rule) -> None:
    with pytest.raises(ValueError, match="a lossy rule has no law given the text"):
        law.survival(rule, np.ones(3), np.ones(3), np.ones(3), 0, 2)


@pytest.mark.parametrize("threshold", [0.0, 1.0, -0.2, 7.0, math.nan])
def test_a_threshold_out_of_range_decodes(threshold: float) -> None:
    with pytest.raises(ConfigError, match="allowed is above 0 and below 1"):
        loop(threshold)


def test_a_rule_with_a_key_of_another_decodes() -> None:
    with pytest.raises(ConfigError, match='threshold is missing: rule = "lossy_threshold" needs one'):
        toy.request(Sampling(), LOSSY)
    for rule in EXACT_RULES:
        with pytest.raises(ConfigError, match=f'threshold = 0.5: rule = "{rule}" is exact and has none'):
            rules.check_threshold(rule, 0.5)


def test_compiled_passes_change_a_lossy_text() -> None:
    model, near = (tiny.make("llama", num_hidden_layers=1, noise=noise) for noise in (0.0, 0.3))
    texts = []
    for session in (Session(model), CompiledSession(model, (1, 4), backend="eager")):
        one = Request(
            prompt=tiny.prompt("the cat and the cat and "),
            sampling=Sampling(max_new_tokens=30, ignore_eos=True),
            eos_ids=(),
            tokenizer=tiny.tokenizer(),
            rule=LOSSY,
            threshold=0.2,
        )
        decode(one, session, ModelDrafter(Session(near, keep="everything"), sampled=True, vocabulary=tiny.V), 3)
        texts.append((one.new_ids, [step.accepted for step in one.steps]))
    assert texts[0] == texts[1]
