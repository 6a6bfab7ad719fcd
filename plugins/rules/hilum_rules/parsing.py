"""The text of a rules file into drafts of rules: what stands in the file, before imports and
types.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise

import attrs

from hilum_rules.blocks import Block, blocks
from hilum_rules.comments import Comment, Fences, without_comments, without_spans
from hilum_rules.hidden import reveal
from hilum_rules.rule import Enforce

_ENFORCE = re.compile(
    r"[ \t>]*(?:[-*+][ \t]+)?`?enforce[ \t]*[:：][ \t]*(.*?)`?[ \t]*$", re.IGNORECASE
)
_BOLD = re.compile(r"(\*\*|__)(?!\s)([^\n]*?)\1[ \t]*[:：]?$")
MOST_WORDS = 6
"""Words of a bold line, or of a line before a list, that is taken for a title."""
BOLD = 7
"""The level of a bold line that is taken for a title: below all headings."""
SENTENCE = 3
"""Words from which on a heading without text below it is taken for a rule."""
MOST_TITLES = 30
"""Titles and tags within each other; tags that are deeper are passed over."""
MOST_PROBLEMS = 20
"""Problems of one kind that are told one by one."""


@attrs.frozen
class Draft:
    """What may become a rule.

    Attributes:
        content: Its text.
        line: Its line in the file, from 1.
        titles: The titles it stands under, outermost first.
        lead: The line that introduces the list it stands in, ``You must never:`` for example.
        depth: How deep it stands in nested lists.
        enforce: The ``enforce:`` lines that stand with it.
    """

    content: str
    line: int
    titles: tuple[str, ...] = ()
    lead: str = ""
    depth: int = 0
    enforce: tuple[Enforce, ...] = ()


def drafts(text: str, first: int = 1) -> tuple[list[Draft], list[tuple[int, str]]]:
    """Read the body of a rules file.

    Args:
        text: The body, with line ends ``\\n``.
        first: The line of the file on which it begins.

    Returns:
        The drafts in order, and what was left out or is odd: lines of the file and sentences.
    """
    text, hidden = reveal(text)
    lines, comments = without_comments(text.split("\n"))
    problems = [
        (
            line,
            (
                f"{count} hidden character{'s' * (count > 1)}, which you would not see and a model"
                " would read; shown as <U+…>."
            ),
        )
        for line, count in hidden
    ]
    if len(problems) > MOST_PROBLEMS:
        more = problems[MOST_PROBLEMS:]
        problems[MOST_PROBLEMS:] = [
            (more[0][0], f"Hidden characters on {len(more)} more lines, the last on {more[-1][0]}.")
        ]
    checks = _checks(lines, comments)
    problems += [(c.line, sentence) for c in comments if (sentence := _told(c))]
    builder = _Builder()
    found = blocks(lines)
    for block, following in pairwise([*found, None]):
        if block is not None:
            builder.take(block, following)
    builder.bare()
    attached = _attach(builder.drafts, builder.sections, checks)
    problems += builder.problems
    shift = first - 1
    return [
        attrs.evolve(
            draft,
            line=draft.line + shift,
            enforce=tuple(Enforce(e.line + shift, e.text) for e in draft.enforce),
        )
        for draft in attached
    ], [(line + shift, sentence) for line, sentence in problems]


def _told(comment: Comment) -> str:
    if not comment.closed:
        return "A comment '<!--' is opened here and never closed: what follows is read as text."
    if _ENFORCE.match(comment.text.strip().split("\n")[0]) or not comment.text.strip():
        return ""
    what = "A comment" if comment.lines == 1 else f"A comment of {comment.lines} lines"
    return f"{what} is left out: readers of the page do not see it."


def _checks(lines: list[str], comments: Sequence[Comment]) -> list[Enforce]:
    """Take the ``enforce:`` lines out of a text, those in comments too."""
    found = []
    fences = Fences()
    for number, line in enumerate(lines):
        if not fences.code(line) and (match := _ENFORCE.match(line)):
            found.append(Enforce(number + 1, match[1].strip()))
            lines[number] = ""
    for comment in comments:
        inner = comment.text.strip()
        if comment.closed and _ENFORCE.match(inner.split("\n")[0]):
            start = comment.line + comment.text[
                : len(comment.text) - len(comment.text.lstrip())
            ].count("\n")
            for offset, line in enumerate(inner.split("\n")):
                match = _ENFORCE.match(line)
                rest = (match[1] if match else line).strip()
                if rest:
                    found.append(Enforce(start + offset, rest))
    return sorted(found, key=lambda check: check.line)


def _attach(found: list[Draft], sections: list[int], checks: list[Enforce]) -> list[Draft]:
    """Return each ``enforce:`` line to the rule above it in its section.

    Without one it is a rule of its own.
    """
    from bisect import bisect_right

    for check in checks:
        section = bisect_right(sections, check.line)
        above = sections[section - 1] if section else 0
        index = bisect_right([draft.line for draft in found], check.line) - 1
        if index >= 0 and found[index].line > above:
            found[index] = attrs.evolve(found[index], enforce=(*found[index].enforce, check))
        else:
            titles = (
                found[index + 1].titles
                if index + 1 < len(found) and not _between(sections, check, found[index + 1])
                else ()
            )
            found.insert(
                index + 1, Draft(f"enforce: {check.text}", check.line, titles, enforce=(check,))
            )
    return found


def _between(sections: list[int], check: Enforce, draft: Draft) -> bool:
    return any(check.line < line < draft.line for line in sections)


class _Builder:
    """Makes drafts of blocks."""

    def __init__(self) -> None:
        self.drafts: list[Draft] = []
        self.sections: list[int] = []  # the lines on which a section begins or ends
        self.problems: list[tuple[int, str]] = []
        self.titles: list[tuple[int, str]] = []  # level and text; 0 is a tag
        self.lead = ""
        self.leads: list[tuple[int, str]] = []  # of list items that introduce deeper ones
        self.joins = False  # code that follows belongs to the last draft
        self.open: Block | None = None  # a heading under which nothing stands yet

    def take(self, block: Block, following: Block | None) -> None:
        """Take the next block; ``following`` is the one behind it."""
        if block.kind in ("heading", "tag"):
            self.sections.append(block.line)
            self.lead = ""
            self.joins = False
            if block.level <= (self.open.level if self.open and block.kind == "heading" else 0):
                self.bare()
            self.heading(block.level, block.text) if block.kind == "heading" else self.tag(block)
            if block.kind == "heading":
                self.open = block
        elif block.kind == "code":
            self.code(block)
        elif block.kind == "line":
            self.joins = False
        elif block.text:
            self.words(block, following)

    def bare(self) -> None:
        """A heading with nothing under it: it is a rule itself (``# Never push to main``), or else
        it is told.
        """
        if self.open is None:
            return
        block = self.open
        self.open = None
        if (
            block.level == BOLD
            or len(block.text.split()) >= SENTENCE
            or re.search(r"[\u3040-\u9fff\uac00-\ud7a3]{4}", block.text)
        ):
            titles = tuple(text for level, text in self.titles if level < block.level)
            self.drafts.append(Draft(block.text, block.line, titles))
        else:
            self.problems.append(
                (block.line, f"Nothing stands under the heading {block.text[:60]!r}.")
            )

    def heading(self, level: int, title: str) -> None:
        while self.titles and self.titles[-1][0] >= level:
            self.titles.pop()
        self.titles.append((level, " ".join(title.split())))

    def tag(self, block: Block) -> None:
        name = block.text.replace("_", " ").replace("-", " ")
        if block.level > 0 and len(self.titles) < MOST_TITLES:
            self.titles.append((0, name))
        elif block.level < 0 and (0, name) in self.titles:
            while self.titles.pop() != (0, name):
                pass

    def code(self, block: Block) -> None:
        if block.level < 0:
            self.problems.append(
                (
                    block.line,
                    "A block of code is opened here and never closed: all that follows is code.",
                )
            )
        if self.joins:
            last = self.drafts[-1]
            self.drafts[-1] = attrs.evolve(last, content=f"{last.content}\n{block.text}")
        else:
            self.add(block)

    def words(self, block: Block, following: Block | None) -> None:
        """A paragraph, a list item, or a row of a table."""
        listed = following is not None and following.kind in ("item", "row")
        if block.kind == "text":
            self.lead = ""
            self.leads = []
            title = _title(block.text)
            if (
                title
                and following is not None
                and following.kind in ("item", "row", "text", "code")
            ):
                self.sections.append(block.line)
                if self.open and self.open.level == BOLD:
                    self.bare()
                self.heading(BOLD, title)
                self.open = block._replace(level=BOLD)
                self.joins = False
                return
            if listed and block.text.rstrip("*_").endswith((":", "：")):
                self.lead = block.text
                return
        else:
            while self.leads and self.leads[-1][0] >= block.level:
                self.leads.pop()
            deeper = (
                following is not None and following.kind == "item" and following.level > block.level
            )
            if (
                block.kind == "item"
                and deeper
                and (block.text.rstrip("*_").endswith((":", "：")) or _title(block.text))
            ):
                self.leads.append((block.level, block.text))
                return
        self.add(block)
        self.joins = True

    def add(self, block: Block) -> None:
        self.open = None
        if block.kind != "text":
            lead = "\n".join(
                [*([self.lead] if self.lead else []), *(text for _, text in self.leads)]
            )
        else:
            lead = ""
        depth = block.level if block.kind == "item" else 0
        self.drafts.append(
            Draft(block.text, block.line, tuple(text for _, text in self.titles), lead, depth)
        )


def _title(text: str) -> str:
    """Return a line that is bold as a whole and short as the title it stands for."""
    match = _BOLD.match(text.strip())
    if not match or "**" in match[2] or "\n" in text.strip():
        return ""
    inner = match[2].strip()
    ends = inner.endswith((":", "：")) or text.rstrip().endswith((":", "："))
    short = (
        len(inner.split()) <= MOST_WORDS
        and len(inner) <= 60
        and not inner.endswith((".", "!", "。", "！", ";"))
    )
    return inner.rstrip(":：") if ends or short else ""


def imports(content: str) -> Iterator[str]:
    """Yield the paths that a text imports, ``@docs/style.md``, outside of code."""
    if "@" not in content:
        return
    fences = Fences()
    for line in content.split("\n"):
        if not fences.code(line):
            for match in re.finditer(
                r"(?<![\w@/.\\])@([\w.~/\\\-][^\s`'\"<>()\[\]{}|*,;]*)", without_spans(line)
            ):
                yield match[1].rstrip(".:!?。，：；！？、）")
