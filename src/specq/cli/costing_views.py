"""What `specq cost` prints: the request, its bill, its savings, its hours, and what an answer costs either way."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

from rich.console import RenderableType

from specq.core.nouns import counted
from specq.lab import cost
from specq.lab.cost_answer import AnswerPrice
from specq.lab.cost_found import Cost
from specq.lab.cost_time import HOURS_A_MONTH, BreakEven, Hosted
from specq.lab.cost_words import LEVERS, TOKENS, amount, count, hours, percent, price, seconds
from specq.report.tables import Grid, Paragraph
from specq.report.words import NOTHING, number, ratio, share

_WAYS = {"tokens": "by tokens", "busy_hours": "by busy hours", "rented": "by whole machines"}


def shown(found: Cost) -> Iterator[RenderableType]:
    """All tables, then what is to be known."""
    yield from _request(found)
    if found.bill is not None:
        yield from _bill(found)
        yield from _savings(found)
    yield from _times(found)
    yield from _hosted(found)
    yield from _answers(found)
    yield from _break_even(found)
    for said in found.speculation:
        yield from (_text(said), "")
    yield from (_text(f"note: {note}") for note in found.notes)


def _text(text: str) -> Paragraph:
    return Paragraph(text=text)


def _grid(columns: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> Iterator[RenderableType]:
    yield from (Grid(columns=columns, rows=tuple(rows), right=True), "")


def _request(found: Cost) -> Iterator[RenderableType]:
    """The four rows of a request and the prices beside those that have one."""
    work, prices, money = found.workload, found.prices, found.currency
    priced = ("", "", "") if prices is None else (prices.input_price, prices.cached_price, prices.output_price)
    of_input, of_cached, of_output = (one if isinstance(one, str) else price(one) for one in priced)
    rows = [
        ("prompt tokens", count(work.prompt_tokens), of_input),
        ("cached share", percent(work.cached_share), of_cached),
        ("output tokens", count(work.output_tokens), of_output),
        ("requests a month", count(work.requests_per_month), ""),
    ]
    if prices is None:
        yield from _grid(("request", "value"), (row[:2] for row in rows))
    else:
        if prices.cache_write_price is not None:
            rows.insert(2, ("written share", percent(work.written), price(prices.cache_write_price)))
        yield from _grid(("request", "value", f"{money} a million tokens"), rows)
    for sheet in found.sheets:
        yield _text(f"Prices: {sheet.model}, {sheet.date}, {sheet.source} ({sheet.file})")
    yield from (_text(f"warning: {said}") for said in found.warnings)
    if found.sheets or found.warnings:
        yield ""


def _bill(found: Cost) -> Iterator[RenderableType]:
    bill, before = found.bill, found.uncached_bill
    assert bill is not None
    assert before is not None
    most = max(bill.amount, before.amount)

    def of(part: float, whole: float) -> str:
        return share(part / whole) if whole else NOTHING

    rows = [
        (
            TOKENS[row.name],
            count(row.tokens),
            of(row.tokens, bill.tokens),
            price(row.price),
            amount(row.amount, most),
            of(row.amount, bill.amount),
        )
        for row in bill.rows
    ]
    rows.append(
        ("together", count(bill.tokens), share(1.0), "", amount(bill.amount, most), of(bill.amount, bill.amount))
    )
    rows.append(("without the cache", "", "", "", amount(before.amount, most), ""))
    heads = ("by tokens", "tokens a month", "share", "a million", f"{found.currency} a month", "share")
    yield from _grid(heads, rows)
    saved = before.amount - bill.amount
    cached = "" if not found.workload.cached_share else f", {share(before.input_share_of_bill)} without the cache"
    told = (
        f"Input is {share(bill.input_share_of_tokens)} of the tokens and {share(bill.input_share_of_bill)} of the bill"
    )
    yield _text(f"{told}{cached}.")
    if found.workload.cached_share:
        verb = "saves" if saved >= 0 else "costs"
        yield _text(
            f"The cache {verb} {amount(abs(saved), most)} {found.currency} a month, {of(abs(saved), before.amount)}."
        )
    yield ""


def _savings(found: Cost) -> Iterator[RenderableType]:
    """From the uncached bill, and from the present one where that is another."""
    bill, before = found.bill, found.uncached_bill
    assert bill is not None
    assert before is not None
    both = [("present", False, bill.amount)]
    if found.workload.cached_share:
        both.insert(0, ("uncached", True, before.amount))
    for name, uncached, start in both:
        of = f"{amount(start, before.amount)} {found.currency}"
        rows = [
            (f"{rank}. {_lever(one.lever, found, uncached)}", amount(one.saves, before.amount), share(one.share))
            for rank, one in enumerate(found.savings(uncached=uncached), start=1)
        ]
        yield from _grid((f"from the {name} bill, {of}", f"saves, {found.currency} a month", "of it"), rows)


def _lever(name: str, found: Cost, uncached: bool) -> str:
    if name in LEVERS:
        return LEVERS[name]
    now = "" if uncached or not found.workload.cached_share else f" (now {percent(found.workload.cached_share)})"
    return f"a {share(cost.HIT_RATE)} hit rate{now}"


def _times(found: Cost) -> Iterator[RenderableType]:
    times, work = found.times, found.workload
    if times is None:
        return
    least, head = ("at least ", "seconds, at least") if found.is_lower_bound else ("", "seconds")
    rows = [
        ("prefill", seconds(times.prefill_s), share(times.prefill_share)),
        ("decode", seconds(times.decode_s), NOTHING if times.prefill_share is None else share(1 - times.prefill_share)),
        ("together", seconds(times.e2e_s), ""),
    ]
    if work.cached_share:
        rows.append(("without the cache", seconds(times.uncached_prefill_s + times.decode_s), ""))
    yield from _grid(("a request", head, "of it"), rows)
    yield _text(
        f"A request takes {least}{number(times.e2e_s)} s, {share(times.prefill_share)} of it prefill; "
        f"{count(work.requests_per_month)} requests take {least}{hours(times.machine_hours)} machine-hours a month."
    )
    if work.cached_share:
        verb = "saves" if times.cache_saves_s >= 0 else "costs"
        yield _text(f"The cache {verb} {number(abs(times.cache_saves_s))} s a request.")
    yield ""
    rows = [
        (f"{rank}. {_lever(one.lever, found, uncached=False)}", hours(one.saves), share(one.share))
        for rank, one in enumerate(found.hours_saved(), start=1)
    ]
    head = f"from the present {hours(times.machine_hours)} machine-hours"
    yield from _grid((head, "saves, hours a month", "of it"), rows)


def _hosted(found: Cost) -> Iterator[RenderableType]:
    own, times, money = found.hosted, found.times, found.currency
    if own is None or times is None:
        return
    rows = [
        (
            TOKENS[row.name],
            count(row.tokens),
            hours(row.hours),
            price(row.price),
            amount(row.amount, own.rented_amount),
        )
        for row in own.rows
    ]
    busy, rented = (amount(one, own.rented_amount) for one in (own.busy_amount, own.rented_amount))
    least = "at least " if found.is_lower_bound else ""
    rows.append((f"{least}busy hours", "", hours(times.machine_hours), "", busy))
    all_month = own.machines * HOURS_A_MONTH
    rows.append((f"{least}{counted(own.machines, 'machine')}, all month", "", hours(all_month), "", rented))
    head = f"own machine, {price(own.per_hour)} {money} an hour"
    yield from _grid((head, "tokens a month", "hours", "a million", f"{money} a month"), rows)


def _answers(found: Cost) -> Iterator[RenderableType]:
    if not found.answers:
        return
    money, right = found.currency, found.right
    heads = [f"paid, {money}", "a month", "an answer"]
    if right is not None:
        heads.append("a correct answer")
    if right is not None and right.n is not None:
        heads.append("95 %")
    most = max(one.amount for one in found.answers)
    yield from _grid(tuple(heads), (_answer(one, most, len(heads)) for one in found.answers))
    if right is not None:
        ends = "" if right.low is None else f" ({share(right.low)} to {share(right.high)}, n = {right.n})"
        yield from (_text(f"Right are {percent(right.share)} of the answers{ends}."), "")


def _answer(one: AnswerPrice, most: float, columns: int) -> tuple[str, ...]:
    low, high = number(one.low), "any" if one.high is None else number(one.high)
    cells = (
        _WAYS[one.way],
        amount(one.amount, most),
        number(one.price_per_answer),
        number(one.price_per_correct_answer),
        f"{low} to {high}",
    )
    return cells[:columns]


def _break_even(found: Cost) -> Iterator[RenderableType]:
    even, own, bill, money = found.break_even, found.hosted, found.bill, found.currency
    if even is None or own is None or bill is None:
        return
    most = max(own.rented_amount, bill.amount)
    rented, by_tokens, busy = (amount(one, most) for one in (own.rented_amount, bill.amount, own.busy_amount))
    machines = f"{counted(own.machines, 'machine')} all month"
    yield _text(
        f"At {count(found.workload.requests_per_month)} requests a month {machines} cost {rented} {money} against "
        f"{by_tokens} by tokens; by busy hours alone it would be {busy}. At {price(even.per_hour)} {money} an hour "
        f"{machines} and the bill by tokens are the same."
    )
    yield from (_text(_requests_to_pay(found, even, own)), "")


def _requests_to_pay(found: Cost, even: BreakEven, own: Hosted) -> str:
    month = f"{amount(HOURS_A_MONTH * own.per_hour)} {found.currency} for {HOURS_A_MONTH:,.0f} hours"
    if even.requests is None:
        return f"No break-even: the bill by tokens is nothing, a machine takes {month}."
    requests = f"{count(math.ceil(even.requests))} requests a month"
    if own.capacity is None or even.times_as_fast is None:
        return f"Break-even: {requests} pay a machine ({month})."
    capacity = count(math.floor(own.capacity))
    if even.times_as_fast <= 1:
        return f"Break-even: {requests} pay a machine ({month}), and it serves up to {capacity}."
    return (
        f"No break-even at these rates: {requests} would pay a machine ({month}), and it serves up to {capacity}; it "
        f"would have to be {ratio(even.times_as_fast)} times as fast."
    )
