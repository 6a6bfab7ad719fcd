"""Parses the text of a rules file into drafts of rules, before imports and types are resolved."""

from __future__ import annotations

import re
import sys
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from itertools import pairwise

import attrs

from hilum_rules.blocks import Block, split_blocks
from hilum_rules.comments import Comment, FenceTracker, blank_code_spans, remove_comments
from hilum_rules.hidden_characters import report_hidden, reveal
from hilum_rules.rule import Enforce, Problems

MAX_TITLE_WORDS = 6
"""Maximum number of words in a bold line that counts as a heading."""
MAX_TITLE_LENGTH = 60
BOLD_LEVEL = 7
"""The heading level of a bold line: below all other levels."""
MIN_RULE_WORDS = 3
"""Minimum number of words for a heading with nothing under it to count as a rule."""
MAX_NESTING = 30
"""Maximum nesting depth of headings and tags. Deeper tags are ignored."""

_ENFORCE = re.compile(
    r"^[ \t>]*(?:[-*+][ \t]+)?`?enforce[ \t]*[:：][ \t]*(.*?)`?[ \t]*$", re.IGNORECASE
)
_BOLD = re.compile(r"(\*\*|__)(?!\s)([^\n]*?)\1[ \t]*[:：]?$")
_COLONS = (":", "：")


@attrs.frozen
class Draft:
    """A text that may become a rule.

    Attributes:
        content: The text.
        line: The line in the file, from 1.
        titles: The headings above the draft, outermost first.
        lead: The line that introduces the draft's list, such as ``You must never:``.
        depth: The nesting depth in lists; -1 outside lists and tables.
        enforce: The ``enforce:`` lines that belong to the draft.
        is_row: Whether the draft is a row of a table.
        path: The displayed path of the draft's file, once its imports are resolved.
    """

    content: str
    line: int
    titles: tuple[str, ...] = ()
    lead: str = ""
    depth: int = 0
    enforce: tuple[Enforce, ...] = ()
    is_row: bool = False
    path: str = ""


def parse_drafts(text: str, first: int = 1) -> tuple[list[Draft], Problems]:
    """Parse the body of a rules file.

    Args:
        text: The body, with ``\\n`` as newlines.
        first: The line of the file on which the body begins.

    Returns:
        The drafts in order, and the problems: parts that were left out or are unusual.
    """
    # Hidden characters are replaced first, so that none of them affects the steps below.
    # Blank lines take the place of the front matter, so that line numbers are those of the file.
    text, hidden = reveal("\n" * (first - 1) + text)
    lines, comments = remove_comments(text.split("\n"))
    problems = report_hidden(hidden)
    # Comments were removed before this step, so that their lines are not read twice.
    checks = _take_enforce_lines(lines, comments)
    problems += _report_comments(comments)
    builder = _DraftBuilder()
    for block, following in pairwise([*split_blocks(lines), None]):
        if block is not None:
            builder.add_block(block, following)
    builder.end_headings(0)
    drafts = _attach(builder.drafts, builder.sections, checks)
    return drafts, problems + builder.problems


def _report_comments(comments: Sequence[Comment]) -> Problems:
    problems: Problems = []
    for comment in comments:
        if not comment.closed:
            message = (
                "A comment '<!--' is opened here and never closed: what follows is read as text."
            )
        elif _is_enforce(comment) or not comment.text.strip():
            continue
        else:
            lines = comment.text.count("\n") + 1
            what = "A comment" if lines == 1 else f"A comment of {lines} lines"
            message = f"{what} is left out, because readers of the page do not see it."
        problems.append((comment.line, message))
    return problems


# --- enforce lines --------------------------------------------------------------------------------


def _is_enforce(comment: Comment) -> bool:
    return _ENFORCE.match(comment.text.strip().split("\n")[0]) is not None


def _take_enforce_lines(lines: list[str], comments: Sequence[Comment]) -> list[Enforce]:
    """Remove the ``enforce:`` lines from a text, and return them and those in comments."""
    found = []
    fences = FenceTracker()
    for index, line in enumerate(lines):
        match = None if fences.is_code(line) else _ENFORCE.match(line)
        if match:
            found.append(Enforce(index + 1, match[1].strip()))
            lines[index] = ""
    for comment in comments:
        if _is_enforce(comment):
            for number, line in enumerate(comment.text.split("\n"), comment.line):
                text = _ENFORCE.sub(r"\1", line, count=1).strip()
                if text:
                    found.append(Enforce(number, text))
    return sorted(found, key=lambda check: check.line)


def _attach(drafts: list[Draft], sections: list[int], checks: list[Enforce]) -> list[Draft]:
    """Return drafts with each ``enforce:`` line attached to the rule above it in its section.

    If there is no such rule, the line becomes a separate rule.
    """
    bounds = [0, *sections, sys.maxsize]
    for check in checks:
        section = bisect_right(bounds, check.line)
        following = bisect_right(drafts, check.line, key=lambda draft: draft.line)
        if following and drafts[following - 1].line > bounds[section - 1]:
            above = drafts[following - 1]
            drafts[following - 1] = attrs.evolve(above, enforce=(*above.enforce, check))
            continue
        below = drafts[following : following + 1]
        titles = next((each.titles for each in below if each.line <= bounds[section]), ())
        own = Draft(f"enforce: {check.text}", check.line, titles, enforce=(check,))
        drafts.insert(following, own)
    return drafts


# --- blocks to drafts -----------------------------------------------------------------------------


class _DraftBuilder:
    """Converts blocks into drafts."""

    def __init__(self) -> None:
        self.drafts: list[Draft] = []
        self.sections: list[int] = []  # the lines on which a section begins or ends
        self.problems: Problems = []
        # Level and text of each heading; level 0 means a tag.
        self.titles: list[tuple[int, str]] = []
        # Level and text of the lines that introduce the current list: list items, which introduce
        # nested items, and at level -1 the line above the list.
        self.leads: list[tuple[int, str]] = []
        self.is_lead_new = False  # whether nothing has followed the lead yet
        self.takes_code = False  # whether a following code block belongs to the last draft
        self.open_headings: list[Block] = []  # headings with nothing under them yet

    def add_block(self, block: Block, following: Block | None) -> None:
        """Add the next block; ``following`` is the block after it."""
        if block.kind in ("heading", "tag"):
            self.begin_section(block)
        elif block.kind == "code":
            self.add_code(block)
        elif block.kind == "line":
            self.takes_code = False
            # The line above a list does not introduce a table that follows the list.
            if not self.is_lead_new:
                self.leads = []
        elif block.text and not self.introduces(block, following):
            self.add_draft(block)
            self.takes_code = True

    def begin_section(self, block: Block, title: str = "") -> None:
        """Begin the section below a heading or tag; the title is the block's text by default."""
        self.sections.append(block.line)
        self.leads = []
        self.takes_code = False
        if block.kind == "tag":
            if block.level <= 0 and self.open_headings:
                self.end_headings(self.open_headings[-1].level)
            self.add_tag(block)
        else:
            self.end_headings(block.level)
            _drop_levels(self.titles, block.level)
            self.titles.append((block.level, title or " ".join(block.text.split())))
            self.open_headings.append(block)

    def add_tag(self, block: Block) -> None:
        name = block.text.replace("_", " ").replace("-", " ")
        if block.level > 0 and len(self.titles) < MAX_NESTING:
            self.titles.append((0, name))
        elif block.level < 0 and (0, name) in self.titles:
            while self.titles.pop() != (0, name):
                pass

    def end_headings(self, level: int) -> None:
        """End the headings of this or a deeper level that have nothing under them.

        The innermost heading becomes a rule itself (``# Never push to main``), or is reported.
        """
        has_inner = False
        while self.open_headings and self.open_headings[-1].level >= level:
            block = self.open_headings.pop()
            if not _is_rule(block):
                message = f"There is nothing under the heading {block.text[:60]!r}."
                self.problems.append((block.line, message))
            elif not has_inner:
                titles = tuple(text for depth, text in self.titles if depth < block.level)
                self.drafts.append(Draft(block.text, block.line, titles))
                self.open_headings = []
            has_inner = True

    def add_code(self, block: Block) -> None:
        if block.level < 0:
            message = (
                "A code block is opened here and never closed: everything that follows is code."
            )
            self.problems.append((block.line, message))
        if self.takes_code:
            last = self.drafts[-1]
            self.drafts[-1] = attrs.evolve(last, content=f"{last.content}\n{block.text}")
        else:
            self.add_draft(block)

    def introduces(self, block: Block, following: Block | None) -> bool:
        """Return whether a paragraph or list item introduces the next block, and remember it."""
        if block.kind == "text":
            self.leads = []
            return following is not None and self.introduces_as_text(block, following)
        _drop_levels(self.leads, block.level)
        if following is None or block.kind != "item" or following.kind != "item":
            return False
        is_lead = _ends_with_colon(block.text) or _bold_title(block.text)
        if following.level <= block.level or not is_lead:
            return False
        self.leads.append((block.level, block.text))
        return True

    def introduces_as_text(self, block: Block, following: Block) -> bool:
        title = _bold_title(block.text)
        if title and following.kind in ("item", "row", "text", "code"):
            # If nothing follows the bold title, the whole line becomes a rule, not only the title.
            self.begin_section(block._replace(level=BOLD_LEVEL), title)
            return True
        # The head of a table is a line with its cells.
        is_table = following.kind == "line" and "|" in following.text
        if (following.kind in ("item", "row") or is_table) and _ends_with_colon(block.text):
            earlier, lead = _split_lead(block.text)
            if earlier:
                self.add_draft(block._replace(text=earlier))
            self.leads = [(-1, lead)]
            self.is_lead_new = True
            return True
        return False

    def add_draft(self, block: Block) -> None:
        self.open_headings = []
        self.is_lead_new = False
        lead = "\n".join(text for _, text in self.leads)
        depth = {"item": block.level, "row": 0}.get(block.kind, -1)
        titles = tuple(text for _, text in self.titles)
        is_row = block.kind == "row"
        self.drafts.append(Draft(block.text, block.line, titles, lead, depth, is_row=is_row))


def _drop_levels(nested: list[tuple[int, str]], level: int) -> None:
    """Remove the innermost texts at a level or deeper from the texts around a block."""
    while nested and nested[-1][0] >= level:
        nested.pop()


def _is_rule(heading: Block) -> bool:
    """Return whether a heading with nothing under it is worded as a rule."""
    if heading.level == BOLD_LEVEL or len(heading.text.split()) >= MIN_RULE_WORDS:
        return True
    return re.search(r"[\u3040-\u9fff\uac00-\ud7a3]{4}", heading.text) is not None


def _ends_with_colon(text: str) -> bool:
    return text.rstrip("*_").endswith(_COLONS)


def _split_lead(text: str) -> tuple[str, str]:
    """Return the sentences before the one that introduces a list, and this sentence.

    In "Never use `x`. It is slow. Use instead:", the first sentence is a rule of its own.
    """
    found = re.fullmatch(r"(.*[.!。！][*_]*)(?:\s+|(?<=[。！]))([^.!。！]+)", text, re.DOTALL)
    return (found[1], found[2]) if found else ("", text)


def _bold_title(text: str) -> str:
    """Return the heading that a bold line represents, or nothing if the line is a sentence."""
    text = text.strip()
    found = _BOLD.match(text)
    if not found or "**" in found[2]:
        return ""
    inner = found[2].strip()
    if inner.endswith(_COLONS) or text.endswith(_COLONS):
        return inner.rstrip(":：")
    is_long = len(inner.split()) > MAX_TITLE_WORDS or len(inner) > MAX_TITLE_LENGTH
    return "" if is_long or inner.endswith((".", "!", "。", "！", ";")) else inner


# --- imports --------------------------------------------------------------------------------------

_IMPORT = re.compile(r"(?<![\w@/.\\])@([\w.~/\\\-][^\s`'\"<>()\[\]{}|*,;]*)")


def find_imports(content: str) -> Iterator[str]:
    """Yield the paths that a text imports outside code, such as ``@docs/style.md``."""
    if "@" not in content:
        return
    fences = FenceTracker()
    for line in content.split("\n"):
        if not fences.is_code(line):
            for found in _IMPORT.finditer(blank_code_spans(line)):
                # Punctuation after the name ends the sentence.
                yield found[1].rstrip(".:!?。，：；！？、）")
