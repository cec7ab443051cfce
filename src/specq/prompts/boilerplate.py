"""Boilerplate: navigation, quoted mail, signatures and legal footers. Words are English, German, French and Spanish."""

from __future__ import annotations

import re
from collections.abc import Iterator

from specq.prompts.blocks import blocks, is_item, lines
from specq.prompts.repeats import around, key, line_of
from specq.prompts.sentences import sentences
from specq.prompts.types import Reason
from specq.prompts.work import Edit, Piece, Work

_NAV = re.compile(
    r"(?:skip to (?:main )?content|(?:back|return|scroll) to (?:the )?top|home(?: ?page)?|menu|main menu|"
    r"about(?: us)?|contact(?: us)?|"
    r"log ?in|log ?out|sign ?(?:in|up|out)|register|my account|search|site ?map|faqs?|help|privacy(?: policy| notice)?|"
    r"terms(?: of (?:use|service))?|cookies?(?: policy| settings)?|accept (?:all )?cookies|imprint|legal(?: notice)?|"
    r"careers|jobs|"
    r"news(?:letter|room)?|blog|press|products?|services|solutions|pricing|support|next(?: page)?|"
    r"prev(?:ious)?(?: page)?|"
    r"older posts|newer posts|read more|show more|load more|share(?: (?:on|this).*)?|tweet|facebook|twitter|linkedin|"
    r"instagram|"
    r"youtube|subscribe|follow us.*|download app|print(?: this page)?|startseite|impressum|datenschutz|kontakt|agb|"
    r"anmelden|"
    r"accueil|mentions l\u00e9gales|inicio|contacto|aviso legal)",
    re.IGNORECASE,
)
# Such a line is navigation even where it stands alone.
_NAV_ALONE = re.compile(
    r"\W*(?:skip to (?:main )?content|(?:back|return) to (?:the )?top|accept all cookies|cookie settings|"
    r"share on (?:facebook|"
    r"twitter|linkedin|x)|follow us on .{1,40}|print this page|toggle navigation|main menu)\W*",
    re.IGNORECASE,
)
_NAV_ELEMENT = re.compile(r"<nav\b[^>]*>.*?</nav\s*>", re.IGNORECASE | re.DOTALL)
_NAV_SPLIT = re.compile(r"\s*[|\u00b7\u2022\u203a\u00bb>/]\s*|\s{3,}|\t")
_RULE = re.compile(r"\s*\|?\s*:?(?:-{2,}|={2,})[-=\s:|+]*$")
_WROTE = re.compile(
    r">?\s*(?:on\b.{4,120}\bwrote|am\b.{4,120}\bschrieb\b.{0,60}|le\b.{4,120}\ba \u00e9crit|"
    r"el\b.{4,120}\bescribi\u00f3)\s*:\s*$",
    re.IGNORECASE,
)
_ORIGINAL = re.compile(
    r"\s*-{2,}\s*(?:original message|urspr\u00fcngliche nachricht|message d'origine|mensaje original)\s*-{2,}",
    re.IGNORECASE,
)
_MARKS = re.compile(r"^[>\s]*")
_MAIL_HEAD = re.compile(
    r"[>\s*]*(?:from|sent|to|cc|bcc|subject|date|von|gesendet|an|betreff|datum|de|envoy\u00e9|\u00e0|objet|"
    r"enviado|para|asunto)\*?\s*:|" + _ORIGINAL.pattern,
    re.IGNORECASE,
)
_SIGNED = re.compile(
    r"\s*(?:(?P<common>(?:cheers|many thanks|thanks|thank you|best|regards|sincerely|saludos)\b)|"
    r"(?:best|kind|warm|kindest|warmest) (?:regards|wishes)|"
    r"sincerely yours|yours (?:sincerely|truly|faithfully)|thanks and regards|mit freundlichen gr\u00fc\u00dfen|"
    r"viele gr\u00fc\u00dfe|cordialement|"
    r"bien \u00e0 vous|saludos cordiales|atentamente)(?P<comma>,?)\s*[.!]?\s*$",
    re.IGNORECASE,
)
_SENT_FROM = re.compile(
    r"\s*(?:sent from my \w[\w ]{1,30}|gesendet von meinem \w[\w ]{1,30}|get outlook for \w+)\.?\s*$", re.IGNORECASE
)
_LEGAL = re.compile(
    r"(?:this|the information in this) (?:e-?mail|message|communication)\b.{0,120}\b(?:confidential|privileged|"
    r"intended)"
    r"|intended (?:solely |only |exclusively )?for the (?:use of the )?(?:named )?(?:addressee|recipient|individual|"
    r"person)"
    r"|(?:if you (?:are|were) not the|not the intended) (?:intended )?(?:recipient|addressee)"
    r"|received this (?:e-?mail|message|communication) (?:in error|by mistake)"
    r"|all rights reserved|consider the environment before printing|\bunsubscribe\b.{0,60}\b(?:here|click|link|list|"
    r"e-?mails?)"
    r"|click here to unsubscribe|diese (?:e-?mail|nachricht) (?:enth\u00e4lt|ist) vertraulich|alle rechte vorbehalten"
    r"|tous droits r\u00e9serv\u00e9s|todos los derechos reservados",
    re.IGNORECASE | re.DOTALL,
)
_CONTACT = re.compile(r"\S@\S|\b(?:tel|phone|mobile|fax|e-?mail|telefon|t\u00e9l)\b|\bwww\.|https?://", re.IGNORECASE)
# "The board", "Your team": who signs in the line below a formal closing.
_SIGNER = re.compile(r"(?:the|your|die|der|das|ihre?|le|la|el|los) [^\W\d]+(?: [^\W\d]+)?$", re.IGNORECASE)
SIGNATURE_LINES = 8
_LONGEST_LINE = 60


def navigation(work: Work) -> Iterator[Edit]:
    """Elements called nav, lines of links of which three, and three in four, are known, such as "Back to top"."""
    for place, part in work.open_parts():
        text = part.text
        data = [(block.start, block.end) for block in blocks(text) if block.is_code or block.kind == "json"]
        for match in _NAV_ELEMENT.finditer(text):
            if not any(start < match.end() and match.start() < end for start, end in data):
                begun = text.rfind("\n", 0, match.start()) + 1
                if text[begun : match.start()].strip():
                    # Within a line the line goes on.
                    yield Edit(reason="navigation", pieces=(Piece(part=place, start=match.start(), end=match.end()),))
                else:
                    yield _whole(text, place, match.start(), match.end(), "navigation")
        for block in blocks(text):
            if block.is_code or block.kind == "json":
                continue
            spans = list(lines(text, block.start, block.end))
            # After a colon it is what was announced, however it reads.
            announced = text[: block.start].rstrip().endswith(":")
            for i, (start, end) in enumerate(spans):
                near = [text[a:b] for a, b in (*spans[max(0, i - 1) : i], *spans[i + 1 : i + 2])]
                if _is_navigation(text[start:end], near, announced and i == 0):
                    yield Edit(reason="navigation", pieces=(line_of(text, place, start, end),))


def _is_navigation(line: str, near: list[str], announced: bool) -> bool:
    """Whether a line is surely a menu: the heads and rows of tables hold such words too, and `near` lines tell them."""
    if _NAV_ALONE.fullmatch(line):
        return True
    bare = line.strip()
    cells = max((bare.count("|"), bare.count("\t")))
    in_table = bare.startswith("|") or any(
        other.strip() != bare and cells and cells == max(other.strip().count("|"), other.strip().count("\t"))
        for other in near
    )
    if in_table or announced or any(_RULE.match(other) or other.rstrip().endswith(":") for other in near):
        return False
    items = [item.strip(" []*") for item in _NAV_SPLIT.split(line) if item.strip(" []*")]
    known = sum(_NAV.fullmatch(item) is not None for item in items)
    return known >= 3 and 4 * known >= 3 * len(items) and all(len(item.split()) <= 4 for item in items)


def mail_chain(work: Work) -> Iterator[Edit]:
    """Earlier mail that a reply quotes below its own words: lines with ">" after "... wrote:", or an original message.

    It goes where each of its paragraphs stands earlier: a mail that the prompt holds nowhere else is what is asked
    about. A quotation that a message begins with is what it is about too, and stays.
    """
    earlier = ""
    for place, part in work.open_parts():
        text = part.text
        fences = [(block.start, block.end) for block in blocks(text) if block.is_code]
        told = list(lines(text))
        for i, (start, end) in enumerate(told):
            line = text[start:end]
            if not text[:start].strip() or any(a <= start < b for a, b in fences):
                continue
            if _WROTE.match(line):
                stop = _quoted(text, told[i + 1 :], end)
            elif _ORIGINAL.match(line):
                stop = len(text.rstrip())
            else:
                continue
            if stop > end and _stands(text[end:stop], f"{earlier}{text[:start]}"):
                yield _whole(text, place, start, stop, "mail chain")
        earlier += f"{text}\n\n"


def _stands(quoted: str, earlier: str) -> bool:
    """Whether the words of each paragraph of quoted mail stand in the earlier text, wherever lines are folded."""
    before = f" {' '.join(key(earlier))} "
    told = "\n".join(_MARKS.sub("", line) for line in quoted.split("\n") if not _MAIL_HEAD.match(line))
    return all(f" {' '.join(key(part))} " in before for part in told.split("\n\n") if key(part))


def _quoted(text: str, following: list[tuple[int, int]], at: int) -> int:
    """Where the quoted lines end."""
    for start, end in following:
        line = text[start:end]
        if line.lstrip().startswith(">"):
            at = end
        elif line.strip():
            break
    return at


def signatures(work: Work) -> Iterator[Edit]:
    """What follows "-- " or a closing such as "Kind regards,": up to eight lines that read as a name or an address.

    Words that stand elsewhere too, such as "Best" and "Thanks", close only with a comma and a name in the next line.
    """
    for place, part in work.open_parts():
        text = part.text
        told = blocks(text)
        fences = [(block.start, block.end) for block in told if block.is_code]
        spans = list(lines(text))
        behind = 0
        for i, (start, end) in enumerate(spans):
            if start < behind or any(a <= start < b for a, b in fences):
                continue
            line = text[start:end]
            if _SENT_FROM.match(line):
                stop = end
            elif line in ("-- ", "--"):
                stop = _signature_end(text, spans[i + 1 :], end, closed=False)
                if stop == end:
                    continue
            elif closing := _SIGNED.match(line):
                formal = not closing["common"]
                stop = _signature_end(text, spans[i + 1 :], end, closed=formal)
                if not formal and (stop == end or not closing["comma"]):
                    continue
            else:
                continue
            behind = stop
            yield _whole(text, place, start, stop, "signature")


def _signature_end(text: str, following: list[tuple[int, int]], at: int, *, closed: bool) -> int:
    """Where a signature ends, after a formal closing or not: with its paragraph, or where no name or address stands."""
    for i, (start, end) in enumerate(following[:SIGNATURE_LINES]):
        line = text[start:end].strip()
        if not line or len(line) > _LONGEST_LINE or line.endswith(("?", ".", ":")) or not line[0].isalnum():
            break
        signer = i == 0 and closed and _SIGNER.match(line)
        if is_item(line) or not (signer or _CONTACT.search(line) or _is_title(line)):
            break
        at = end
    return at


def _is_title(line: str) -> bool:
    """Whether a line reads as a name, a post or a company: no word of four letters or more begins small."""
    return not any(len(word) >= 4 and word[0].islower() for word in line.split())


def legal_footers(work: Work) -> Iterator[Edit]:
    """Paragraphs with a sentence of a mail's or a site's legal notice; what holds a protected field in them stays."""
    for place, part in work.open_parts():
        text = part.text
        for block in blocks(text):
            told = text[block.start : block.end]
            if block.kind == "prose" and _LEGAL.search(told) and len(told.split()) <= 200:
                yield _footer(text, place, block.start, block.end, sentences(text, block.start, block.end))


def _footer(text: str, place: int, start: int, end: int, told: list[tuple[int, int]]) -> Edit:
    """The paragraph where at least half of it is legal; else the sentences that are."""
    parts, legal = [], []
    for i, (first, last) in enumerate(told):
        stop = told[i + 1][0] if i + 1 < len(told) else end
        parts.append(Edit(reason="legal footer", pieces=(Piece(part=place, start=first, end=stop),)))
        if _LEGAL.search(text[first:last]):
            legal.append(parts[-1])
    if 2 * sum(edit.pieces[0].end - edit.pieces[0].start for edit in legal) < end - start:
        return Edit(
            reason="legal footer",
            pieces=tuple(piece for edit in legal for piece in edit.pieces),
            finer=tuple(legal) if len(legal) > 1 else (),
        )
    return Edit(
        reason="legal footer",
        pieces=(around(text, place, start, end),),
        finer=tuple(parts) if len(parts) > 1 else (),
    )


def _whole(text: str, place: int, start: int, end: int, reason: Reason) -> Edit:
    """A stretch of lines as one edit; where it may not go as a whole its lines are tried."""
    told = [(a, b) for a, b in lines(text, start, end) if text[a:b].strip()]
    finer = tuple(Edit(reason=reason, pieces=(line_of(text, place, a, b),)) for a, b in told) if len(told) > 1 else ()
    return Edit(reason=reason, pieces=(around(text, place, start, end),), finer=finer)
