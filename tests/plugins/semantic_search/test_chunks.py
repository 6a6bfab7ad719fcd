"""How files are divided, and which words the index gets."""

import random

import pytest
from hilum_semantic_search.reader.chunk import MAX_CHUNK_LINES
from hilum_semantic_search.reader.chunking import split_file
from hilum_semantic_search.reader.files import UnsuitableFile
from hilum_semantic_search.reader.words import split_symbol, split_words

PYTHON = '''"""Module."""
import os

# Why there is a limit.
@cached
def read_all(path):
    def inner():
        return 1
    return inner


class Store:
    """A store."""

    limit = 3

    async def saveItem(self, item):
        return item

    class Inner:
        def run(self): pass

LAST = 1
'''


def parts(path: str, text: str) -> list[tuple[int, int, str, str]]:
    return [chunk[:4] for chunk in split_file(path, text.encode())]


def test_python_is_divided_into_functions_classes_and_the_rest():
    assert parts("pkg/mod.py", PYTHON) == [
        (1, 2, "module", "mod"),
        (4, 9, "function", "read_all"),
        (12, 15, "class", "Store"),
        (17, 18, "function", "Store.saveItem"),
        (20, 20, "class", "Store.Inner"),
        (21, 21, "function", "Store.Inner.run"),
        (23, 23, "module", "mod"),
    ]


def test_markdown_is_divided_into_sections_with_their_headings():
    text = "Intro\n\n# Top\ntext\n```sh\n# no heading\n```\n## Sub ##\nmore\n# Next\nend\n\nUnder\n-----\nx\n"
    assert parts("README.md", text) == [
        (1, 1, "section", ""),
        (3, 7, "section", "Top"),
        (8, 9, "section", "Top > Sub"),
        (10, 11, "section", "Next"),
        (13, 15, "section", "Next > Under"),
    ]


def test_restructured_text_has_headings_with_lines_below():
    text = "Title\n=====\nwords\n\nPart\n----\nmore\n\nOther\n-----\nend\n"
    assert [part[3] for part in parts("a.rst", text)] == ["Title", "Title > Part", "Title > Other"]


def test_shell_scripts_are_divided_into_functions():
    text = (
        "#!/bin/bash\nset -e\n\nclean_up() {\n  rm -r x\n}\n\nfunction build {\n  make\n}\nbuild\n"
    )
    assert [(part[0], part[1], part[3]) for part in parts("run.sh", text)] == [
        (1, 2, ""),
        (4, 6, "clean_up"),
        (8, 10, "build"),
        (11, 11, ""),
    ]


@pytest.mark.parametrize(
    ("path", "text", "names"),
    [
        (
            "a.ts",
            "import x\n\nexport async function loadUser(id: string) {\n  return 1\n}\n\n"
            "export class Cache {\n  get() {\n    return 2\n  }\n}\n\nconst limit = () => {\n  return 3\n}\n",
            {"loadUser", "Cache", "limit"},
        ),
        (
            "a.go",
            "package main\n\nfunc (s *Store) Save(x int) error {\n\treturn nil\n}\n\n"
            "type Store struct {\n\tn int\n}\n",
            {"Save", "Store"},
        ),
        (
            "a.rs",
            "pub fn read_all(path: &str) -> u8 {\n    1\n}\n\nimpl Store {\n    pub fn new() -> Self {\n"
            "        Store\n    }\n}\n",
            {"read_all", "Store"},
        ),
        (
            "A.java",
            "package a;\n\npublic final class Account {\n  int n;\n}\n\ninterface Payable {\n  int pay();\n}\n",
            {"Account", "Payable"},
        ),
        (
            "a.c",
            "#include <a.h>\n\n/* Adds. */\nstatic int add_all(int a, int b) {\n  return a + b;\n}\n\n"
            "struct node {\n  int n;\n};\n",
            {"add_all", "node"},
        ),
    ],
)
def test_other_languages_are_divided_at_definitions(path, text, names):
    found = parts(path, text)
    assert names <= {part[3] for part in found}
    assert "if" not in {part[3] for part in found}


def test_a_long_class_in_another_language_is_divided_at_its_methods():
    methods = "".join(f"  method{n}(a) {{\n" + "    work()\n" * 20 + "  }\n\n" for n in range(8))
    found = parts("a.js", f"class Big {{\n{methods}}}\n")
    assert {f"Big.method{n}" for n in range(1, 8)} <= {part[3] for part in found}


def test_python_that_cannot_be_parsed_is_divided_into_blocks():
    found = parts("old.py", "print 'a'\n\ndef go(x):\n    print x\n\nclass Old:\n    pass\n")
    assert {"go", "Old"} <= {part[3] for part in found}


@pytest.mark.parametrize("suffix", [".py", ".md", ".js", ".sh", ".txt", ".rst"])
def test_every_line_with_text_is_in_exactly_one_chunk(suffix):
    """For files of random lines, whatever they mean."""
    pieces = [
        "def a(x):", "    return x", "class B:", "", "", "# Title", "```", "text here", "}", "foo() {",
        "  if (x) {", "@dec", "    def c(self): pass", "-----", "====", "end", "\tx = 1", "/* a */", "é 中文",
    ]  # fmt: skip
    for seed in range(150):
        chosen = random.Random(f"{suffix}{seed}")
        lines = [chosen.choice(pieces) for _ in range(chosen.randrange(1, 300))]
        if not any(line.strip() for line in lines):
            continue
        covered = list[int]()
        for first, last, _, _ in parts(f"f{suffix}", "\n".join(lines)):
            assert first <= last
            assert last - first < MAX_CHUNK_LINES
            covered += range(first, last + 1)
        assert covered == sorted(set(covered))
        missing = set(range(1, len(lines) + 1)) - set(covered)
        assert not [number for number in missing if lines[number - 1].strip()]


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"a\0b", "binary"),
        (b"\x80\x81\x82\x83" * 50, "binary"),
        (b" \n\n", "empty"),
        (b"x" * 6000, "minified"),
        (b"var a=1;" * 100 + b"\n", "minified"),
    ],
)
def test_files_without_text_are_left_out(data, reason):
    with pytest.raises(UnsuitableFile, match=reason):
        split_file("a.js", data)


def test_utf_16_is_read():
    [chunk] = split_file("a.txt", "reading größe".encode("utf-16"))
    assert chunk.words == "reading größe"


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("getUserName", "get User Name"),
        ("parse_HTTPResponse2", "parse_HTTP Response 2"),
        ("sha256sum", "sha 256 sum"),
        ("重试请求 x", " 重试 试请 请求  x"),
    ],
)
def test_identifiers_and_chinese_are_split(text, words):
    assert split_words(text) == words


def test_a_symbol_is_also_one_word():
    assert split_symbol("Cache.get_userName").endswith(" getuserName")
