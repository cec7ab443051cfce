# ruff: noqa: RUF001
"""However a field is written, it is recognised, and the sentence that holds the only copy of it stays."""

from __future__ import annotations

import pytest

from specq.prompts import protected
from specq.prompts.transform import transform
from specq.prompts.types import Steps, content_of

FILLER = "The garden lies behind the house and is shared by all who live there."
PHRASINGS = {
    "amount": (
        "Rs. 500", "Rs.500/-", "₹1,23,456.50", "5 lakh rupees", "Rs 2.5 crore", "5,000円", "５，０００円",
        "￥３００",
        "3万5千円", "五千円", "1億2,000万円", "100元", "人民币500元", "新台幣 1,200 元", "50,000원", "5만 원",
        "USD500", "500USD", "usd 40",
        "US$5", "HK$ 20", "R$ 1.234,56", "RM 30", "Rp 10.000", "kr 1 299,50", "10 000 kr", "250 Kč", "99,90 zł",
        "CHF 1'250.–", "1.299,00 €",
        "1 299,00 €", "€5m", "£3bn", "500 руб.", "1 500 рублей", "₺750", "₦2,000", "KSh 400", "AED 75",
        "500 dirhams", "TRY 60", "฿90", "500 บาท",
        "500 रुपये", "fünfhundert Euro", "five hundred dollars", "cien euros", "deux cents euros", "$5–10", "3.5",
        "5,000", "30 km", "３０日", "3か月", "2小时", "5명", "½ litre",
    ),
    "date": (
        "2024-05-06", "6.5.2024", "6. Mai 2024", "6 mars 2024", "6 de mayo de 2024", "6 maggio 2024", "6 мая 2024",
        "6 września 2024", "May 6, 2024", "6-May-24",
        "2024年5月6日", "２０２４年５月６日", "5月6日", "令和6年5月6日", "2024년 5월 6일", "2024. 5. 6.", "FY2024",
        "Q3 2024", "14:30", "14h30", "午後3時",
    ),
    "rate": (
        "3.5%", "３．５％", "5 per cent", "5 Prozent", "5 % p. a.", "3,5 pour cent", "5 por ciento", "百分之五",
        "5 процентов", "25 bps", "12 euros per month", "EUR 5 je Monat",
        "5 € par jour", "10 km/h", "3 out of 5", "2x", "每月500元", "毎月3,000円",
    ),
    "threshold": (
        "at least 3", "not more than 40 units", "up to €50", "mindestens 5", "höchstens 3 Tage", "au moins 5",
        "como máximo 3", "al massimo 10", "не более 5", "≤ 4", "18 years or older", "18+",
        "10人以上", "3日以内", "不超过5", "5개 이하", "最低10",
    ),
    "currency": ("yen", "CHF", "GHS", "人民币", "ドル", "rupees", "₫"),
    "source": (
        "https://a.org/x?y=1", "ftp://a.org/x", "www.a.org", "example.com/terms", "doi:10.1000/xyz",
        "arXiv:2403.10444v2", "§ 4", "Section 4.2", "Artículo 5", "第5条", "제3조", "RFC 2119",
        "CVE-2024-1234",
    ),
    "version": (
        "version 2.1", "v3", "2.1.3", "3rd edition", "Fassung 2", "versión 3", "バージョン2.1", "第3版", "版本2",
    ),
    "obligation": (
        "Only residents are allowed in.", "Guests may not cook.", "A badge is required.",
        "The form requires a stamp.", "You mustn't run.", "Nobody may enter.", "Bikes are prohibited.",
        "Keys should be kept.",
        "No smoking here.", "Entry only with a badge.", "Haustiere sind verboten.", "Gäste dürfen nur hier parken.",
        "Il est interdit de fumer.", "Vous devez payer.", "Está prohibido fumar.", "È vietato fumare.",
        "É proibido fumar.", "Roken is verboden.", "Курить запрещено.", "Nie wolno palić.", "駐車は禁止です。",
        "申請しなければなりません。", "不得转让。", "必须付款。", "흡연 금지", "धूम्रपान मना है", "ห้ามสูบบุหรี่",
    ),
    "exception": (
        "Free unless late.", "All but not dogs.", "Everyone except staff.", "Excluding tax.",
        "Frei außer sonntags.", "Gratuit sauf dimanche.", "Gratis salvo domingos.", "Tranne la domenica.",
        "Exceto feriados.",
        "Бесплатно, кроме воскресенья.", "日曜日を除く。", "ただし子供は無料。", "除非下雨。", "일요일 제외",
        "ยกเว้นวันอาทิตย์",
    ),
}  # fmt: skip
EVERY = [(kind, told) for kind, some in PHRASINGS.items() for told in some]


@pytest.mark.parametrize(("kind", "told"), EVERY, ids=lambda one: one)
def test_a_phrasing_is_not_seen_and_deleted(kind: str, told: str) -> None:
    whole = {"amount": "It costs {}", "currency": "Paid in {}"}.get(kind, "{}").format(told)
    found = [one.value for one in protected.fields(whole) if one.kind == kind]
    if kind in ("obligation", "exception"):
        assert found
    else:
        assert told in found
    body = "\n\n".join([*[f"{FILLER} Row {n}." for n in "abcdef"], f"{whole}\n\nBirds sing."])
    short = transform(f"{body}\n\nQuestion: Where is the garden?", Steps(select=0.1))
    assert told.rstrip(".") in content_of(short.messages[0])


@pytest.mark.parametrize("sign", ["は{}です", "費用は，{}です", "（{}）", "「{}」", "ราคา{}"])
def test_a_number_that_touches_words_without_spaces_is_not_seen(sign: str) -> None:
    for told in ("5,000円", "500บาท", "３．５％", "2024-05-06"):
        assert told in {one.value for one in protected.fields(sign.format(told))}, told


def test_an_amount_at_the_end_of_a_sentence_is_taken_for_a_date() -> None:
    found = {(one.kind, one.value) for one in protected.fields("The fee was EUR 90.00. It rose to EUR 75.25. Due 6.5.")}
    assert {("amount", "EUR 90.00"), ("amount", "EUR 75.25"), ("date", "6.5.")} <= found
    assert not any(kind == "date" and value != "6.5." for kind, value in found)


@pytest.mark.parametrize("told", ["Try 5 of them", "The top of it all", "She set off", "一个人", "All in all"])
def test_common_words_are_taken_for_fields(told: str) -> None:
    assert {one.kind for one in protected.fields(told)} <= {"amount"} - ({"amount"} if "5" not in told else set())


@pytest.mark.parametrize(
    "part", ["1", "1,", "1 ", "one", "one ", "a.", "EUR ", "1万", "三", "5-", "v1.", "only a ", "kein ", "除"]
)
def test_a_long_run_of_one_part_takes_forever(part: str) -> None:
    """The patterns read in time that grows with the text, so this ends well before the test's own limit."""
    protected.fields(part * (20_000 // len(part)))
