"""A task of lm-eval's own on one arm, item by item.

The task makes requests and judges answers; the engine answers. lm-eval's evaluator is left out, for it makes one number
of all documents, and its caches, which do not ask which model they are of. Nothing is truncated.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from specq.core.errors import PromptError, RunFailed, Unsupported
from specq.engines.base import Decoder, LoadedTarget
from specq.evals.harness import Evaluated, OnJudge, nobody_listens, refuse_long
from specq.evals.judge import said
from specq.evals.metric import Answer, Continuation, Score, failed, quoted
from specq.evals.tasks import Task

if TYPE_CHECKING:
    from specq.evals.task_model import TaskLM


_ADVICE = "ask fewer examples, or set max_gen_toks lower in a YAML that includes the task's"


@dataclass(frozen=True, slots=True, kw_only=True)
class Length:
    """Tokens of a document's longest prompt, and of the longest with its answer.

    `all` is 0 for a whole text, which is read in windows.
    """

    prompt: int
    all: int


def evaluate_task(
    task: Task,
    target: LoadedTarget,
    decoder: Decoder,
    tokenizer: Any,
    *,
    batch_size: int = 8,
    context: int | None = None,
    places: Collection[int] | None = None,
    on_judge: OnJudge = nobody_listens,
) -> list[Evaluated]:
    """Every document of the task in its order, or those at some places from 0; named as in `task.ids`.

    A document's prompt, its examples too, is the same whichever others are evaluated. `context` is how many tokens the
    model takes, None where that is not known. Prompts must fit it with their answers; whole texts are scored in windows
    of it. `on_judge` is told each document before it is judged, for the task's own code may end the process.

    Raises:
        PromptError: prompts that are empty or do not fit, or that the chat template refuses.
        Unsupported: a chat template is asked and the model has none.
        NonFiniteLogits: the model returned NaN or infinite logits.
        RunFailed: the task's own code raises on a document or on the answers as a whole.
    """
    from specq.evals.adapter import place_name, place_of
    from specq.evals.task_build import undisturbed
    from specq.evals.task_model import TaskLM

    _need_template(task, tokenizer)
    model = TaskLM(target, decoder, tokenizer, batch_size=batch_size, window=context)
    with undisturbed():
        requests = [one for one in _requests(task, model) if places is None or one.doc_id in places]
        if not requests:
            return []
        refuse_long({name: one.all for name, one in _lengths(task, model, requests).items()}, context, _ADVICE)
        answers = getattr(model, requests[0].request_type)(requests)
        for request, answer in zip(requests, answers, strict=True):
            request.resps, request.filtered_resps = [answer], {}
        _filter(task, requests)
        of_document: dict[int, list[Any]] = defaultdict(list)
        for request in requests:
            of_document[request.doc_id].append(request)
        found = []
        for asked in of_document.values():
            on_judge(place_name(asked[0]))
            first, answered = model.asked[place_of(asked[0])], [model.asked[place_of(one)] for one in asked]
            found.append(
                Evaluated(
                    item=place_name(asked[0]),
                    prompt_ids=first.prompt.ids,
                    generation=first.generation,
                    answer=_answer(task, asked, [one.continuation_tokens for one in answered]),
                    score=_score(task, asked),
                )
            )
    return found


def lengths(task: Task, tokenizer: Any) -> tuple[Length, ...]:
    """How long each document is, examples too, in the task's order; nothing is loaded but the tokenizer.

    Raises:
        PromptError, Unsupported, RunFailed: as evaluate_task, for what is wrong before any answer.
    """
    from specq.evals.task_build import undisturbed
    from specq.evals.task_model import TaskLM

    _need_template(task, tokenizer)
    # No engine answers here: the model only writes prompts.
    nobody: Any = None
    model = TaskLM(nobody, nobody, tokenizer, batch_size=1, window=None)
    with undisturbed():
        found = _lengths(task, model, _requests(task, model))
    return tuple(found.get(name, Length(prompt=0, all=0)) for name in task.ids)


def _need_template(task: Task, tokenizer: Any) -> None:
    if task.chat_template and not tokenizer.chat_template:
        raise Unsupported(f'task "{task.name}": chat_template is asked and the model has none; set it to false')


def _requests(task: Task, model: TaskLM) -> list[Any]:
    """All of the task's requests, in the order of its documents; written once for all arms of one tokenizer."""
    built = task.built
    if built.prompts is None or built.prompts[0] is not model.tokenizer:
        built.set_fewshot_seed(task.fewshot_seed)
        try:
            built.build_all_requests(
                limit=task.items,
                cache_requests=False,
                apply_chat_template=task.chat_template,
                # As lm-eval does by default: each example is a turn of its own.
                fewshot_as_multiturn=task.chat_template,
                chat_template=model.apply_chat_template if task.chat_template else None,
            )
        except (PromptError, Unsupported):
            raise
        except (Exception, SystemExit) as error:  # templates and functions of a task may raise anything
            raise RunFailed(f'task "{task.name}": its documents cannot be written as prompts: {said(error)}') from error
        built.prompts = (model.tokenizer, list(built.instances), dict(model.templated))
    model.templated.update(built.prompts[2])
    return list(built.prompts[1])


def _lengths(task: Task, model: TaskLM, requests: Sequence[Any]) -> dict[str, Length]:
    from specq.evals.adapter import place_name

    rolling = task.output_type == "loglikelihood_rolling"
    bos = model.tokenizer.bos_token_id
    found: dict[str, Length] = {}
    for request in requests:
        name, text = place_name(request), str(request.args[0])
        if rolling:
            # Read in windows of the context, whatever that is.
            found[name] = Length(prompt=len(model.tok_encode(text, add_special_tokens=False)), all=0)
            continue
        if task.sampling is not None:
            if not text.strip():
                raise PromptError(f'item "{name}": the prompt is empty; leave the document out, or mend doc_to_text')
            head, more = model.tok_encode(text), task.sampling.max_new_tokens
        else:
            head, tail = model._encode_pair(text, request.args[1])
            more = len(tail)
        if bos is not None and head[:2] == [bos, bos]:
            raise PromptError(f'item "{name}": the prompt begins with two bos tokens; take one out of the task')
        before = found.get(name, Length(prompt=0, all=0))
        found[name] = Length(prompt=max(before.prompt, len(head)), all=max(before.all, len(head) + more))
    return found


def _filter(task: Task, requests: list[Any]) -> None:
    task.built._instances = requests
    try:
        task.built.apply_filters()
    except (Exception, SystemExit) as error:  # a filter of the user's own may raise anything
        raise RunFailed(f'task "{task.name}": its filters raise {said(error)}') from error


def _answer(task: Task, requests: Sequence[Any], tokens: Sequence[int]) -> Answer:
    """The text that was judged, or the texts that were scored: of multiple choice, the choices."""
    if task.sampling is not None:
        judged = requests[0].filtered_resps[task.reading.filter]
        return judged if isinstance(judged, str) else str(requests[0].resps[0])
    # Choices may be scored once more without the document; the first time counts here.
    choices = task.output_type == "multiple_choice"
    several = task.built.doc_to_choice(requests[0].doc) if choices else [one.args[-1] for one in requests]
    logprobs = [one.resps[0] if isinstance(one.resps[0], float) else one.resps[0][0] for one in requests]
    return tuple(
        Continuation(text=str(text), logprob=logprob, tokens=count)
        for text, logprob, count in zip(several, logprobs, tokens, strict=False)
    )


def _score(task: Task, requests: Sequence[Any]) -> Score:
    doc = requests[0].doc
    try:
        values = task.built.process_results(doc, [one.filtered_resps[task.reading.filter] for one in requests])
    except (Exception, SystemExit) as error:  # noqa: BLE001 - counted and shown with the item, which fails
        return failed(said(error))
    score = task.reading.score(values)
    wrong = task.reading.binary and score.value == 0
    return Score(value=0.0, why=f"right is {quoted(right(task.built, doc))}") if wrong else score


def right(built: Any, doc: Any) -> str:
    """What is right for a document, in words."""
    gold = built.doc_to_text(doc) if built.multiple_input else built.doc_to_target(doc)
    choices = built.doc_to_choice(doc) if built.config.doc_to_choice is not None else []
    several = gold if isinstance(gold, list) else [gold]
    return " or ".join(
        str(choices[one] if isinstance(one, int) and one in range(len(choices)) else one) for one in several
    )
