# ruff: noqa: RUF001 - Turkish has an i without a dot.
"""The words of versions.jsonl: documents as points whose values change from one edition to the next."""

from __future__ import annotations

Point = tuple[str, tuple[str, ...]]

DOCUMENTS: dict[str, dict[str, tuple[Point, ...]]] = {
    "en": {
        "Library rules": (
            ("books for a reader", ("three", "five", "eight", "ten")),
            ("days of a loan", ("14", "21", "28", "35")),
            ("closing time", ("6 pm", "7 pm", "8 pm", "9 pm")),
            ("price of a lost card", ("4.50 euros", "6.00 euros", "9.50 euros", "12.00 euros")),
        ),
        "Boiler manual": (
            ("pressure", ("1.2 bar", "1.5 bar", "1.8 bar", "2.1 bar")),
            ("filter change", ("every month", "every spring", "every winter", "twice a year")),
            ("error 7", ("low water", "no flame", "blocked pipe", "weak pump")),
            ("reset button", ("at the back", "on the left", "under the lid", "behind the door")),
        ),
        "Travel policy": (
            ("hotel limit", ("90 euros", "110 euros", "130 euros", "150 euros")),
            ("approval", ("team lead", "office manager", "director", "accountant")),
            ("receipts", ("within 10 days", "within 20 days", "within 30 days", "within 45 days")),
            ("flight class", ("economy", "business", "premium", "first")),
        ),
        "Warranty terms": (
            ("length of the warranty", ("12 months", "18 months", "24 months", "36 months")),
            ("repairs", ("in the shop", "in the factory", "at home", "by post")),
            ("customer pays", ("shipping", "spare parts", "packing", "journey")),
            ("battery cover", ("30 days", "60 days", "90 days", "120 days")),
        ),
        "Camp plan": (
            ("breakfast", ("7:00", "7:30", "8:00", "8:30")),
            ("goal of the walk", ("lake", "old mill", "castle", "waterfall")),
            ("things to bring", ("torch", "raincoat", "cup", "blanket")),
            ("lights out", ("9:00 pm", "9:30 pm", "10:00 pm", "10:30 pm")),
        ),
        "Bread recipe": (
            ("flour", ("400 grams", "500 grams", "600 grams", "750 grams")),
            ("rest of the dough", ("20 minutes", "40 minutes", "60 minutes", "90 minutes")),
            ("oven heat", ("190 degrees", "200 degrees", "220 degrees", "240 degrees")),
            ("topping", ("salt", "honey", "oil", "seeds")),
        ),
        "Parking rules": (
            ("visitors park in", ("row A", "row C", "the yard", "the garage")),
            ("price of an hour", ("1.50 euros", "2.00 euros", "2.50 euros", "3.00 euros")),
            ("gate opens", ("5 am", "6 am", "7 am", "8 am")),
            ("longest stay", ("two hours", "three hours", "six hours", "nine hours")),
        ),
        "Phone plan": (
            ("monthly price", ("8 euros", "11 euros", "14 euros", "19 euros")),
            ("data", ("4 gigabytes", "6 gigabytes", "10 gigabytes", "20 gigabytes")),
            ("notice", ("one week", "two weeks", "one month", "three months")),
            ("help", ("by letter", "by email", "by phone", "by chat")),
        ),
        "Garden guide": (
            ("planting of tomatoes", ("March", "April", "May", "June")),
            ("watering of roses", ("once a week", "twice a week", "every day", "every morning")),
            ("height of the hedge", ("1.5 metres", "1.8 metres", "2.0 metres", "2.2 metres")),
            ("shed key", ("by the door", "in the hall", "behind the bin", "on the wall")),
        ),
        "Safety sheet": (
            ("storage", ("below 15 degrees", "below 20 degrees", "below 25 degrees", "below 30 degrees")),
            ("protection", ("gloves", "goggles", "mask", "apron")),
            ("spills", ("sand", "sawdust", "lime", "cloth")),
            ("emergency number", ("4411", "5020", "6307", "7789")),
        ),
    },
    "tr": {
        "Kütüphane kuralları": (
            ("okura kitap", ("üç", "beş", "sekiz", "on")),
            ("ödünç süresi", ("14 gün", "21 gün", "28 gün", "35 gün")),
            ("kapanış saati", ("18.00", "19.30", "20.15", "21.00")),
        ),
        "Seyahat kuralları": (
            ("otel sınırı", ("900 lira", "1200 lira", "1500 lira", "1800 lira")),
            ("onay", ("ekip lideri", "müdür", "ofis sorumlusu", "muhasebe")),
            ("fişler", ("10 gün içinde", "20 gün içinde", "30 gün içinde", "45 gün içinde")),
        ),
        "Kazan kılavuzu": (
            ("basınç", ("1,2 bar", "1,5 bar", "1,8 bar", "2,1 bar")),
            ("filtre değişimi", ("her ay", "her bahar", "her kış", "yılda iki kez")),
            ("düğme", ("arkada", "solda", "altta", "kapıda")),
        ),
        "Kamp planı": (
            ("kahvaltı", ("7.00", "7.30", "8.00", "8.30")),
            ("yürüyüş", ("göl", "kale", "şelale", "eski değirmen")),
            ("eşya", ("fener", "yağmurluk", "bardak", "battaniye")),
        ),
        "Garanti koşulları": (
            ("garanti süresi", ("12 ay", "18 ay", "24 ay", "36 ay")),
            ("onarım yeri", ("mağaza", "fabrika", "servis", "ev")),
            ("müşteri öder", ("kargo", "yedek parça", "yol ücreti", "ambalaj")),
        ),
    },
}

LINE = {"en": "{version} edition, {point}: {value}", "tr": "{version}, {point}: {value}"}
ASKED = {
    "en": 'What does the {version} edition say about "{point}"? Copy its line, as JSON with the key "quote".',
    "tr": '{version} için "{point}" satırı nedir? JSON olarak yaz, anahtar "quote".',
}
# The example in the prompt: its title, its points with the values of its two editions, and when those came out.
EXAMPLE: dict[str, tuple[str, tuple[Point, ...]]] = {
    "en": ("Pool rules", (("opening time", ("7 am", "9 am")), ("towel", ("one euro", "two euros")))),
    "tr": ("Havuz kuralları", (("açılış saati", ("7.15", "9.45")), ("havlu", ("on lira", "yirmi lira")))),
}
EXAMPLE_EDITIONS = ("2001", "2004")
