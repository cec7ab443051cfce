"""What is to be known before a priced month is used: old sheets, what nobody said, what is a bound, what drafts do."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date

from specq.lab import cost, cost_time
from specq.lab.cost_checks import option
from specq.lab.cost_found import Cost
from specq.lab.cost_words import amount, count, percent, price, seconds
from specq.report.words import ratio, share


def warnings(found: Cost, today: date) -> tuple[str, ...]:
    """What is likely wrong with the prices: sheets that are old, two prices that look swapped."""
    aged = [said for sheet in found.sheets if (said := sheet.aged(today)) is not None]
    prices = found.prices
    if prices is not None and prices.cached_price > prices.input_price:
        aged.append(
            f"cached_price {price(prices.cached_price)} is above input_price {price(prices.input_price)}: every token "
            "that the cache answers makes the bill larger; are the two swapped?"
        )
    return tuple(aged)


def notes(found: Cost) -> tuple[str, ...]:
    """What nobody said and what was taken for it, and what is a bound; one sentence each."""
    return (*_of_prices(found), *_of_writes(found), *_of_times(found), *_of_right(found))


def speculation(found: Cost) -> tuple[str, ...]:
    """What a draft can do to the bill by tokens, and to the hours of your own machines."""
    said = []
    if found.bill is not None:
        said.append(
            "Speculative decoding shows no saving on a bill by tokens: the same tokens are billed, whoever proposed "
            "them. It makes answers come sooner, and nothing cheaper."
        )
    times, own = found.times, found.hosted
    if times is not None and times.e2e_s:
        hours = found.workload.requests_per_month * times.decode_s / 3600
        worth = "" if own is None else amount(own.rows[-1].amount, own.rented_amount)
        paid = f", {worth} {found.currency} a month by busy hours," if worth else ""
        limit = times.decode_limit
        fast = "" if limit is None else f", and a request gets at most {ratio(limit)} times as fast"
        # Where seconds are a lower bound, so is what can be saved of them.
        bound = " of these hours, which are a lower bound" if found.is_lower_bound else ""
        said.append(
            f"On your own machines a draft shortens decoding alone: {share(times.decode_s / times.e2e_s)} of the hours "
            f"({count(round(hours))}){paid} is the most that it could save{bound}{fast}."
        )
    return tuple(said)


def _of_prices(found: Cost) -> Iterator[str]:
    prices, work, uncached = found.prices, found.workload, found.uncached_bill
    for sheet in found.sheets:
        for key in found.replaced:
            if key in sheet.prices:
                yield f"{key} was given, and takes the place of {price(sheet.prices[key])} in {sheet.file}"
    if prices is None or uncached is None:
        return
    if found.unsaid_cached_price and work.cached_share:
        yield (
            "no cached_price: cached tokens are billed as input, and the cache saves no money; "
            f"{option('cached_price')} says another"
        )
    if 0 < work.cached_share < 1 and prices.cache_write_price is None and prices.cached_price < prices.input_price:
        least, most = cost.half_prompt_span(work, prices)
        yield (
            f"a prompt that is cut is taken to keep its cached share; half of it saves from "
            f"{amount(least, uncached.amount)} {found.currency} (cached tokens go) to {amount(most, uncached.amount)} "
            "(others go) of the present bill"
        )
    if found.per_hour is not None and found.rates is None:
        yield (
            f"per_hour {price(found.per_hour)} is not used: hours need {option('prefill_tokens_per_s')} and "
            f"{option('decode_tokens_per_s')}"
        )


def _of_writes(found: Cost) -> Iterator[str]:
    prices, work = found.prices, found.workload
    if prices is None:
        return
    if prices.cache_write_price is None:
        if work.written_share:
            yield f"written_share changes nothing without a price of writes; {option('cache_write_price')}"
        return
    if not work.written:
        yield "no token is written to the cache, so its price is on no bill here"
    elif work.written_share is None and work.written:
        yield (
            f"nobody said how many tokens are written to the cache: counted are all that were not read from it, "
            f"{share(work.written)}, which is the most; {option('written_share')} says it"
        )
    if (reads := cost.reads_to_pay(prices)) is not None:
        yield f"a token that is written to the cache pays for itself after {ratio(reads)} reads"


def _of_times(found: Cost) -> Iterator[str]:
    times, rates, work = found.times, found.rates, found.workload
    if times is None or rates is None:
        return
    reached = f"{count(found.longest_context)} tokens ({count(work.prompt_tokens)} + {count(work.output_tokens)})"
    if found.measured_context is None:
        yield (
            f"nobody said at which context the rates were measured: if at fewer than {reached}, seconds, hours and "
            f"their price are a lower bound; {option('measured_context')} says it"
        )
    elif found.is_lower_bound:
        yield (
            f"seconds, hours and their price are a lower bound: requests reach {reached}, and the rates were measured "
            f"at {count(found.measured_context)}; beyond it both halves get slower"
        )
    if rates.warm_s and times.cache_saves_s < 0:
        yield (
            f"the cache costs {seconds(-times.cache_saves_s)} s a request: it saves time from a cached share of "
            f"{share(cost_time.pays_from(work, rates))} on"
        )
    yield (
        "hours are those of requests without a gap between them, one at a time or at the rates of a machine that "
        "answers several at once; idle hours, retries and peaks come on top"
    )


def _of_right(found: Cost) -> Iterator[str]:
    right = found.right
    if right is None:
        return
    if not right.share:
        yield "no answer is right: a correct one has no price"
    elif right.n is None:
        yield (
            f"the price of a correct answer has no interval; {option('correct_n')} says on how many items the share "
            "was counted"
        )
    if len(found.answers) > 1:
        yield f"the same share right, {percent(right.share)}, is taken for every way of paying: it holds for one model"
