"""Fixed text of several kinds that the audit sends through two models: prose, talk, code, numbers, other languages."""

from __future__ import annotations

TEXTS = (
    "The harbour wakes before the town does. By five the first boats are back, and the gulls know it. Men in orange "
    "aprons sort the catch into boxes of ice, calling out weights that a boy writes on a slate. Nobody hurries, yet "
    "within an hour the quay is clean, the boxes are gone, and only wet stone and a smell of salt tell what happened.",
    "To bake a plain loaf, mix 500 grams of flour with 350 grams of lukewarm water, 10 grams of salt and 5 grams of "
    "dry yeast. Knead for ten minutes, until the dough no longer sticks. Let it rise for two hours, shape it, let it "
    "rise again, and bake it at 230 degrees for 35 minutes. It is done when it sounds hollow underneath.",
    "def median(values):\n    ordered = sorted(values)\n    middle = len(ordered) // 2\n    if len(ordered) % 2:\n"
    "        return ordered[middle]\n    return (ordered[middle - 1] + ordered[middle]) / 2\n\n\nfor name, row in "
    "table.items():\n    print(f'{name}: {median(row):.2f} of {len(row)} values')\n",
    "Question: A train leaves at 14:20 and arrives at 17:05. How long does it travel, and how fast is it over 220 "
    "kilometres?\nAnswer: From 14:20 to 17:05 are 2 hours and 45 minutes, which is 2.75 hours. 220 divided by 2.75 is "
    "80, so the train goes at 80 kilometres an hour on average.",
    "Am Abend sitzen die Nachbarn vor dem Haus und reden ueber das Wetter, die Preise und die Kinder. Wer etwas zu "
    "feiern hat, bringt Kuchen mit. Bir fincan kahvenin kirk yil hatiri vardir. Les jours de marche, la place est "
    "pleine de monde et de bruit.",
)

MESSAGES = (
    {"role": "user", "content": "Explain in three sentences why the sky is blue, and why sunsets are red."},
    {
        "role": "assistant",
        "content": "Sunlight holds all colours, and air scatters the short blue waves far more than the long red "
        "ones. Blue light therefore reaches our eyes from every part of the sky. At sunset the light crosses much "
        "more air, so most of the blue has been scattered away before it arrives, and red is left.",
    },
    {"role": "user", "content": "Thank you. Now give me a short list of things to pack for two days of hiking."},
)
