"""Lines that an edit adds: written exactly as the model sent them, or refused.

Never rewritten after a slip elsewhere.
"""

import random
from dataclasses import dataclass

import pytest
from hilum import ToolError
from hilum_files import EditError, apply_edit
from hilum_files.text import find_nearest

# file, old_string, new_string, file afterwards
AS_SENT = {
    "doubled space": ("a = 1\nb = 2\n", "a  =  1\nb = 2", "a  =  1\nc  =  3\nb = 2", "a = 1\nc  =  3\nb = 2\n"),
    "doubled space in a changed line": ("a = 1\nb = 2\n", "a  =  1\nb = 2", "a  =  5\nb = 2", "a  =  5\nb = 2\n"),
    "aligned columns": ("int   a  = 1;\nx;\n", "int a = 1;\nx;", "int a = 1;\nint bc = 2;\nx;",
                        "int   a  = 1;\nint bc = 2;\nx;\n"),
    "dash that the file has": ("a - b\nc\n\u2014\n", "a \u2013 b\nc", "a \u2013 b\nx \u2014 y\nc",
                               "a - b\nx \u2014 y\nc\n\u2014\n"),
    "plain quotes beside typographic ones": ("say \u201cx\u201d\nb\n", 'say "x"\nb', 'say "x"\nrun("y")\nb',
                                             'say \u201cx\u201d\nrun("y")\nb\n'),
    "trailing blanks": ("a = 1\nb = 2\n", "a = 1 \nb = 2", "a = 1 \nc = 3 \nb = 2", "a = 1\nc = 3 \nb = 2\n"),
    "trailing tab": ("a = 1\t\nb = 2\n", "a = 1\nb = 2", "a = 1\nc = 3\t\nb = 2", "a = 1\t\nc = 3\t\nb = 2\n"),
    "tab inside": ("x = 1\ny = 2\n", "x  = 1\ny = 2", "x  = 1\nz\t= 3\ny = 2", "x = 1\nz\t= 3\ny = 2\n"),
    "blank line of blanks": ("a = 1\nb = 2\n", "a = 1 \nb = 2", "a = 1 \n   \nb = 2", "a = 1\n   \nb = 2\n"),
    "shifted, inner blanks stay": ("def f():\n    a = 1\n    b = 2\n", "a = 1\nb = 2", "a = 1\nc  =  3  # x\nb = 2",
                                   "def f():\n    a = 1\n    c  =  3  # x\n    b = 2\n"),
    "tabs for spaces, inner tab stays": ("f() {\n  if (x) {\n    y();\n  }\n}\n", "\tif (x) {\n\t\ty();\n\t}",
                                         "\tif (x) {\n\t\tz(1,\t2);\n\t}", "f() {\n  if (x) {\n    z(1,\t2);\n  }\n}\n"),
    "a moved line is the file's": ("a = 1\nb = 2\nc = 3\n", "a  = 1\nb = 2\nc = 3", "b = 2\na  = 1\nc = 3",
                                   "b = 2\na = 1\nc = 3\n"),
    "an ellipsis in a kept line": ('log("...")\nb\n', 'log("\u2026")\nb', 'log("\u2026")\nx\nb', 'log("...")\nx\nb\n'),
}  # fmt: skip

REFUSED = {
    "quotes": ('a = "x"\nb\n', "a = \u201cx\u201d\nb", "a = \u201cx\u201d\nc = \u201cy\u201d\nb"),
    "quotes in a changed line": ('a = "x"\nb\n', "a = \u201cx\u201d\nb", "a = \u201cy\u201d\nb"),
    "quotes for which the file has plain ones and others": (
        'a = "x"\nb\n\u201cc\u201d\n', "a = \u201cx\u201d\nb", "a = \u201cx\u201d\nd = \u201cy\u201d\nb"),
    "dash after quotes": ('a = "x"\nb\n', "a = \u201cx\u201d\nb", "a = \u201cx\u201d\nc \u2014 d\nb"),
    "ellipsis after a dash": ("a - b\nc\n", "a \u2013 b\nc", "a \u2013 b\nx\u2026\nc"),
    "no-break space": ("a = 1\nb\n", "a\u00a0= 1\nb", "a\u00a0= 1\nc\u00a0= 2\nb"),
    "no-break space as indentation": ("f:\n    a = 1\n    b\n", "\u00a0\u00a0\u00a0\u00a0a = 1\n    b",
                                      "\u00a0\u00a0\u00a0\u00a0a = 1\n\u00a0\u00a0\u00a0\u00a0c\n    b"),
    "zero-width space": ("a - b\nc\n", "a \u2013 b\nc", "a \u2013 b\nx\u200by\nc"),
    "guillemets": ('a = "x"\nb\n', "a = \u201cx\u201d\nb", "a = \u201cx\u201d\nc = \u00aby\u00bb\nb"),
    "typography of a changed line": ("<p>\u201cHello\u201d world</p>\n", '<p>"Hello" world</p>', '<p>"Hello" there</p>'),
}  # fmt: skip


@pytest.mark.parametrize("name", AS_SENT)
def test_added_lines_are_written_as_sent(name: str) -> None:
    """Blanks, dashes, quotes and tabs of an added line stay, whatever slip a kept line has."""
    content, old, new, wanted = AS_SENT[name]
    assert apply_edit(content, old, new).content == wanted


@pytest.mark.parametrize("name", REFUSED)
def test_altered_typography_is_refused(name: str) -> None:
    """Where the model's text was altered typographically, typographic characters of new lines are
    not trusted.
    """
    content, old, new = REFUSED[name]
    with pytest.raises(EditError, match="typograph") as caught:
        apply_edit(content, old, new)
    assert caught.value.code == "E_NOT_FOUND"


def test_typography_is_kept_where_nothing_was_altered() -> None:
    """An exact match, and a slip of another kind, say nothing about typography."""
    for old in ("a = 1\nb", "a = 1 \nb"):
        assert (
            apply_edit("a = 1\nb\n", old, old + "\nc \u2014 \u201cd\u201d").content
            == "a = 1\nb\nc \u2014 \u201cd\u201d\n"
        )


# --- any slip -------------------------------------------------------------------------------------

WORDS = [
    "alpha",
    "beta(1)",
    "gamma[2]",
    "x = 1",
    "y == z",
    "'q'",
    '"r s"',
    "a - b",
    "# note",
    "-> int",
    "foo.bar",
    "wait...",
]
ADDED = [
    "new  one", "p\tq", "k =  'v'", 'm = "n  o"', "u - v", "w\u2014x", "\u201cy\u201d", "z\u00a0z", "end  ", "tab\t",
    "i\u2026", "fresh",
]  # fmt: skip


@dataclass
class Work:
    """A file, an edit of it with a slip in the kept lines, the line that is added, and how far the
    slip shifts lines.
    """

    lines: list[str]
    at: int
    old: list[str]
    new: list[str]
    added: str
    place: int
    shift: str = ""


def double_spaces(line: str) -> str:
    """Double every space inside of a line, outside of quotes."""
    body = line.lstrip()
    return line if '"' in body else line[: len(line) - len(body)] + body.replace(" ", "  ")


def make_typographic(line: str) -> str:
    """Write typographic quotes, dashes and ellipses for plain ones."""
    body = (
        line.lstrip()
        .replace('"', "\u201d")
        .replace("'", "\u2019")
        .replace(" - ", " \u2013 ")
        .replace("...", "\u2026")
    )
    return line[: len(line) - len(line.lstrip())] + body


SLIPS = {
    "doubled spaces": double_spaces,
    "typography": make_typographic,
    "trailing blanks": lambda line: line + "  ",
    "dedented": lambda line: line.removeprefix("    "),
    "moved in": lambda line: "   " + line,
    "exact": lambda line: line,
}


def make_work(rng: random.Random) -> tuple[str, Work]:
    """Make a file of distinct lines and an edit that adds one line between kept ones."""
    lines = [f"    {rng.choice(WORDS)} {rng.choice(WORDS)} item{number}" for number in range(12)]
    lines += rng.sample(["\u2014", "\u201c\u201d", "\u00a0x", "\u2026"], rng.randrange(3))
    at, size = rng.randrange(8), rng.randrange(2, 5)
    name = rng.choice(sorted(SLIPS))
    old = [SLIPS[name](line) for line in lines[at : at + size]]
    shift = {"dedented": "    ", "moved in": "   "}.get(name, "")
    indent = {"dedented": "", "moved in": "       "}.get(name, "    ")
    place = rng.randrange(1, size)
    added = f"{indent}{rng.choice(ADDED)} {rng.choice(ADDED)}"
    return name, Work(lines, at, old, [*old[:place], added, *old[place:]], added, place, shift)


def test_no_slip_rewrites_an_added_line() -> None:
    """Whatever the slip is: each added line is in the file as sent, but for its margin, or the edit
    is refused.
    """
    rng = random.Random(20261123)
    refused = dict.fromkeys(SLIPS, 0)
    tried = dict.fromkeys(SLIPS, 0)
    for _ in range(600):
        name, work = make_work(rng)
        tried[name] += 1
        content = "\n".join(work.lines) + "\n"
        try:
            made = apply_edit(content, "\n".join(work.old), "\n".join(work.new)).content
        except EditError:
            refused[name] += 1
            continue
        wanted = work.added
        if name == "dedented":
            wanted = work.shift + wanted
        if name == "moved in":
            wanted = wanted.removeprefix(work.shift)
        place = work.at + work.place
        assert made.split("\n") == [*work.lines[:place], wanted, *work.lines[place:], ""], (
            name,
            work,
        )
    assert min(tried.values()) > 50
    assert 0 < refused["typography"] < tried["typography"]
    assert sum(refused.values()) == refused["typography"]


# --- what is certain is not refused ---------------------------------------------------------------

CERTAIN = {
    "numbers on kept lines only": ("a\nb\nc\n", "1\u2192a\n2\u2192b\n3\u2192c", "1\u2192a\nx\n3\u2192c", "a\nx\nc\n"),
    "numbers on kept lines, a line added": ("a\n  b\nc\n", "1 | a\n2 |   b\n3 | c", "1 | a\n2 |   b\n  x\n3 | c",
                                            "a\n  b\n  x\nc\n"),
    "numbers on some lines of old": ("q\na\n  b\nc\n", "2 | a\n  b\n4 | c", "2 | a\n  x\n4 | c", "q\na\n  x\nc\n"),
    "like lines that differ in blanks at their ends": (
        "a()\n}\n} \nb()\n", "a() \n}\n}\nb()", "a() \n}\nb()", None),
    "hyphen behind": ("pip install scikit-learn\n", "install scikit", "install pandas", "pip install pandas-learn\n"),
    "hyphen in front": ("run pre-commit now\n", "commit now", "push now", "run pre-push now\n"),
    "version, from its beginning": ("uses: python 3.11.4\n", "python 3.11", "python 3.12", "uses: python 3.12.4\n"),
    "version, to its end": ("tag v1.2.3 now\n", "2.3 now", "3.0 now", "tag v1.3.0 now\n"),
    "version with a mark": ("release 1.0rc1\n", "release 1.0", "release 1.1", "release 1.1rc1\n"),
    "version with a word behind a hyphen": ("release 1.0-beta\n", "release 1.0", "release 1.1", "release 1.1-beta\n"),
}  # fmt: skip


@pytest.mark.parametrize("name", CERTAIN)
def test_certain_matches_are_applied(name: str) -> None:
    """A match whose meaning is certain is applied."""
    content, old, new, wanted = CERTAIN[name]
    made = apply_edit(content, old, new).content
    if wanted is None:
        assert [line.rstrip() for line in made.split("\n")] == ["a()", "}", "b()", ""]
    else:
        assert made == wanted


@pytest.mark.parametrize(
    ("content", "old", "words"),
    [
        ("timeout = 30\n", "timeout = 3", "longer number"),
        ("timeout = 3.5\n", "timeout = 3", "longer number"),
        ("a 1.12.0\n", "a 1.1", "longer number"),
        ("x = foobar\n", "x = foo", "longer word"),
        ("x = 0x1f\n", "x = 0x1", "longer word"),
    ],
)
def test_cut_words_are_refused(content: str, old: str, words: str) -> None:
    """A text that ends inside of a number or a word may mean something else."""
    with pytest.raises(EditError, match=words):
        apply_edit(content, old, "other 1")


def test_the_refusal_of_line_numbers_shows_their_place() -> None:
    """A refusal about line numbers shows the lines of the file that the numbers belong to."""
    content = "".join(f"line{n}\n" for n in range(1, 10))
    with pytest.raises(
        EditError, match="Only some lines of new_string begin with a line number"
    ) as caught:
        apply_edit(content, "4 | line4\n5 | line5", "4 | other\nline5")
    assert caught.value.lines == (4, 5)
    assert "4 | line4\n5 | line5\n" in caught.value.hint


def test_the_wrong_number_on_some_lines_is_refused() -> None:
    """Numbers on some lines of old_string count only where they are those of the file."""
    with pytest.raises(ToolError):
        apply_edit("q\na\n  b\nc\n", "7 | a\n  b\n9 | c", "7 | a\n  x\n9 | c")


def test_the_nearest_line_is_the_most_alike() -> None:
    """The line that differs least is named, not the longest of those that are alike."""
    text = "def greet2(name):\n    pass\n\ndef greet(name):\n    pass\n"
    assert find_nearest(text, "def greet(nam):")[0] == ["4 | def greet(name):"]
    text = "def greet2(name):\n    pass\n\ndef greet(name: str) -> str:\n    pass\n"
    assert find_nearest(text, "def greet(nam):")[0] == ["4 | def greet(name: str) -> str:"]
