"""One rules file, parsed but without its imports."""

from __future__ import annotations

import time

import attrs

from hilum_rules.front_matter import FrontMatter, read_front_matter
from hilum_rules.parsing import Draft, parse_drafts
from hilum_rules.rule import Problems
from hilum_rules.source import Source, digest_text

TABLE = "table"
"""The format of ``rules.toml``."""
RACY_TIME = 2_000_000_000
"""Time, in nanoseconds, within which a file may change twice without a new timestamp."""


@attrs.frozen
class ParsedFile:
    """A rules file before its imports are resolved.

    Attributes:
        source: The contents.
        front_matter: When the rules in the file are active.
        drafts: The drafts of the rules in the file.
        problems: Problems, each as a line number and a sentence.
        text_hash: SHA-256 of the text without front matter and whitespace.
        read_at: When the file was read, as Unix time in nanoseconds.
    """

    source: Source
    front_matter: FrontMatter
    drafts: list[Draft]
    problems: Problems
    text_hash: str
    read_at: int

    @property
    def may_have_changed(self) -> bool:
        """Whether the file may have changed after it was read, without a new timestamp."""
        return self.read_at - self.source.stamp.modified <= RACY_TIME

    def read_again(self, source: Source) -> ParsedFile:
        """Return the file after it was read with the same contents as before."""
        return attrs.evolve(self, source=source, read_at=time.time_ns())


def parse_source(source: Source, dialect: str) -> ParsedFile:
    """Parse the contents of a file.

    Args:
        source: The contents.
        dialect: The format.
    """
    data = source.data
    is_cut = source.size > len(data)
    if is_cut:
        # Drop the last, incomplete line: half of "never push without approval" means something
        # else.
        data = data[: data.rfind(b"\n") + 1] or data
    if dialect == TABLE:
        # Imported here, because most projects have no such file.
        from hilum_rules.rules_toml import parse_rules_toml

        text = data.decode("utf-8-sig", errors="replace").replace("\r\n", "\n")
        front_matter = FrontMatter(text, [])
        drafts, problems = parse_rules_toml(text)
    else:
        front_matter = read_front_matter(data, dialect)
        drafts, problems = parse_drafts(front_matter.body, front_matter.line)
    problems = [*front_matter.problems, *problems]
    if is_cut:
        message = f"The rest is not read: only {len(data):,} of the {source.size:,} bytes are."
        problems.append((data.count(b"\n") + 1, message))
    text_hash = digest_text(" ".join(front_matter.body.split()))
    return ParsedFile(source, front_matter, drafts, problems, text_hash, time.time_ns())
