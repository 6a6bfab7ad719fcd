"""Small edits in many languages in which a loose match would be wrong, or right only with care."""

import pytest
from hilum.errors import E_BAD_ARGS, E_MULTIPLE_MATCHES, E_NOT_FOUND
from hilum_files import EditError, apply_edit, apply_edits

# name: content, old, new, what must come of it
APPLIED = {
    # --- exact ---
    "exact part of a line": ("x = foo(1)\n", "foo(1)", "bar(2)", "x = bar(2)\n"),
    "exact beats a looser twin": ("if a:\n    x()\nif b:\n        x()\n", "if a:\n    x()", "if c:\n    x()",
                                  "if c:\n    x()\nif b:\n        x()\n"),
    "the looser of two is passed over": ("    x(1) \n        x(1)\n", "    x(1)  \n", "    x(2)\n", None),
    "whole lines deleted": ("a\nb\nc\n", "b\n", "", "a\nc\n"),
    "a line taken away without its line end": ("a\nb\nc\n", "b", "", "a\n\nc\n"),
    "the same, with blanks at its end": ("a\nb\nc\n", "b ", "", "a\n\nc\n"),
    "the last line deleted": ("a\nb", "b", "", "a\n"),
    "a part of a line deleted": ("a(b, c)\n", ", c", "", "a(b)\n"),
    "inserted at the start": ("import a\nx\n", "import a\n", "import b\nimport a\n", "import b\nimport a\nx\n"),
    "appended behind a last line without end": ("a\nb", "b", "b\nc", "a\nb\nc"),
    "appended, with line ends that the file lacks": ("a\nb", "b\n", "b\nc\n", "a\nb\nc"),
    "lines joined on purpose": ("foo(\nx)\n", "foo(\n", "foo(", "foo(x)\n"),
    "a last line end forgotten in new": ("a = 1\nb = 2\n", "a = 1\n", "a = 3", "a = 3\nb = 2\n"),
    "a last line end that is new": ("a = 1\nb = 2\n", "a = 1", "a = 3\n", "a = 3\n\nb = 2\n"),
    "the same, not quite exact": ("a = 1\nb = 2\n", "a = 1 ", "a = 3\n", "a = 3\n\nb = 2\n"),
    "a blank line added on purpose": ("a\nb\n", "a", "a\n", "a\n\nb\n"),
    "an empty file filled": ("", "", "x\n", "x\n"),
    "a new typographic quote is kept": ("say('x')\n", "say('x')", "say('‘x’')", "say('‘x’')\n"),
    "a backslash-n of a string is kept": ('print("a\\n")\nx\n', 'print("a\\n")', 'print("b\\n")', 'print("b\\n")\nx\n'),
    "a dedent after an exact line that is indented": ("class A:\n    x = 1\n", "    x = 1\n", "    x = 1\n\n\ny = 2\n",
                                                      "class A:\n    x = 1\n\n\ny = 2\n"),
    # --- line ends, marks ---
    "the end of a part's line is kept": ("a b\nc d\r\ne\nf\r\n", "b\nc", "x\ny\nz", "a x\ny\nz d\r\ne\nf\r\n"),
    "crlf kept": ("a\r\nb\r\nc\r\n", "b\n", "x\ny\n", "a\r\nx\r\ny\r\nc\r\n"),
    "crlf of the model dropped": ("a\nb\n", "a\r\nb\r\n", "a\r\nc\r\n", "a\nc\n"),
    "each line keeps its own end": ("a\r\nb\nc\r\nd\n", "a\nb\nc\nd\n", "a\nB\nc\nd\n", "a\r\nB\nc\r\nd\n"),
    "a mark at the start is kept": ("\ufeffa\nb\n", "\ufeffa\n", "c\n", "\ufeffc\nb\n"),
    "a line end too many in front": ("def f():\n    a = 1\n", "\ndef f():\n    a = 1", "\ndef f():\n    a = 2",
                                     "def f():\n    a = 2\n"),
    # --- white space at the ends of lines ---
    "markdown breaks stay": ("one  \ntwo  \nthree\n", "one\ntwo\nthree\n", "one\ntwo\n3\n", "one  \ntwo  \n3\n"),
    "blanks of the model at line ends": ("a = 1\nb = 2\n", "a = 1 \nb = 2  \n", "a = 1 \nb = 3  \n", "a = 1\nb = 3  \n"),
    # --- indentation ---
    "python moved": ("class A:\n    def f(self):\n        return 1\n", "def f(self):\n    return 1",
                     "def f(self):\n    x = 1\n    return x", "class A:\n    def f(self):\n        x = 1\n        return x\n"),
    "go, spaces for tabs": ("func f() {\n\tif x {\n\t\treturn 1\n\t}\n}\n", "    if x {\n        return 1\n    }",
                            "    if x {\n        y()\n        return 1\n    }",
                            "func f() {\n\tif x {\n\t\ty()\n\t\treturn 1\n\t}\n}\n"),
    "c, tab and space of a comment": ("\t/*\n\t * a\n\t */\n\tx = 1;\n", "    /*\n     * a\n     */\n    x = 1;\n",
                                      "    /*\n     * a\n     * b\n     */\n    x = 2;\n",
                                      "\t/*\n\t * a\n\t * b\n\t */\n\tx = 2;\n"),
    "makefile": ("all: a\n\tcc -c a.c\n\tcc -o a\n", "all: a\n    cc -c a.c\n    cc -o a\n",
                 "all: a\n    cc -c a.c\n    strip a\n    cc -o a\n", "all: a\n\tcc -c a.c\n\tstrip a\n\tcc -o a\n"),
    "yaml moved": ("jobs:\n  test:\n    steps:\n      - run: a\n      - run: b\n", "steps:\n  - run: a\n  - run: b",
                   "steps:\n  - run: a\n  - run: c\n  - run: b",
                   "jobs:\n  test:\n    steps:\n      - run: a\n      - run: c\n      - run: b\n"),
    "javascript, tabs for spaces": ("f() {\n  if (x) {\n    y();\n  }\n}\n", "\tif (x) {\n\t\ty();\n\t}",
                                    "\tif (x) {\n\t\tz();\n\t}", "f() {\n  if (x) {\n    z();\n  }\n}\n"),
    "rust, first line without its indentation": ("fn f() {\n    let a = 1;\n    let b = 2;\n}\n", "let a = 1;\n    let b = 2;",
                                                 "let a = 1;\n    let b = 3;", "fn f() {\n    let a = 1;\n    let b = 3;\n}\n"),
    # --- blank lines ---
    "a blank line of white space that stays": (
        "a\n\t\nb\n\nc\n",
        "a \n\t  \nb \n\t\nc ",
        "a\n\t\nb\nd",
        "a\n\t\nb\nd\n",
    ),
    "a statement below is spread over several lines": (
        "a = 1\n\n\ndef f(x): pass\n",
        "a = 1\n\ndef f(x): pass",
        "a = 1\n\ndef f(\n    x\n): pass",
        "a = 1\n\n\ndef f(\n    x\n): pass\n",
    ),
    "blank lines of the file stay": ("import a\n\nimport b\n\n\nx = 1\n", "import a\nimport b\n\nx = 1",
                                     "import a\nimport b\n\nx = 2", "import a\n\nimport b\n\n\nx = 2\n"),
    # --- inside of lines ---
    "aligned columns stay": ("int   a  = 1;\nint   bc = 2;\n", "int a = 1;\nint bc = 2;", "int a = 1;\nint bc = 3;",
                             "int   a  = 1;\nint bc = 3;\n"),
    # --- typography ---
    "quotes of kept lines": ('a = "x"\nb\n', "a = “x”\nb", "a = “x”\nc", 'a = "x"\nc\n'),
    "quotes of the file stay": ("<p>“Hello” world</p>\nx\n", '<p>"Hello" world</p>\nx', '<p>"Hello" world</p>\n"x"',
                                '<p>“Hello” world</p>\n"x"\n'),
    "other spaces of kept lines": ("f(A const &a);\ng\n", "f(A\u00a0const &a);\ng", "f(A\u00a0const &a);\nh",
                                   "f(A const &a);\nh\n"),
    # --- numbers and escapes ---
    "line numbers of read_file": ("a\n  b\nc\n", "2 |   b\n3 | c", "2 |   x\n3 | c", "a\n  x\nc\n"),
    "line numbers, new line without": ("a\n  b\nc\n", "2 |   b\n3 | c", "  b\n  x\nc", "a\n  b\n  x\nc\n"),
    "line numbers with a blank line": ("a\n\nb\n", "1 | a\n2 |\n3 | b", "1 | a\n2 |\n3 | c", "a\n\nc\n"),
    "escaped": ('def f():\n    return "a"\n', 'def f():\\n    return \\"a\\"', 'def f():\\n    return \\"b\\"',
                'def f():\n    return "b"\n'),
    "escaped quotes": ('x = "a"\n', 'x = \\"a\\"', 'x = \\"b\\"', 'x = "b"\n'),
    "escaped old only": ('x = "a"\ny\n', 'x = \\"a\\"\\ny', 'x = "b"\ny', 'x = "b"\ny\n'),
    "backslashes doubled": ('p = re.compile("\\d+")\n', 'p = re.compile("\\\\d+")', 'p = re.compile("\\\\w+")',
                            'p = re.compile("\\w+")\n'),
}  # fmt: skip
APPLIED = {name: case for name, case in APPLIED.items() if case[3] is not None}

# name: content, old, new, code, count, words of the message
REFUSED = {
    "empty old": ("a\n", "", "b", E_BAD_ARGS, 0, "empty"),
    "another number": ("timeout = 31\n", "timeout = 30", "timeout = 60", E_NOT_FOUND, 0, "not in the file"),
    "the beginning of a number": ("timeout = 30\n", "timeout = 3", "timeout = 5", E_NOT_FOUND, 0, "longer number"),
    "the beginning of a word": ("x = foobar\n", "x = foo", "x = baz", E_NOT_FOUND, 0, "longer word"),
    "half of an operator": ("if x == 1:\n", "if x =", "if y =", E_NOT_FOUND, 0, "longer operator"),
    "another operator": ("if (a <= b) {\n", "if (a < b) {", "if (a > b) {", E_NOT_FOUND, 0, "not in the file"),
    "another word in a line that stays": ("a = 1\nfoo()\nb = 2\n", "a = 1\nbar()\nb = 2", "a = 1\nbar()\nb = 3",
                                          E_NOT_FOUND, 0, "not in the file"),
    "several, exactly": ("x\ny\nx\n", "x", "z", E_MULTIPLE_MATCHES, 2, "at lines 1, 3"),
    "several, loosely": ("  x()\nif a:\n    x()\n", "x() \n", "y()\n", E_MULTIPLE_MATCHES, 2, "at lines 1, 3"),
    "several depths, one clean": ("  x()\nif a:\n    x() \n", " x()\n", " y()\n", E_MULTIPLE_MATCHES, 2, "lines 1, 3"),
    "python, another structure": ("if a:\n    b()\n    c()\n", "if a:\n    b()\nc()", "if a:\n    b()\nd()", E_NOT_FOUND, 0,
                                  "relative indentation"),
    "python, a dedent between": ("for x in y:\n        b()\n    c()\n", "b()\nc() ", "b()\nd()", E_NOT_FOUND, 0,
                                 "relative indentation"),
    "python, bare line, two ways": ("class A:\n    return x\n", "return x", "return x\n\n\ndef g():\n    pass", E_NOT_FOUND, 0,
                                    "unclear"),
    "two new lines like the one above a blank line": ("# search\n\ntext\n", "# search\ntext", "# a search\n# searches\ntext",
                                                      E_NOT_FOUND, 0, "Where the edit changes lines"),
    "python, one bare line wrapped": ("def f():\n    go()\n", "go()", "if x:\n    go()", E_NOT_FOUND, 0, "unclear"),
    "python, wrapped, too little indentation": ("def f():\n    return 1\n", "  return 1\n", "  if x:\n    return 1\n",
                                                E_NOT_FOUND, 0, "matches neither"),
    "first line bare in old, not in new": ("fn f() {\n    a();\n    b();\n}\n", "a();\n    b();", "    c();\n    b();",
                                           E_NOT_FOUND, 0, "unclear"),
    "steps of another width": ("if a:\n  b()\n  c()\n", "if a:\n    b()\n    c()\n", "if a:\n    b()\n    d()\n",
                               E_NOT_FOUND, 0, "relative indentation"),
    "one line deeper, in old only": ("f(\n  a,\n  b,\n)\n", "f(\n  a,\n    b,\n", "f(\n  c,\n  b,\n", E_NOT_FOUND, 0,
                                     "relative indentation"),
    "a twin with another slip": ('f("a",  b)\n\n  f(“a”, b)\n', 'f("a", b)', "g()", E_MULTIPLE_MATCHES, 2, "lines 1, 3"),
    "a line end in front of old alone": ('"""\nRun.\n"""\n', "\nRun.\n", "Run it.\n", E_NOT_FOUND, 0, "begins with a newline"),
    "a bare line deleted with its line end": ("  a\n  b\n  c\n", "b\n", "", E_NOT_FOUND, 0, "joined"),
    "numbers before some new lines": ("a\nb\nc\n", "1→a\n2→b\n3→c", "1→a\n2→x\nc", E_NOT_FOUND, 0, "Only some lines"),
    "escaped old, new with line ends": ('a\nb("\\t")\n', 'a\\nb(\\"\\\\t\\")', 'a\nb("\\t", 1)', E_NOT_FOUND, 0,
                                        "escaped newlines"),
    "another number in a file with numbers": (
        "25 | a: str\n26 | b: int\n", "27 | b: int", "c: int", E_NOT_FOUND, 0, "line numbers",
    ),
    "nothing shared, two ways": (
        "if a:\n    if b:\n        c()\n    d()\n    e()\n", "    c()\nd()", "    f()", E_NOT_FOUND, 0, "matches neither",
    ),
    "c without braces, two ways": ("void f() {\n    go();\n}\n", "go();", "if (x)\n    go();", E_NOT_FOUND, 0, "unclear"),
    "spaces inside of quotes": ('print("a  b")\nx\n', 'print("a b")\nx', 'print("a b")\ny', E_NOT_FOUND, 0, "quotes"),
    "a space that makes two words": ("x = ab\n", "x = a b", "x = c", E_NOT_FOUND, 0, "not in the file"),
    "yaml without a space": ("a: b\nc: d\n", "a:b\nc: d", "a:b\nc: e", E_NOT_FOUND, 0, "not in the file"),
    "a markdown break in a line that changes": ("one  \ntwo\n", "one\ntwo\n", "uno\ntwo\n", E_NOT_FOUND, 0,
                                                "trailing spaces"),
    "blank lines where lines are inserted": ("a()\n\n\nb()\n", "a()\n\nb()", "a()\n\nx()\n\nb()", E_NOT_FOUND, 0,
                                             "blank lines"),
    "brackets alone, moved": ("{\n    {\n      }\n    }\n  }\n}\n", "   }\n }", "   }\n };", E_MULTIPLE_MATCHES, 3,
                              "lines 3, 4, 5"),
    "already applied": ("a\nnew line\nc\n", "a\nold line\nc", "a\nnew line\nc", E_NOT_FOUND, 0, "already applied"),
    "already applied, loosely": ("def f():\n    a()\n    b()\n", "def f():\n    a() ", "def f():\n    a()\n    b()",
                                 E_NOT_FOUND, 0, "already applied"),
    "already moved": ("    x\n    y\n", "  x\n  y", "    x\n    y", E_NOT_FOUND, 0, "already applied"),
    "a string with an escaped line end": ("a\nb\n", "a\\nb", 'print("x\\ny")\\nb', E_NOT_FOUND, 0, "may belong to a string"),
    "typographic quotes, mixed": ('a("x")\nb\n', "a(“x”)\nb", 'a("“x”")\nb', E_NOT_FOUND, 0, "unclear"),
    "typographic quotes in a new line": ('a = "x"\nb\n', "a = “x”\nb", "a = “y”\nb", E_NOT_FOUND, 0, "typographic"),
    "other spaces in a new line": ("a = b\nc\n", "a\u00a0= b\nc", "a\u00a0= d\nc", E_NOT_FOUND, 0, "typographic"),
    "typographic quotes lost in a changed line": ("<p>“Hello” world</p>\n", '<p>"Hello" world</p>', '<p>"Hello" there</p>',
                                                  E_NOT_FOUND, 0, "typographic"),
    "a tab lost in a changed line": ("name\tvalue\nx\n", "name value\nx", "name other\nx", E_NOT_FOUND, 0, "tabs"),
    "elided": ("a\nb\nc\nd\n", "a\n...\nd", "a\nx\nd", E_NOT_FOUND, 0, "not in the file"),
    "a line end forgotten at the end of the file": ("a\nb\n", "b\n", "c", E_NOT_FOUND, 0, "ends with a newline"),
    "only blanks": ("a\nb\n", "   ", "x", E_NOT_FOUND, 0, "not in the file"),
    "line numbers that are no such": ("web\n", "80: web", "81: web", E_NOT_FOUND, 0, "not in the file"),
    "moved further out than what was matched": ("class A:\n        return 1\n", "    return 1 \n",
                                                "    return 1\n\ndef g():\n    pass\n", E_NOT_FOUND, 0, "unclear"),
}  # fmt: skip


@pytest.mark.parametrize("name", APPLIED)
def test_an_edit_is_applied(name: str) -> None:
    """It is applied as it is meant."""
    content, old, new, wanted = APPLIED[name]
    assert apply_edit(content, old, new).content == wanted


@pytest.mark.parametrize("name", REFUSED)
def test_an_edit_is_refused(name: str) -> None:
    """It is refused with code and count, and in words that say why."""
    content, old, new, code, count, words = REFUSED[name]
    with pytest.raises(EditError, match=words) as caught:
        apply_edit(content, old, new)
    assert (caught.value.code, caught.value.count) == (code, count)
    assert caught.value.already == ("already" in name)


def test_what_is_reported() -> None:
    """The kind of match and the lines that really changed."""
    edit = apply_edit("a\nb\nc\nd\n", "a\nb\nc\n", "a\nx\ny\nc\n")
    assert edit[1:] == ("exact", range(2, 3), range(2, 4))
    edit = apply_edit("a\n    b\nc\n", "a \n    b\n", "a \n")
    assert edit[1:] == ("trailing blanks", range(2, 3), range(2, 2))
    edit = apply_edit("a\n", "b", "b")
    assert edit == ("a\n", "identical", range(1, 1), range(1, 1))


def test_all_places_are_named() -> None:
    """Of many places every line number is given, overlapping ones too, exactly and loosely."""
    content = "x = 1\n" * 3000
    for old, count in (("x = 1\nx = 1\n", 2999), ("x = 1 \nx = 1 \n", 2999), ("= 1", 3000)):
        with pytest.raises(EditError) as caught:
            apply_edit(content, old, "y")
        assert caught.value.lines == tuple(range(1, count + 1))
        assert caught.value.count == count


def test_edits_see_what_those_before_them_made() -> None:
    """One after another; a failure names the edit."""
    edits = apply_edits("a\nb\n", [("a", "c"), ("c\nb", "d")])
    assert [edit.content for edit in edits] == ["c\nb\n", "d\n"]
    with pytest.raises(EditError, match="Edit 2: "):
        apply_edits("a\nb\n", [("a", "c"), ("a", "d")])
