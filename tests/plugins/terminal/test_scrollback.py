"""The scrollback after a long answer: the real program's bytes in xterm.js and in pyte.

Both terminals must contain each line of the answer once, and the same rows.
"""

import json
import os
import re
import shutil
import subprocess
import unicodedata
from collections import Counter
from pathlib import Path

import pytest
from hilum.messages import AssistantMessage, Text
from hilum_replay import Answer, serve
from terminal_programs import on_screen

PROGRAM = Path(__file__).parent / "xterm.js"
# The folder of CI, or one in the repository.
FOLDER = Path(os.environ.get("NPM_SERVERS") or Path(__file__).parents[3] / ".ci" / "npm").absolute()
LINES = 40
# hilum ends an answer that is longer than 524,288 characters, so 1 MB takes several answers.
ANSWER_SIZE = 250_000
# Without emoji that consist of several characters, about whose width terminals disagree.
SECTION = """## Section <{n}>

The function `parse_{n}` reads **one line** at a time and returns a list of fields, which the caller
joins again. It handles quotes, blanks and 中文字符 in names and e\u0301 in words, and ends at <p{n}>.

- item <i{n}> with some words behind it, and so many of them that the item needs several rows in a
  narrow window
- item <j{n}> with a [link](https://example.com/{n})

| name | value | meaning |
|---|---|---|
| <t{n}> | {n} | a cell with a few more words that is wrapped |

> A quotation <q{n}> of somebody

```python
def parse_{n}(text: str) -> list[str]:  # <c{n}>
    return [field.strip() for field in text.split("|")]
```
"""
MARKS = ("", "p", "i", "j", "t", "q", "c")

pytestmark = pytest.mark.skipif(
    shutil.which("node") is None or not (FOLDER / "node_modules" / "@xterm" / "headless").is_dir(),
    reason="needs Node.js and xterm.js: npm install --prefix .ci/npm @xterm/headless",
)


def make_answers(size):
    """Return Markdown answers with this number of characters in total, and their sections."""
    answers = []
    number = 0
    while size > 0:
        parts = []
        length = 0
        while length < min(size, ANSWER_SIZE):
            parts.append(SECTION.format(n=number))
            length += len(parts[-1])
            number += 1
        size -= length
        answers.append("\n".join(parts))
    return answers, number


def interpret(data, columns):
    """Return the rows that xterm.js shows for these bytes."""
    done = subprocess.run(
        ["node", str(PROGRAM), str(FOLDER), str(columns), str(LINES)],
        input=data,
        capture_output=True,
        check=True,
        timeout=60,
    )
    rows = json.loads(done.stdout)
    assert not any(continues for _, continues in rows), "no row was wider than the terminal"
    # pyte composes characters, xterm.js does not.
    return [unicodedata.normalize("NFC", text).rstrip() for text, _ in rows]


def count_marks(rows):
    """Return how often each mark of a section is in the rows."""
    return Counter(re.findall(r"<([pijtqc]?\d+)>", "\n".join(rows)))


async def check(warm, folder, columns, size):
    """Run the program until it has shown answers of this size, and check both scrollbacks."""
    answers, sections = make_answers(size)
    left = list(answers)

    def answer(request):
        return Answer(AssistantMessage((Text(left.pop(0), "model"),), stop="end"))

    async with (
        serve(answer, pace=0.0) as server,
        on_screen(warm, folder, server.url, columns=columns, lines=LINES) as screen,
    ):
        await screen.wait_for("ready")
        for number in range(len(answers)):
            await screen.type(f"Go {number}\r")
            await screen.wait_until(
                lambda end=number + 1: bytes(screen.raw).count(b"1 turn ") == end,
                f"the end of answer {number}",
                seconds=60,
            )
            # Another session, because the kernel would compact this one with a model call.
            await screen.type("/clear\r")
            await screen.wait_until(
                lambda end=number + 1: bytes(screen.raw).count(b"a new conversation") == end,
                "the next session",
            )
        await screen.wait_until(
            lambda: any(row.startswith("ready") for row in screen.rows), "ready"
        )
        data = bytes(screen.raw)
        rows = screen.text.split("\n")
    shown = interpret(data, columns)
    while shown and not shown[-1]:
        shown.pop()
    expected = {f"{mark}{number}" for number in range(sections) for mark in MARKS}
    for name, found in (("xterm.js", count_marks(shown)), ("pyte", count_marks(rows))):
        assert expected - set(found) == set(), f"missing in {name}"
        assert [mark for mark, times in found.items() if times > 1] == [], f"double in {name}"
    assert shown == rows


@pytest.mark.slow(cases=1)
@pytest.mark.parametrize("columns", [60, 80, 200])
async def test_each_line_of_an_answer_is_there_once(warm, tmp_path, columns):
    await check(warm, tmp_path, columns, 20_000)


@pytest.mark.slow(cases=0)
@pytest.mark.parametrize("columns", [60, 80, 200])
async def test_each_line_of_a_long_conversation_is_there_once(warm, tmp_path, columns):
    await check(warm, tmp_path, columns, 1_000_000)
