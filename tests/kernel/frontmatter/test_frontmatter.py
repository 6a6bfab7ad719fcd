"""Front matter read leniently: one test for each deviation that files in the field show."""

import subprocess
import sys
from itertools import pairwise

import pytest
from hilum.frontmatter import (
    Document,
    flag,
    globs,
    names,
    number,
    read,
    split_globs,
    split_tools,
    text,
)


def messages(document: Document) -> str:
    return "\n".join(f"{problem.line}: {problem.message}" for problem in document.problems)


def test_fields_and_body_come_apart_at_the_fences():
    document = read(
        "---\nname: pdf\ndescription: Reads --- and writes\n---\n# Title\n\n---\n\nmore\n"
    )
    assert document.fields == {"name": "pdf", "description": "Reads --- and writes"}
    assert document.body == "# Title\n\n---\n\nmore\n"
    assert (document.line, document.present, document.problems) == (5, True, ())
    assert document.lines == {"name": 2, "description": 3}


def test_a_file_without_front_matter_is_all_body():
    document = read("# Title\n\n---\nname: x\n---\n")
    assert document == Document({}, "# Title\n\n---\nname: x\n---\n", 1)


def test_texts_stay_as_they_are_written():
    written = {
        "a": "no",
        "b": "on",
        "c": "1.10",
        "d": "2026-01-01",
        "e": "0x1F",
        "f": "1_000",
        "g": "12:30:45",
        "h": "True",
        "on": "Y",
    }
    document = read(
        "---\n" + "".join(f"{key}: {value}\n" for key, value in written.items()) + "---\n"
    )
    assert document.fields == written
    assert not document.problems
    assert read("---\nl: [no, 1.10]\nm: {yes: 010}\n---").fields == {
        "l": ["no", "1.10"],
        "m": {"yes": "010"},
    }


def test_an_empty_value_is_none_and_an_empty_text_is_a_text():
    document = read("---\na:\nb: ~\nc: null\nd: ''\ne: 'null'\nf: []\n---\n")
    assert document.fields == {"a": None, "b": None, "c": None, "d": "", "e": "null", "f": []}


def test_windows_files_read_like_others():
    document = read(
        b"\xef\xbb\xbf---\r\nname: x\r\ndescription: >\r\n  two\r\n  lines\r\n---\r\nOne\r\nTwo\r\n"
    )
    assert document.fields == {"name": "x", "description": "two lines\n"}
    assert document.body == "One\nTwo\n"
    assert (document.line, document.problems) == (7, ())
    assert read("---\rname: x\r---\rB\r").fields == {"name": "x"}
    assert read("---\nname: x\n---\n".encode("utf-16")).fields == {"name": "x"}


def test_what_is_not_utf_8_is_replaced_and_told():
    document = read(b"---\nname: ok\nauthor: Ren\xe9\n---\n\xff\n")
    assert document.fields == {"name": "ok", "author": "Ren\ufffd"}
    assert document.body == "\ufffd\n"
    assert "3: The file is not UTF-8" in messages(document)


REPAIRED = {
    "Use when: you edit": "Use when: you edit",
    "Use when: it is #1 # first": "Use when: it is #1 # first",
    "**/*.ts,**/*.tsx": "**/*.ts,**/*.tsx",
    "*.py": "*.py",
    "[arg] [other]": "[arg] [other]",
    "[*.ts, *.js]": "[*.ts, *.js]",
    "{src,lib}/**": "{src,lib}/**",
    "@scope/name": "@scope/name",
    "`code` first": "`code` first",
    "%wheel": "%wheel",
    "!important thing": "!important thing",
    "&name of it": "&name of it",
    "it's: so": "it's: so",
    "'it's broken'": "'it's broken'",
    '"half open': '"half open',
    '"\\UFFFFFFFF"': '"\\UFFFFFFFF"',
    "!!python/object/apply:os.system [ls]": "!!python/object/apply:os.system [ls]",
}


@pytest.mark.parametrize("written", REPAIRED)
def test_a_value_that_is_not_yaml_is_read_as_if_quoted_and_told(written):
    document = read(f"---\nname: x # a comment\ndescription: {written}\nversion: 1.0\n---\nBody\n")
    assert document.fields == {"name": "x", "description": REPAIRED[written], "version": "1.0"}
    assert document.body == "Body\n"
    assert [problem.line for problem in document.problems] == [3]
    assert not document.problems[0].fatal


def test_values_inside_of_lists_and_mappings_are_repaired_too():
    document = read(
        "---\nmetadata:\n  when: always: yes\n  paths:\n\t\t- *.ts\n    - src: a: b\n  note: |\n    a: b: c\n---\n"
    )
    metadata = {"when": "always: yes", "paths": ["*.ts", {"src": "a: b"}], "note": "a: b: c\n"}
    assert document.fields == {"metadata": metadata}
    assert document.problems


def test_what_no_repair_makes_yaml_is_read_by_lines():
    document = read(
        "---\nname:tight\ndescription: This does\n"
        "  things: like: this\nand this too\ntools:\n- Read\n-Write\nnote: |\n x\n---\n"
    )
    assert document.fields["name"] == "tight"
    assert document.fields["description"] == "This does things: like: this and this too"
    assert "Read" in str(document.fields["tools"])
    assert "Write" in str(document.fields["tools"])
    assert document.fields["note"] == "x\n"
    assert {2, 3, 6} <= {problem.line for problem in document.problems}


@pytest.mark.parametrize("inner", ["- a\n- b", "just words", "? [a]\n: b", "[a, b]", '"text"'])
def test_front_matter_without_keys_is_told_line_by_line(inner):
    document = read(f"---\n{inner}\n---\nBody\n")
    assert document.body == "Body\n"
    assert document.present
    assert [problem.line for problem in document.problems] == list(
        range(2, 2 + len(inner.split("\n")))
    )
    assert all(problem.fatal for problem in document.problems)


@pytest.mark.parametrize("inner", ["", "\n", "# only a comment\n"])
def test_empty_front_matter_is_no_problem(inner):
    assert read(f"---\n{inner}---\nB").fields == {}
    assert read(f"---\n{inner}---\nB").problems == ()


def test_a_key_that_stands_twice_is_told():
    document = read("---\nname: one\nname: two\nm: {a: 1, a: 2}\n---\n")
    assert document.fields == {"name": "two", "m": {"a": "2"}}
    assert "3: The key 'name' is repeated here (first on line 2)" in messages(document)
    assert "4: The key 'a'" in messages(document)
    broken = read("---\nname: one\ndescription: a: b\nname: two\n---\n")
    assert "4: The key 'name' is repeated here (first on line 2)" in messages(broken)


def test_a_missing_closing_fence_is_told_and_the_keys_are_read():
    document = read("---\nname: x\ndescription: y\nlist:\n  - a\n\n# Title\n")
    assert document.fields == {"name": "x", "description": "y", "list": ["a"]}
    assert document.body == "\n# Title\n"
    assert "1: The front matter has no closing '---' line" in messages(document)


@pytest.mark.parametrize(
    "gap",
    ["# Title\n\n> Said.\n", "\nText: none.\n" * 2, "\n## A\n\n- one\n- two\n" + "x\n" * 40_000],
)
def test_a_forgotten_fence_before_a_line_across_the_page_is_told(gap):
    document = read(f"---\nalwaysApply: false\ndescription: 'Java: style'\n{gap}\n---\n\n## More\n")
    if "Text: none" in gap:  # it could be a key
        assert document.problems
        return
    assert document.fields == {"alwaysApply": "false", "description": "Java: style"}
    assert document.body == f"{gap}\n---\n\n## More\n"
    assert document.line == 4
    assert "1: The front matter has no closing '---' line" in messages(document)


def test_comments_and_blank_lines_in_front_matter_are_no_body():
    document = read("---\nname: x\n\n# about it\ndescription: y\n# the end\n\n---\nB\n")
    assert document.fields == {"name": "x", "description": "y"}
    assert (document.body, document.problems) == ("B\n", ())


@pytest.mark.parametrize(
    "whole", ["---\n\nSome text.\n", "---\n# Title\n", "---", "---\nJust: a sentence", "--- \n"]
)
def test_a_line_across_the_page_is_no_front_matter_but_is_told(whole):
    document = read(whole)
    assert document.problems
    assert document.present or document.body == whole


def test_blank_lines_before_the_fence_are_told():
    document = read("\n \n---\nname: x\n---\nBody\n")
    assert document.fields == {"name": "x"}
    assert (document.line, document.body) == (6, "Body\n")
    assert "1: There are blank lines" in messages(document)
    assert read("\n\n---\n\nText\n\n---\n").body == "\n\n---\n\nText\n\n---\n"


def test_tags_of_the_core_are_passed_over_and_told():
    document = read("---\na: !!int 12\nb: !!str no\n---\n")
    assert document.fields == {"a": "12", "b": "no"}
    assert "2: The tag !!int" in messages(document)


def test_characters_that_yaml_forbids_make_no_new_keys():
    document = read("---\nname: x\u2028owner: me\x85admin: yes\x07\n---\n")
    assert list(document.fields) == ["name"]
    assert "2: Characters that YAML forbids" in messages(document)


def test_keys_that_may_be_raw_are_no_problem():
    rule = "---\ndescription: Types\nglobs: **/*.ts,**/*.{tsx,jsx}\nalwaysApply: false\n---\nRule\n"
    assert read(rule).problems
    document = read(rule, raw={"globs"})
    assert document.problems == ()
    assert globs(document, "globs") == ("**/*.ts", "**/*.{tsx,jsx}")
    assert read("---\nglobs: *.ts\nname: a: b\n---\n", raw={"globs"}).problems[0].line == 3


def test_anchors_work_and_bombs_do_not():
    assert read("---\na: &x [r, w]\nb: *x\n---\n").fields == {"a": ["r", "w"], "b": ["r", "w"]}
    levels = "abcdefghi"
    bomb = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
        f"{new}: &{new} [{','.join([f'*{old}'] * 9)}]\n" for old, new in pairwise(levels)
    )
    document = read(f"---\n{bomb}name: kept\n---\nBody\n")
    assert document.fields["name"] == "kept"
    assert len(str(document.fields)) < 2_000
    assert document.problems


@pytest.mark.parametrize("unit", ["[", "{a: ", "- ", "a:\n ", "? ", "[a: b, "])
def test_deep_nesting_ends_at_a_bound(unit):
    document = read("---\nname: x\nv: " + unit * 5_000 + "\n---\nBody\n")
    assert document.fields["name"] == "x"
    assert document.body == "Body\n"
    assert document.problems


def test_front_matter_that_is_too_long_is_cut_and_told():
    document = read(
        "---\nname: x\n"
        + "".join(f"k{n}: {'v' * 100}\n" for n in range(100_000))
        + "last: y\n---\nBody\n"
    )
    assert document.fields["name"] == "x"
    assert document.body == "Body\n"
    cut = [problem for problem in document.problems if problem.fatal]
    assert "longer than 65,536 characters" in cut[0].message
    assert cut[0].line == 3 + sum(key.startswith("k") for key in document.fields)


def test_problems_are_bounded_in_number():
    document = read("---\n" + "- x\n" * 1_000 + "---\n")
    assert len(document.problems) == 51
    assert "And 950 more of this kind, the last on line 1001." in document.problems[-1].message


def test_helpers_read_fields_as_what_the_caller_asks_for():
    document = read(
        "---\na: Yes\nb: 'off'\nc: maybe\nd: 12\ne: -1.5\nf: 1e400\ng: [x, {y: z}]\nh:\ni: '  t '\nj: nan\n---\n"
    )
    assert [flag(document, key) for key in "abch"] == [True, False, None, None]
    assert flag(document, "zz", True) is True
    assert [number(document, key) for key in "defahj"] == [12, -1.5, None, None, None, None]
    assert isinstance(number(document, "d"), int)
    assert text(document, "g") == "[x, {y: z}]"
    assert (text(document, "i"), text(document, "h", "none")) == ("t", "none")
    assert document.problem("d", "no").line == 5


def test_lists_of_tools_split_outside_of_parentheses():
    assert split_tools("Bash(git:*) Read, Grep") == ("Bash(git:*)", "Read", "Grep")
    assert split_tools("Bash(git add:*, git commit:*),Read") == (
        "Bash(git add:*, git commit:*)",
        "Read",
    )
    assert split_tools("\"Read\", 'Write'") == ("Read", "Write")
    assert split_tools("[Read, Bash(*)]") == ("Read", "Bash(*)")
    assert split_tools("Bash(git Read, Grep") == ("Bash(git", "Read", "Grep")
    assert split_tools("  ") == ()


def test_a_field_of_tools_tells_none_from_all():
    document = read(
        "---\na: []\nb:\nc: Read Write\nd: [Bash(git *), 'My Server/*']\ne: {bash: false}\nf: ''\n---\n"
    )
    assert [names(document, key) for key in "abcdefg"] == [
        (), None, ("Read", "Write"), ("Bash(git *)", "My Server/*"), ("bash",), (), None,
    ]  # fmt: skip


def test_globs_split_outside_of_braces():
    assert split_globs("**/*.{ts,tsx},src/**") == ("**/*.{ts,tsx}", "src/**")
    assert split_globs("[a,b].ts, 'x y/*.py'") == ("[a,b].ts", "x y/*.py")
    assert split_globs("[*.ts, *.js]") == ("*.ts", "*.js")
    assert split_globs("a/{b,c.ts, d") == ("a/{b", "c.ts", "d")
    assert split_globs("") == ()
    document = read("---\na: {ts,tsx}\nb: [src/**, 'a,b']\nc:\nd: '**/*'\n---\n")
    assert globs(document, "a") == ("{ts,tsx}",)
    assert globs(document, "b") == ("src/**", "a", "b")
    assert globs(document, "c") == ()
    assert globs(document, "d") == ("**/*",)


def test_importing_the_library_loads_no_yaml():
    code = (
        "import hilum.frontmatter as f, sys; assert 'yaml' not in sys.modules;"
        "f.read('---\\na: b\\n---\\n'); assert 'yaml' in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
