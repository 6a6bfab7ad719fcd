"""How a streaming answer is divided into finished blocks."""

from __future__ import annotations

import functools
import random

from hilum_terminal.markdown_blocks import (
    LINE_COST,
    MAX_CREDIT,
    PARSED_PER_CHARACTER,
    Block,
    MarkdownBlocks,
    PieceSizes,
    block_parser,
)
from hilum_terminal.text_width import escape_text
from markdown_it.token import Token

HOSTILE = """\
```py
```
````
~~~
~~~ text
   ```
    ```
\t```
code
    indented code
\ttab

# Heading
#
Setext
===
---
***
- item
-
* star
+ plus
  nested in item
   - item at three
1. one
2) two
10. ten
  ```js
  in the item
  ```
    > quote in item
> quote
>
> - list in quote
> ```
>> nested
lazy
<div>
</div>
<!-- comment
-->
<script>
</script>
<?php
text <b>html</b>
<b>
[a]: http://example.com
[b]:
http://example.com
'title
title'
[a][b]
| a | b |
|---|--:|
| 1 | 2 |
a | b
-|-
|
\x1b[1m```\x1b[0m
\x1b[31m- red\x1b[0m
lone\rreturn
中文 text
\u200b# invisible
 \t
&#10; entity
\\# escaped"""


def random_document(rng: random.Random, most_lines: int = 14) -> str:
    fragments = HOSTILE.split("\n")
    lines = []
    for _ in range(rng.randint(1, most_lines)):
        line = rng.choice(fragments)
        if rng.random() < 0.15:
            line = rng.choice(["  ", "   ", "    ", "> ", "- ", "\t"]) + line
        lines.append(line)
        if rng.random() < 0.25:
            lines.append("")
    end = rng.choice(["\n", "", "\r\n", "\n\n"])
    newline = "\r\n" if rng.random() < 0.1 else "\n"
    return newline.join(lines) + end


def split(source: str, rng: random.Random, sizes: PieceSizes | None = None) -> list[Block]:
    splitter = MarkdownBlocks(sizes)
    blocks: list[str] = []
    done = 0
    while done < len(source):
        size = rng.randint(1, 9)
        blocks += splitter.feed(source[done : done + size])
        done += size
        assert "".join(blocks) + splitter.tail == source[:done]
    blocks += splitter.finish()
    assert splitter.tail == ""
    return [block if isinstance(block, Block) else Block(block) for block in blocks]


def structure(source: str) -> list[list[tuple[object, ...]]]:
    """Return the tokens of each top-level block."""
    groups: list[list[tuple[object, ...]]] = []
    tokens: list[Token] = block_parser().parse(source)
    for token in tokens:
        if token.level == 0 and token.nesting >= 0:
            groups.append([])
        start = token.attrs.get("start")
        groups[-1].append(
            (token.type, token.level, token.markup, token.info, token.content, start, token.hidden)
        )
    return groups


def test_blocks_are_the_top_level_blocks_of_the_whole_document() -> None:
    wrong = []
    for seed in range(700):
        rng = random.Random(seed)
        source = random_document(rng)
        blocks = split(source, rng)
        assert "".join(blocks) == source
        parts = [structure(escape_text(block)) for block in blocks]
        is_same = [group for part in parts for group in part] == structure(escape_text(source))
        if not is_same or any(len(part) > 1 for part in parts):
            wrong.append((seed, source, [str(block) for block in blocks]))
    assert not wrong[:3]


def test_pieces_of_long_blocks_form_the_same_blocks() -> None:
    """Lists, quotes, code and tables may be divided; paragraphs are compared as text."""
    sizes = PieceSizes(fence=40, html=40, list=40, quote=40, indented=40, table=60)
    wrong = []
    pieces = 0
    for seed in range(700):
        rng = random.Random(seed)
        source = random_document(rng, most_lines=40)
        blocks = split(source, rng, sizes)
        assert "".join(blocks) == source
        pieces += sum(block.continued for block in blocks)
        expected = [flat(group) for group in structure(escape_text(source))]
        if without_blank_lines(joined(blocks)) != without_blank_lines(expected):
            wrong.append((seed, source, [str(block) for block in blocks]))
    assert not wrong[:3]
    assert pieces > 500


def flat(group: list[tuple[object, ...]]) -> tuple[object, ...]:
    """Return what must be equal for a block and for its pieces put together."""
    kind = group[0][0]
    if kind in ("fence", "html_block", "code_block"):
        return (kind, group[0][3], group[0][4])
    if kind == "table_open":
        return (kind, *(token[4] for token in group if token[0] == "inline"))
    # Whether a list is tight may differ between its pieces.
    inner = tuple(token[:6] for token in group)
    return inner[:-1] if str(kind).endswith("list_open") or kind == "blockquote_open" else inner


def without_blank_lines(groups: list[tuple[object, ...]]) -> list[tuple[object, ...]]:
    """Return groups without blank lines in code; those between two pieces belong to neither."""
    compared = []
    for group in groups:
        if group[0] in ("fence", "html_block", "code_block"):
            lines = [line for line in str(group[2]).split("\n") if line.strip()]
            group = (*group[:2], *lines)
        compared.append(group)
    return compared


def joined(blocks: list[Block]) -> list[tuple[object, ...]]:
    groups: list[tuple[object, ...]] = []
    for block in blocks:
        source = escape_text(block)
        if block.continued and block.kind == "html":
            last = groups[-1]
            groups[-1] = (*last[:2], f"{last[2]}{source}")
            continue
        parts = [flat(group) for group in structure(block.opening + source)]
        if block.continued:
            groups[-1] = continue_group(groups[-1], parts.pop(0), block)
        groups += parts
    return groups


def continue_group(
    last: tuple[object, ...], part: tuple[object, ...], block: Block
) -> tuple[object, ...]:
    if block.kind in ("fence", "indented"):
        return (*last[:2], f"{last[2]}{part[2]}")
    if block.kind == "table":
        header = structure(block.opening)[0]
        columns = sum(token[0] == "th_open" for token in header)
        return (*last, *part[1 + columns :])
    assert block.kind in ("list", "quote")
    return (*last, *part[1:])


@functools.cache
def feed_all(source: str, size: int = 7) -> tuple[MarkdownBlocks, list[Block]]:
    splitter = MarkdownBlocks()
    blocks: list[str] = []
    for start in range(0, len(source), size):
        blocks += splitter.feed(source[start : start + size])
    blocks += splitter.finish()
    assert "".join(blocks) == source
    return splitter, [block for block in blocks if isinstance(block, Block)]


LONG = {
    "fence": "```py\n" + "x = 1\n" * 6_000,
    "list": "".join(f"{n}. item\n" for n in range(1, 3_000)),
    "loose list": "- item\n\n" * 3_000,
    "table": "| a | b |\n|---|---|\n" + "| one | two |\n" * 2_000,
    "quote": "> line\n>\n" * 3_000,
    "one quoted paragraph": "> line\n" * 3_500,
    "list in an item": "- a\n" + "  - b\n" * 3_500,
    "indented code": "    code\n" * 3_000,
    "comment": "<!--\n" + "text\n\n" * 5_000,
    "paragraph": "some words\n" * 10_000,
    "paragraphs": "some words\n\n" * 2_500,
    "one line": "word " * 20_000,
    "one line without blanks": "x" * 250_000,
    "item of one line": "- " + "word " * 20_000,
    "blank lines": "\n" * 20_000,
    "definitions": "[a]: http://example.com\n" * 1_000,
}


def test_work_for_each_character_does_not_grow_with_the_answer() -> None:
    wrong = []
    for name, source in LONG.items():
        splitter, _ = feed_all(source)
        # What the end needs is parsed without credit.
        at_the_end = len(source) + LINE_COST * source.count("\n")
        if (
            splitter.parsed_characters
            > PARSED_PER_CHARACTER * len(source) + MAX_CREDIT + at_the_end
        ):
            wrong.append((name, splitter.parsed_characters / len(source)))
    assert not wrong


def test_long_blocks_come_out_in_pieces() -> None:
    sizes = {}
    for name, source in LONG.items():
        _, blocks = feed_all(source)
        sizes[name] = max(map(len, blocks))
    inseparable = {"one quoted paragraph", "list in an item", "item of one line", "blank lines"}
    inseparable |= {"definitions"}
    too_long = {name: size for name, size in sizes.items() if size > 110_000}
    assert not too_long
    small = {name for name, size in sizes.items() if size < 20_000}
    assert set(LONG) - small == inseparable | {"one line", "one line without blanks", "paragraph"}


def test_a_fence_is_reopened_with_its_info() -> None:
    _, blocks = feed_all("text\n\n  ~~~~ py title=x\n" + "x = 1\n" * 5000 + "  ~~~~\nafter\n")
    pieces = [block for block in blocks if block.continued]
    assert len(pieces) >= 1
    assert {(piece.kind, piece.opening) for piece in pieces} == {("fence", "  ~~~~ py title=x\n")}
    assert not blocks[1].continued
    assert not blocks[-1].continued
    assert blocks[-1] == "after\n"


def test_a_list_keeps_its_numbers() -> None:
    _, blocks = feed_all("7. item\n" + "1. item\n" * 3000)
    numbers = [block.number for block in blocks]
    counts = [block.count("item") for block in blocks]
    expected = [None, *(7 + sum(counts[:index]) for index in range(1, len(counts)))]
    assert len(blocks) > 3
    assert numbers == expected


def test_pieces_of_a_table_know_its_header_and_the_first_piece() -> None:
    header = "| name | n |\n|---|--:|\n"
    _, blocks = feed_all(header + "| some name | 1 |\n" * 2000 + "\nafter")
    pieces = blocks[1:-1]
    assert len(pieces) > 3
    assert {piece.opening for piece in pieces} == {header}
    assert {piece.first_piece for piece in pieces} == {str(blocks[0])}
    assert (blocks[-1], blocks[-1].continued) == ("after", False)


def test_the_rest_of_a_long_paragraph_stays_a_paragraph() -> None:
    for source in ("word " * 22_000, "words\n" * 18_000):
        _, blocks = feed_all(source + "\n# Heading\n")
        assert [block.kind for block in blocks] == ["any", "paragraph", "any"]
    _, blocks = feed_all("x" * 100_008 + "\n2. no list\n")
    assert [block.kind for block in blocks] == ["any", "paragraph"]


def test_a_block_is_finished_as_soon_as_its_last_line_shows_it() -> None:
    cases = [
        ("# Heading\n", "# Heading\n"),
        ("Setext\n===\n", "Setext\n===\n"),
        ("---\n", "---\n"),
        ("text\n\n", "text\n\n"),
        ("text\n", ""),
        ("text\n# H", ""),
        ("text\n# H\n", "text\n# H\n"),
        ("```\ncode\n```\n", "```\ncode\n```\n"),
        ("````\ncode\n```\n", ""),
        ("```\ncode\n    ```\n", ""),
        ("```\ncode\n```", ""),
        ("| a |\n|---|\n| 1 |\n", ""),
        ("| a |\n|---|\n| 1 |\n\n", "| a |\n|---|\n| 1 |\n\n"),
        ("> quote\n\n", "> quote\n\n"),
        ("- item\n\n", ""),
        ("- item\n\ntext", ""),
        ("- item\n\ntext\n", "- item\n\n"),
        ("<!-- c\n-->\n", "<!-- c\n-->\n"),
        ("[a]: http://x\n", ""),
        ("text\n\n[a]: http://x\n", "text\n\n"),
    ]
    wrong = []
    for source, expected in cases:
        splitter = MarkdownBlocks()
        finished = "".join(splitter.feed(source))
        if finished != expected:
            wrong.append((source, finished))
    assert not wrong


def test_the_title_of_a_link_stays_with_its_definition() -> None:
    splitter = MarkdownBlocks()
    blocks: list[str] = []
    # After its third line, the title looks like a paragraph.
    for line in ("- item\n", "\n", "[a]: http://b.c\n", "'title\n", "more'\n", "\n", "end\n"):
        blocks += splitter.feed(line)
    blocks += splitter.finish()
    assert blocks == ["- item\n\n", "[a]: http://b.c\n'title\nmore'\n\n", "end\n"]


def test_an_answer_that_arrives_at_once_comes_out_in_pieces_too() -> None:
    for name, source in LONG.items():
        splitter = MarkdownBlocks()
        blocks = [*splitter.feed(source), *splitter.finish()]
        assert "".join(blocks) == source
        assert max(map(len, blocks)) < 110_000, name
