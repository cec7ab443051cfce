"use strict";
/* A month of requests, priced again as its values move: the formulas of cost.py and cost_time.py. */

const MILLION = 1e6, HIT_RATE = 0.6, HOURS_A_MONTH = 730, HOUR_S = 3600;

/* v: prompt, cached, written (null: not said), output, requests; input_price, cached_price, output_price, write_price
   (null: a write is billed as input); prefill, decode, warm (null: no rates); per_hour (null: no price of an hour). */
const ABOVE_ZERO = ["prompt", "requests", "prefill", "decode", "per_hour"], SMALLEST = 1e-12, LARGEST = 1e15;

/* The nearest values that Python takes (cost_checks.py): it divides by some, and no token is cached and written. */
function bounded(v) {
  const found = { ...v };
  for (const [key, value] of Object.entries(v)) {
    if (value === null) continue;
    const real = Number.isNaN(value) ? 0 : Math.min(Math.max(value, 0), LARGEST);
    found[key] = ABOVE_ZERO.includes(key) ? Math.max(real, SMALLEST) : real < SMALLEST ? 0 : real;
  }
  if (found.written !== null) found.written = Math.min(found.written, 1);
  found.cached = Math.min(found.cached, 1 - (found.written ?? 0));
  return found;
}

function written(v) {
  if (v.written !== null) return v.written;
  return v.cached ? 1 - v.cached : 0;
}

function bill(v) {
  const prompt = v.requests * v.prompt, write = v.write_price === null ? 0 : written(v), rows = [];
  const row = (name, tokens, price) => rows.push({ name, tokens, price, amount: tokens * price / MILLION });
  row("input", prompt * Math.max(1 - v.cached - write, 0), v.input_price);
  if (v.write_price !== null && write) row("cache_write", prompt * write, v.write_price);
  row("cached", prompt * v.cached, v.cached_price);
  row("output", v.requests * v.output, v.output_price);
  return { rows, amount: rows.reduce((sum, one) => sum + one.amount, 0) };
}

const uncached = (v) => ({ ...v, cached: 0, written: 0 });
const warmed = (v, rate) =>
  v.written === null ? { ...v, cached: rate } : { ...v, cached: rate, written: Math.max(v.cached + v.written - rate, 0) };

function savings(v, cost) {
  const before = cost(v);
  const found = {
    half_prompt: before - cost({ ...v, prompt: v.prompt / 2 }),
    prompt_40_less: before - cost({ ...v, prompt: v.prompt * 0.6 }),
    half_output: before - cost({ ...v, output: v.output / 2 }),
    hit_rate_60: before - cost(warmed(v, HIT_RATE)),
  };
  return Object.entries(found).sort((a, b) => b[1] - a[1]);
}

function times(v) {
  if (v.prefill === null) return null;
  const prefill_s = v.prompt * (1 - v.cached) / v.prefill + v.warm, decode_s = v.output / v.decode;
  const e2e_s = prefill_s + decode_s;
  return {
    prefill_s, decode_s, e2e_s, cache_saves_s: v.prompt / v.prefill - prefill_s,
    machine_hours: v.requests * e2e_s / HOUR_S,
  };
}

function hosted(v) {
  const taken = times(v);
  if (taken === null || v.per_hour === null) return null;
  const machines = Math.max(1, Math.ceil(taken.machine_hours / HOURS_A_MONTH - 1e-9));
  return { busy: taken.machine_hours * v.per_hour, machines, rented: machines * HOURS_A_MONTH * v.per_hour };
}

function priced(given) {
  const v = bounded(given);
  const tokens = v.input_price === null ? null : bill(v);
  return {
    bill: tokens,
    uncached: tokens && bill(uncached(v)).amount,
    savings: tokens && savings(v, (one) => bill(one).amount),
    times: times(v),
    hosted: hosted(v),
  };
}

if (typeof module !== "undefined") module.exports = { bounded, priced };

if (typeof document !== "undefined") {
  const whole = (x, large) => x.toLocaleString("en-US", large ? { maximumFractionDigits: 0 } : { minimumFractionDigits: 2, maximumFractionDigits: 2 });
  const money = (x, among) => whole(x, Math.abs(among === undefined ? x : among) >= 1000);
  const small = (x) => x.toLocaleString("en-US", { maximumSignificantDigits: 3 });
  const count = (x) => x.toLocaleString("en-US", { maximumFractionDigits: 0 });
  const part = (x) => `${(100 * x).toFixed(0)} %`;
  const start = JSON.parse(document.getElementById("start").textContent);
  const names = JSON.parse(document.getElementById("names").textContent);
  const inputs = [...document.querySelectorAll("[data-key]")];
  const put = (id, text) => { const one = document.getElementById(id); if (one) one.textContent = text; };
  const cells = (...texts) => {
    const row = document.createElement("tr");
    texts.forEach((text, place) => {
      const cell = document.createElement(place ? "td" : "th");
      cell.textContent = text;
      row.append(cell);
    });
    return row;
  };
  const show = () => {
    const given = { ...start };
    for (const one of inputs) {
      if (one.type !== "number") continue;
      // What is typed below a field's least, beyond its most, or not yet, counts as these.
      const shown = Math.min(Math.max(Number(one.value), Number(one.min)), one.max === "" ? Infinity : Number(one.max));
      given[one.dataset.key] = shown / Number(one.dataset.over || 1);
    }
    const v = bounded(given), found = priced(v);
    if (found.bill) {
      const of = found.bill.amount, most = Math.max(of, found.uncached);
      document.getElementById("bill").replaceChildren(
        ...found.bill.rows.map((one) => cells(names[one.name], count(one.tokens), small(one.price), money(one.amount, most), of ? part(one.amount / of) : "-")),
        cells("together", count(found.bill.rows.reduce((sum, one) => sum + one.tokens, 0)), "", money(of, most), ""),
        cells("without the cache", "", "", money(found.uncached, most), ""));
      document.getElementById("savings").replaceChildren(
        ...found.savings.map(([lever, saves]) => cells(names[lever], money(saves, of), of ? part(saves / of) : "-")));
      put("answer", small(of / v.requests));
    }
    if (found.times) {
      put("e2e", found.times.e2e_s.toFixed(3));
      put("prefill", `${found.times.prefill_s.toFixed(3)} (${found.times.e2e_s ? part(found.times.prefill_s / found.times.e2e_s) : "-"})`);
      put("saves", found.times.cache_saves_s.toFixed(3));
      put("hours", count(found.times.machine_hours));
    }
    if (found.hosted) {
      put("busy", money(found.hosted.busy));
      put("rented", `${money(found.hosted.rented)} for ${found.hosted.machines}`);
    }
  };
  for (const one of inputs) {
    one.addEventListener("input", () => {
      // A slider and the number beside it are one value; a number beyond the slider's end is kept.
      for (const other of inputs) if (other !== one && other.dataset.key === one.dataset.key) other.value = one.value;
      show();
    });
  }
  document.getElementById("reset").addEventListener("click", () => {
    for (const one of inputs) one.value = one.defaultValue;
    show();
  });
  show();
}
