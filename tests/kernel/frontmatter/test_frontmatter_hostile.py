"""Front matter as it is found in the field at its worst, and as somebody may write it who means
harm.
"""

from itertools import pairwise

import pytest
from hilum.frontmatter import read, split_globs, split_tools


def told(document) -> str:
    return "\n".join(f"{problem.line}: {problem.message}" for problem in document.problems)


def test_a_second_front_matter_fills_what_the_first_leaves_empty():
    document = read(
        "---\ndescription: \nglobs: **/*.md\nalwaysApply: false\n---\n---\n"
        'description: "Guidance"\nglobs: "docs/**"\npriority: 2\n---\n\n# Title\n',
        raw=("globs",),
    )
    assert document.fields == {
        "description": "Guidance",
        "globs": "**/*.md",
        "alwaysApply": "false",
        "priority": "2",
    }
    assert (document.body, document.line) == ("\n# Title\n", 11)
    assert document.lines["description"] == 7
    assert "6: A second front matter" in told(document)
    assert "8: 'globs' is in both" in told(document)


@pytest.mark.parametrize(
    "body", ["---\nNote: read this\n---\nmore\n", "---\nname: x\nnot closed\n", "---\n\ntext\n"]
)
def test_lines_across_the_page_below_front_matter_stay(body):
    document = read("---\nname: a\n---\n" + body)
    assert (document.fields, document.body, document.problems) == ({"name": "a"}, body, ())


def test_an_indented_fence_is_read_and_told():
    document = read("  ---\nname: a\n---\nbody\n")
    assert (document.fields, document.body, document.line) == ({"name": "a"}, "body\n", 4)
    assert "1: The line '---' before the front matter is indented" in told(document)
    document = read("    ---\n    metadata:\n      a: b\n    ---\n    body\n")
    assert (document.fields, document.body) == ({"metadata": {"a": "b"}}, "    body\n")
    assert read("   ---\n# Title\n---\n") == read("   ---\n# Title\n---\n")._replace(
        fields={}, present=False
    )


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be", "utf-16", "utf-32"])
def test_wide_letters_are_read_with_and_without_a_mark(encoding):
    document = read("---\nname: Grüße 你\n---\nbody\n".encode(encoding))
    assert (document.fields, document.body) == ({"name": "Grüße 你"}, "body\n")
    assert "it should be UTF-8" in told(document)


def test_nul_characters_are_told_and_marks_in_a_row_are_none():
    assert "4: The file contains NUL characters" in told(read(b"---\nname: a\n---\nbo\0dy\n"))
    assert read(b"\xef\xbb\xbf\xef\xbb\xbf---\nname: a\n---\n").fields == {"name": "a"}


def test_a_value_that_is_cut_at_a_comment_is_told():
    document = read("---\ndescription: Close issue #12 of the project\ncolor: #ff0000\n---\n")
    assert document.fields == {"description": "Close issue", "color": None}
    assert "2: '#12 of the project' is a comment in YAML" in told(document)
    assert "3: '#ff0000'" in told(document)
    quiet = "---\na: b # a comment\nc: C#, F#\nd: 'x #1'\ne: |\n  #1\nf:\n  - x #1\n---\n"
    assert not read(quiet).problems


def test_quotes_that_are_no_pair_stay():
    assert split_tools('"Read", "Bash(git:*)"') == ("Read", "Bash(git:*)")
    assert split_globs('"a" or "b"') == ('"a" or "b"',)


DEEP = 10_000
NAMES = pairwise("abcdefghi")


@pytest.mark.parametrize(
    "front",
    [
        "a: &a [x,x,x,x,x,x,x,x]\n"
        + "".join(f"{b}: &{b} [{','.join(['*' + a] * 8)}]\n" for a, b in NAMES),
        "a: &a [*a]\n",
        "a: &a\n  b: *a\n",
        "a: " + "[" * DEEP + "]" * DEEP + "\n",
        "a: " + "{a: " * DEEP + "\n",
        "a:\n" + "- " * DEEP + "x\n",
        "a: " + "x" * 1_000_000 + "\n",
        "k" * 1_000_000 + ": v\n",
        "".join(f"k{number}: *: : [\n" for number in range(DEEP)),
        'a: "' + "\\" * 50_001 + "\n",
        'a: !!python/object/apply:os.system ["x"]\n',
        "a: x\u2028---\u2028b: y\n",
        "a: x\u0085---\x0bb: y\x0c---\x1c\n",
        "<<: *nothing\n",
        "a: \ud800\n",
    ],
)
def test_hostile_front_matter_costs_neither_the_body_nor_the_other_fields(front):
    document = read(f"---\nname: kept\n{front}---\nbody\n")
    assert (document.present, document.body) == (True, "body\n")
    assert document.fields["name"] == "kept"
    assert document.problems
    assert len(str(document.problems)) < 20_000
    assert len(str(document.fields)) < 1_000_000
