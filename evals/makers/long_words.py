"""The words of long.jsonl: facts that are asked for, sentences around them, and what a transform may drop."""

from __future__ import annotations

# A sentence that holds the fact, the question for it, and the values it may have.
Fact = tuple[str, str, tuple[str, ...]]

_NAMES = ("Mara", "Oskar", "Lina", "Tobias", "Hanna", "Felix", "Greta", "Ivo")
_PLACES = ("old mill", "north gate", "lake", "chapel", "stone bridge", "orchard")
_COLOURS = ("green", "yellow", "dark blue", "red", "white")
_DATES = ("4 March 2024", "17 April 2024", "9 May 2024", "21 June 2024", "2 July 2024")
_AMOUNTS = ("EUR 35.00", "EUR 48.50", "EUR 62.00", "EUR 75.25", "EUR 90.00")

FACTS: dict[str, dict[str, tuple[Fact, ...]]] = {
    # Facts without a protected field: a transform that is lossy may drop them.
    "club": {
        "plain": (
            ("The key of the boat house is kept by {}.", "Who keeps the key of the boat house?", _NAMES),
            ("The summer walk leads to the {}.", "Where does the summer walk lead to?", _PLACES),
            ("The new bench is painted {}.", "Which colour is the new bench painted?", _COLOURS),
            ("The choir is led by {} this season.", "Who leads the choir this season?", _NAMES),
            ("The children meet for the treasure hunt at the {}.", "Where do the children meet for the hunt?", _PLACES),
            ("The flag of the club is {}.", "Which colour is the flag of the club?", _COLOURS),
        ),
        "protected": (
            ("The yearly meeting is on {}.", "On which date is the yearly meeting?", _DATES),
            ("The fee for the boat trip is {}.", "How much is the fee for the boat trip?", _AMOUNTS),
            ("The hall is closed from {} on.", "From which date on is the hall closed?", _DATES),
        ),
    },
    "workshop": {
        "plain": (
            ("The spare belt for the saw lies behind the {}.", "Behind what does the spare belt lie?", _PLACES),
            ("The night shift is led by {}.", "Who leads the night shift?", _NAMES),
            ("The main switch of the press is {}.", "Which colour is the main switch of the press?", _COLOURS),
            ("Oil for the lathe is ordered by {}.", "Who orders the oil for the lathe?", _NAMES),
        ),
        "protected": (
            ("The crane was last checked on {}.", "On which date was the crane last checked?", _DATES),
            ("The new drill cost {}.", "How much did the new drill cost?", _AMOUNTS),
        ),
    },
}

FILLER: dict[str, tuple[str, ...]] = {
    "club": (
        "The weather was mild and many people came by in the afternoon.",
        "Somebody brought a cake, and it was gone before the music began.",
        "The old windows were cleaned, so the room looks much brighter now.",
        "A few members asked whether the chairs could be more comfortable.",
        "Most of the evening was spent talking about the last trip.",
        "The cat of the neighbours slept on the stairs all day long.",
        "Our newsletter is read by more people than we had thought.",
        "The photographs of the last years hang in the corridor.",
        "The garden needs some care, and helping hands are welcome.",
        "Two guitars and a drum are stored in the small cupboard.",
        "The kitchen was full of voices, as it is every week.",
        "Nobody could say why the clock in the hall stood still.",
        "The board thanks everybody who helped to carry the tables.",
        "Some of the older members told stories of the first years.",
        "The path along the water was muddy after so much rain.",
        "A box with lost gloves and scarves stands next to the door.",
    ),
    "workshop": (
        "The floor was swept and the bins were emptied in the evening.",
        "A visitor from another plant walked through the halls.",
        "The radio in the break room works again.",
        "Several lamps flickered for a short while, then all was quiet.",
        "The shelves along the wall were put in a new order.",
        "Somebody left a cup on the table, which was cleared away.",
        "The noise of the fans was lower than on other days.",
        "The team talked about gloves and about better shoes.",
        "A delivery came late because the road was blocked.",
        "Labels on the drawers were written anew and are easy to read.",
        "The door to the yard squeaks and wants a drop of grease.",
        "Old drawings were found in a cabinet and put aside.",
        "The water in the kettle was still warm in the afternoon.",
        "Some boxes were carried upstairs to make room below.",
        "The window above the bench lets in a little more light.",
        "Nobody minds the smell of wood, and some even like it.",
    ),
}

# What every prompt of the desk begins with.
RULES = (
    "You sit at the desk of a house and answer questions about its notes. These are the rules of the desk. Read all of "
    "the notes before you answer. Answer with a few words and with nothing else. Use the words that the notes use. Do "
    "not repeat the question, and do not explain the answer. Write a name as it stands in the notes. Write a date with "
    "its day, its month and its year. Write an amount with its currency in front of it. Write a colour or a place as "
    "it stands in the notes. If two notes say different things, the later one counts. If the notes do not say it, "
    "answer that they do not say it."
)

NAVIGATION = "Home | Products | News | Support | Contact"
SIGNATURES = ("Kind regards,\nThe board", "Best wishes,\nThe office\nUpper Mill Lane")
FOOTER = (
    "This message is confidential and intended solely for the addressee. If you are not the intended recipient, "
    "please delete it."
)
STATES = ("idle", "running", "waiting", "cleaned")
MACHINES = ("saw", "press", "lathe", "drill", "crane")
