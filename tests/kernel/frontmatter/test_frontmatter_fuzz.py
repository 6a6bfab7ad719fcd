"""Whatever stands in a file: reading it never fails, takes bounded time and memory, and drops
nothing in silence.
"""

import random
import re

import yaml
from hilum.frontmatter import Document, flag, globs, names, number, read, text
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

SLOW = settings(suppress_health_check=list(HealthCheck))
# What YAML and files in the field are made of; words are unique, so that each can be looked for.
MARKS = [
    *(
        ":",
        ": ",
        "：",
        " #",
        "- ",
        "\n",
        "\n  ",
        "\n- ",
        "\r\n",
        "\t",
        "'",
        '"',
        "|",
        ">",
        "[",
        "]",
        "{",
        "}",
        ",",
        "*",
        "&",
        "!",
    ),
    *(
        "!!str ",
        "@",
        "%",
        "`",
        "?",
        "---",
        "\n---\n",
        "...",
        "~",
        "<<: ",
        "\\",
        "\\x",
        "\u2028",
        "\x00",
        "\ufeff",
    ),
]
TEXT = st.text("xyz", min_size=1)
KEYS = [
    "name",
    "description",
    "globs",
    "tools",
    "allowed-tools",
    "metadata",
    "alwaysApply",
    "a b",
    '"q"',
]


def words(count: int) -> list[str]:
    return [f"w{number}w" for number in range(count)]


@st.composite
def front(draw: st.DrawFn) -> str:
    """Lines that look like front matter, with every kind of mistake."""
    lines, fresh = [], iter(words(1_000))
    for _ in range(draw(st.integers(0, 8))):
        parts = [
            next(fresh) if draw(st.booleans()) else draw(st.sampled_from(MARKS))
            for _ in range(draw(st.integers(0, 6)))
        ]
        joint = draw(st.sampled_from(["", " "]))
        key = draw(st.sampled_from([*KEYS, "", "  - ", "  "]))
        lines.append((f"{key}: " if key.strip() not in {"", "-"} else key) + joint.join(parts))
    return "\n".join(lines)


def told(document: Document, inner: str, first: int) -> None:
    """Each word is in the fields, or in a comment, or a problem names its line or one of the same
    key.
    """
    kept, lines = repr(document.fields) + repr(document.body), re.split("\r\n|\n|\r", inner)
    named = {problem.line for problem in document.problems}
    named |= {
        int(line)
        for problem in document.problems
        for line in re.findall(r"on line (\d+)", problem.message)
    }
    for number_, line in enumerate(lines, first):
        for word in re.findall(r"w\d+w", line):
            comment = re.search(rf"(^|\s)#.*{word}", line)
            assert word in kept or comment or named & set(range(first, number_ + 1)), (
                word,
                document,
            )


@SLOW
@given(front())
@example("name: a\nname: w1w")
@example("w1w\n- w2w")
@example("a: b\n---\nw1w: w2w")
def test_every_word_is_kept_or_its_loss_is_told(inner):
    document = read(f"---\n{inner}\n---\nBody\n")
    told(document, inner, 2)
    for key in [*document.fields, "missing"]:
        (
            text(document, key),
            flag(document, key),
            number(document, key),
            names(document, key),
            globs(document, key),
        )
        assert document.lines.get(key, 1) >= 1


def strings(value: object) -> object:
    """What a loader that knows only texts gives, with empty values as ours."""
    if isinstance(value, dict):
        return {key: strings(inner) for key, inner in value.items()}
    return [strings(inner) for inner in value] if isinstance(value, list) else value


KEY = st.text("abc-_ é中", min_size=1).map(str.strip).filter(bool)
VALUE = st.recursive(
    st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)


@SLOW
@given(st.dictionaries(KEY, VALUE, max_size=3))
def test_what_a_yaml_library_writes_is_read_back_the_same(fields):
    written = yaml.safe_dump(fields, allow_unicode=True)
    if re.search(
        "[^\t\n\x20-\x7e\xa0-\u2027\u202a-\ud7ff\ue000-\ufefe\uff00-\ufffd\U00010000-\U0010ffff]",
        written,
    ):
        written = yaml.safe_dump(fields)
    document = read(f"---\n{written}---\nBody\n")
    assert document.fields == fields
    assert document.problems == ()


@SLOW
@given(
    st.text() | st.text(alphabet=st.characters(codec="utf-8"), max_size=200),
    st.sampled_from(["", "---\n", "---\r\n", "\n---\n"]),
)
def test_any_text_is_read(noise, fence):
    document = read(fence + noise)
    assert document.line >= 1
    lines = re.split("\r\n|\n|\r", (fence + noise).removeprefix("\ufeff"))
    assert document.line <= len(lines) + 1
    if document.body:
        assert lines[document.line - 1] == document.body.split("\n")[0]


@SLOW
@given(st.binary(max_size=300))
def test_bytes_that_are_text_are_read_as_that_text_and_others_are_told(data):
    for whole in (data, b"---\n" + data + b"\n---\n"):
        document = read(whole)
        try:
            text = whole.decode()
        except UnicodeDecodeError:
            assert document.problems
            continue
        if "\0" in text:  # perhaps of an encoding with two bytes a letter
            assert document.problems
        else:
            assert document == read(text)


def test_a_good_file_with_random_bytes_changed_keeps_its_other_keys():
    good = b"---\nname: pdf\ndescription: Reads files. Use when needed.\n"
    good += b"allowed-tools: Read Bash(git:*)\nmetadata:\n  v: '1.0'\n---\nBody\n"
    chance = random.Random(7)
    for _ in range(500):
        data = bytearray(good)
        for _ in range(chance.randint(1, 3)):
            at = chance.randrange(len(data))
            if chance.random() < 0.5:
                data[at] = chance.choice(b":#-[]{}'\"|>&*!%@`\t\n ,?\\\x00\xff")
            else:
                data[at:at] = bytes([chance.choice(b":#-[]{}'\"|>&*!%@`\t\n ,?\\\x00\xff")])
        document = read(bytes(data))
        kept = repr(document.fields) + document.body
        for word in ("pdf", "Reads files", "Bash", "Body"):
            if word.encode() in data and not re.search(rb"#.*" + word.encode(), bytes(data)):
                assert word in kept or document.problems, (bytes(data), document)
