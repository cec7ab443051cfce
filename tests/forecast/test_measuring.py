"""What is measured for a cost curve: which steps count, after how many tokens."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar

import pytest

from specq.core.types import DraftSpec, Generation, Prompt, Sampling, Step
from specq.forecast import measuring, places
from specq.forecast.cost import Curve


@dataclass
class FakeDecoder:
    """Decodes at once and says what each step would have taken: a text's first step is slow, long contexts are too."""

    k: int
    right: bool = False
    drift: float = 0.0
    dips: bool = False
    heavy: float = 1.0
    notes: ClassVar[tuple[str, ...]] = ()
    told: int = 0
    clock: list[int] = field(default_factory=list)
    seen: list[tuple[int, tuple[int, ...], Sampling]] = field(default_factory=list)

    def generate(
        self, prompts: Sequence[Prompt], sampling: Sampling, *, on_step: Callable[[Step], None]
    ) -> list[Generation]:
        made = []
        for prompt in prompts:
            self.seen.append((self.k, prompt.ids, sampling))
            self.clock.append(0)
            left, steps, context = sampling.max_new_tokens - 1, list[Step](), len(prompt.ids) + 1
            while left > 0:
                size = min(self.k, left - 1)
                emitted = size + 1 if self.right else 1
                slow = (100.0 if not steps else 1.0) * (1 + self.drift * len(self.clock))
                steps.append(
                    Step(
                        context=context,
                        proposed=size,
                        accepted=emitted - 1,
                        emitted=emitted,
                        draft_s=0.1 * size * slow,
                        verify_s=(1 + (0.01 if size < 4 or not self.dips else -0.05) * size + len(prompt.ids) // 100)
                        * (self.heavy if size else 1)
                        * slow,
                        sample_s=0.02 * slow,
                        rest_s=0.03 * slow,
                    )
                )
                left, context = left - emitted, context + emitted
                self.told += 1
                on_step(steps[-1])
            made.append(
                Generation(
                    prompt_id=prompt.id,
                    ids=tuple(range(sampling.max_new_tokens)),
                    text="",
                    finish="length",
                    ttft_s=len(prompt.ids) / 1000,
                    e2e_s=0.0,
                    steps=tuple(steps),
                )
            )
        return made


class FakeTarget:
    def __init__(self, *, right: bool = False, drift: float = 0.0, dips: bool = False, heavy: float = 1.0) -> None:
        """`heavy`: by what a draft makes the target's passes slower.

        `drift`: by what share of the first text's seconds each text is slower than the one before.

        `dips`: a pass over 5 tokens takes less than one over 2.
        """
        self.dips, self.heavy = dips, heavy
        self.right, self.drift, self.decoders, self.clock = right, drift, list[FakeDecoder](), list[int]()
        self.layers = list[int | None]()
        self.specs: list[DraftSpec | None] = []

    def decoder(self, draft: DraftSpec | None) -> FakeDecoder:
        self.layers.append(draft.layers if draft else None)
        self.specs.append(draft)
        self.decoders.append(
            FakeDecoder(k=draft.k if draft else 0, right=self.right, drift=self.drift, dips=self.dips, clock=self.clock)
        )
        # Only the target's first layer, which measures its passes, leaves them as they are.
        self.decoders[-1].heavy = self.heavy if draft is not None and draft.layers != 1 else 1.0
        return self.decoders[-1]

    def read(self) -> list[tuple[int, ...]]:
        return [ids for one in self.decoders for _, ids, _ in one.seen]


def prompt(tokens: int, start: int = 1) -> Prompt:
    return Prompt(id=f"p{start}", ids=tuple(range(start, start + tokens)))


def measured(method: str, prompt_ids: int = 6, **how: Any) -> tuple[Curve, FakeTarget]:
    target: Any = FakeTarget()
    draft = DraftSpec(method=method, k=4)  # type: ignore[arg-type]
    sampling = Sampling(stop=("x",), min_new_tokens=3, max_new_tokens=500)
    how = {"grid": (1, 4), "seconds": 0.0} | how
    return measuring.measure(target, {"d": draft}, [prompt(prompt_ids)], sampling, **how)["d"], target


def test_first_steps_are_left_out_and_each_k_is_measured_beside_plain_steps() -> None:
    found, target = measured("early_exit")
    assert found.plain.step_s == pytest.approx(1.05)
    assert [(one.proposed, one.step_s) for one in found.points if one.proposed in (1, 4)] == [
        (1, pytest.approx(0.1 + 1.01 + 0.05)),
        (4, pytest.approx(0.4 + 1.04 + 0.05)),
    ]
    plain = next(one for one in target.decoders if one.k == 0)
    # One round of two k: a plain text before, between and after them; one text of each k warms up.
    assert len(plain.seen) == 3
    assert [len(one.seen) for one in target.decoders if one.k] == [2, 2]


def test_the_kernel_that_a_draft_lacks_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    assert measured("early_exit")[0].no_kernel == ""
    told = "210 layers: no kernel here: the kernels compute in bfloat16, not float32"
    monkeypatch.setattr(FakeDecoder, "notes", (told,))
    assert measured("model")[0].no_kernel == "the kernels compute in bfloat16, not float32"


def test_a_draft_that_is_never_right_takes_no_more_steps_than_one_that_always_is() -> None:
    found, target = measured("early_exit")
    # Two texts of each k, one of which warms up; a first step warms up too.
    assert {one.k: one.told for one in target.decoders if one.k} == {1: 2 * (1 + 5), 4: 2 * (1 + 3)}
    # Texts are counted: one of each k, and three plain ones between.
    assert {one.proposed: one.n for one in found.points} == {1: 1, 4: 1}
    assert found.plain.n == 3


def test_a_machine_that_slows_down_while_it_measures_moves_no_ratio() -> None:
    steady, _ = measured("early_exit")
    target: Any = FakeTarget(drift=0.25)
    sampling = Sampling(max_new_tokens=500)
    drafts = {"d": DraftSpec(method="early_exit", k=4)}
    found = measuring.measure(target, drafts, [prompt(6)], sampling, grid=(1, 4), seconds=0.0)["d"]
    assert found.plain.step_s > 1.5 * steady.plain.step_s
    for k in (1, 4):
        assert found.break_even(k) == pytest.approx(steady.break_even(k))


def test_the_targets_passes_are_measured_once_for_all_drafts() -> None:
    target: Any = FakeTarget()
    drafts = {name: DraftSpec(method="early_exit", layers=4, k=4) for name in ("a", "b")}
    prober, told = DraftSpec(method="early_exit", layers=1, k=1), list[str]()
    found = measuring.measure(
        target,
        drafts,
        [prompt(6)],
        Sampling(max_new_tokens=500),
        grid=(1, 4),
        seconds=0.0,
        prober=prober,
        say=told.append,
    )
    assert target.layers == [None, 1, 1, None, 4, 4, None, 4, 4]
    assert [line.rsplit(" in ", 1)[0].removeprefix("cost curves: ") for line in told] == [
        *("the target's passes, for all drafts", "the target's passes, for all drafts: done"),
        *("draft 1 of 2, a", "draft 1 of 2, a: done", "draft 2 of 2, b", "draft 2 of 2, b: done"),
    ]
    steady, _ = measured("early_exit")
    for one in found.values():
        assert [point.step_s for point in one.points] == [pytest.approx(point.step_s) for point in steady.points]


def test_only_a_draft_with_weights_of_its_own_makes_the_targets_passes_slower() -> None:
    target: Any = FakeTarget(heavy=1.3)
    methods = {"model": {"model": "small"}, "lookup": {}, "early_exit": {"layers": 4}}
    drafts: dict[str, DraftSpec] = {name: DraftSpec(method=name, k=4, **how) for name, how in methods.items()}  # type: ignore[arg-type]
    prober, sampling = DraftSpec(method="early_exit", layers=1, k=1), Sampling(max_new_tokens=500)
    found = measuring.measure(target, drafts, [prompt(6)], sampling, grid=(1, 4), prober=prober)
    passes = {name: one.points[-1].verify_s for name, one in found.items()}
    assert passes == {name: pytest.approx(1.04 * (1.3 if name == "model" else 1)) for name in methods}


def test_stops_cannot_cut_what_is_measured_short() -> None:
    _, target = measured("early_exit")
    for decoder in target.decoders:
        for _, _, sampling in decoder.seen:
            assert (sampling.ignore_eos, sampling.stop, sampling.min_new_tokens) == (True, (), 0)


def test_a_prompt_at_the_end_of_the_context_is_cut_rather_than_refused() -> None:
    target: Any = FakeTarget()
    draft, sampling = DraftSpec(method="early_exit", k=4), Sampling(max_new_tokens=10)
    measuring.measure(target, {"d": draft}, [prompt(100)], sampling, grid=(1, 4), seconds=0.0, limit=110)
    for decoder in target.decoders:
        for _, ids, own in decoder.seen:
            assert len(ids) + own.max_new_tokens <= 110
    assert {len(ids) for ids in target.read()} == {100, 110 - places.room(1), 110 - places.room(4)}


@pytest.mark.parametrize("limit", [None, 200])
def test_a_prompt_is_cut_although_the_context_has_room_for_it(limit: int | None) -> None:
    """Answers of two tokens, and a context of 200: the steps are measured after the whole prompt."""
    target: Any = FakeTarget()
    draft, sampling = DraftSpec(method="early_exit", k=4), Sampling(max_new_tokens=2)
    found = measuring.measure(target, {"d": draft}, [prompt(100)], sampling, grid=(1, 4), seconds=0.0, limit=limit)
    assert {len(ids) for ids in target.read()} == {100}
    assert (found["d"].prefill_tokens, found["d"].plain.context) == (100, 104)


@pytest.mark.parametrize("tokens", [6, 7, 1])
def test_a_lookup_reads_a_prompt_that_repeats_itself_at_its_length(tokens: int) -> None:
    _, target = measured("lookup", tokens)
    assert {len(ids) for ids in target.read()} == {tokens}
    assert len(set(target.read()[0])) == (tokens + 1) // 2


def test_each_context_is_measured_by_itself_on_text_of_the_prompts_and_knows_where_it_lies() -> None:
    found, target = measured("early_exit", contexts=(3, 250), grid=(1, 2, 4))
    near, far = found.depths
    assert [len(ids) for ids in target.read()].count(3) == 3 + 3 + 4
    assert {id for ids in target.read() for id in ids} == set(range(1, 7))
    assert (near.prefill_tokens, far.prefill_tokens) == (3, 250)
    assert (near.plain.context, far.plain.context, far.context) == (7, 254, 254)
    assert (near.plain.step_s, far.plain.step_s) == (pytest.approx(1.05), pytest.approx(3.05))
    # The far context costs a prefill a k: only the ends of the grid are measured there.
    assert [[one.proposed for one in depth.points] for depth in (near, far)] == [[1, 2, 4], [1, 4]]
    assert far.points[1].step_s == pytest.approx(0.4 + 3.04 + 0.05)
    assert found.context == (7 + 254) // 2
    assert found.plain.step_s == pytest.approx(1.05 + 2 * (130 - 7) / (254 - 7))


def test_neighbouring_contexts_keep_their_order_however_far_the_steps_of_a_draft_that_is_right_go() -> None:
    target: Any = FakeTarget(right=True)
    drafts = {"d": DraftSpec(method="early_exit", k=8)}
    found = measuring.measure(
        target, drafts, [prompt(20)], Sampling(), grid=(1, 2, 4, 8), contexts=(30, 31), seconds=0.0
    )["d"]
    assert [depth.context for depth in found.depths] == [34, 35]
    assert found.depths[0].points[3].context > 34


def test_a_context_that_was_asked_for_is_not_cut_for_requests_that_are_shorter_than_what_is_measured() -> None:
    target: Any = FakeTarget()
    draft, sampling = DraftSpec(method="early_exit", k=4), Sampling(max_new_tokens=2)
    found = measuring.measure(
        target, {"d": draft}, [prompt(20)], sampling, grid=(1, 4), contexts=(40,), seconds=0.0, middle=10
    )["d"]
    assert {len(ids) for ids in target.read()} == {40}
    assert (found.context, len(found.depths)) == (44, 1)


def test_the_targets_prefill_is_one_number_a_context_whichever_draft_it_took_turns_with() -> None:
    target: Any = FakeTarget()
    drafts = {"a": DraftSpec(method="early_exit", k=4), "b": DraftSpec(method="lookup", k=4)}
    found = measuring.measure(target, drafts, [prompt(20)], Sampling(), grid=(1,), contexts=(50, 201), seconds=0.0)
    told = [[(one.prefill_tokens, one.prefill_s) for one in curve.depths] for curve in found.values()]
    assert told == [[(50, pytest.approx(0.05)), (201, pytest.approx(0.201))]] * 2


def test_a_lookup_before_a_draft_is_measured_as_one_of_the_two() -> None:
    target: Any = FakeTarget()
    draft = DraftSpec(method="early_exit", k=4, layers=1, lookup_first=True)
    found = measuring.measure(target, {"d": draft}, [prompt(6)], Sampling(), grid=(1, 4), seconds=0.0)["d"]
    assert found.copies is not None
    assert [one.proposed for one in found.points] == [one.proposed for one in found.copies.points]
    asked = [spec for spec in target.specs if spec is not None]
    assert {(one.method, one.lookup_first) for one in asked} == {("early_exit", False), ("lookup", False)}
    # The lookup alone reads prompts that repeat themselves.
    assert {len(set(ids)) for ids in target.read()} == {3, 6}


def test_a_draft_that_stops_is_measured_where_it_stops_or_without_looking() -> None:
    target: Any = FakeTarget()
    draft = DraftSpec(method="early_exit", k=4, layers=1, stop_below=0.9)
    found = measuring.measure(target, {"d": draft}, [prompt(6)], Sampling(), grid=(1, 4), seconds=0.0)["d"]
    assert [one.proposed for one in found.points] == [1, 4]
    asked = [spec.stop_below for spec in target.specs if spec is not None]
    assert asked
    assert all(one is not None and 0 < one < 1e-9 for one in asked)
