"""What reading one simple command gives: files, hosts, code and what stays unknown."""

from pathlib import Path

import pytest
from hilum_guard import CommandEffects, judge_command, read_effects, search


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A workspace with two folders, one of them with a link in it."""
    root = tmp_path.resolve()
    for name in ("docs/a.md", "docs/b.tmp", "src/a.py", "src/b.tmp"):
        (root / name).parent.mkdir(exist_ok=True)
        (root / name).write_text("x\n")
    (root / "src/link").symlink_to("a.py")
    return root


def effects(text: str, root: Path) -> list[CommandEffects]:
    """The effects of all commands of a text."""
    return [read_effects(each) for each in judge_command(text, workspace=root).all_commands]


def files(text: str, root: Path) -> set[tuple[str, str, str]]:
    """What the commands of a text do to files."""
    return {
        (access.kind, access.path, access.deep)
        for each in effects(text, root)
        for access in each.files
    }


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("cat docs/a.md", {("read", "docs/a.md", "")}),
        ("rm -r docs", {("delete", "docs", "all")}),
        ("mkdir new > log", {("write", "new", ""), ("write", "log", "")}),
        ("chmod -R a+r docs", {("write", "docs", "all")}),
        ("echo $(<docs/a.md)", {("read", "docs/a.md", "")}),
        ("git -C docs rm a.md", {("delete", "a.md", "all")}),
        ("git restore docs", {("write", "docs", "some")}),
        ("git restore --source HEAD docs", {("write", "docs", "all")}),
    ],
)
def test_files_are_as_they_are_written(
    text: str, expected: set[tuple[str, str, str]], root: Path
) -> None:
    assert {each for each in files(text, root) if each[0] != "any"} == expected


def test_a_formatter_changes_files_that_are_there_and_makes_their_content(root: Path) -> None:
    for text in (
        "black src", "ruff check --fix src", "isort src", "clang-format -i src", "rubocop -A src",
        "terraform fmt src", "mix format src", "shfmt -i 2 -w src", "swiftformat src --exclude x",
        "clang-tidy -p build --fix src", "php-cs-fixer fix src", "yapf -i src", "ktlint -F src",
    ):  # fmt: skip
        (access,) = [each for each in effects(text, root)[0].files if each.kind == "write"]
        assert (access.path, access.existing, access.generated) == ("src", True, True)
    for text in (
        "black --check src", "ruff check src", "prettier src", "clang-format src", "rubocop src",
        "terraform fmt -check src", "terraform plan src", "mix test src", "shfmt -d src",
        "swiftformat --lint src", "php-cs-fixer fix --dry-run src", "yapf src", "pint --test src",
    ):  # fmt: skip
        assert "write" not in {access.kind for access in effects(text, root)[0].files}


def test_kustomize_edit_changes_the_file_of_its_folder(root: Path) -> None:
    written = files("cd src && kustomize edit set image a=b", root)
    assert "kustomization.yaml" in {path for kind, path, _ in written if kind == "write"}
    assert "write" not in {kind for kind, _, _ in files("kustomize build src", root)}


def test_a_copy_says_what_is_put_where(root: Path) -> None:
    copied = {
        (access.path, access.source)
        for access in effects("cp -r src docs", root)[0].files
        if access.kind == "write" and access.source
    }
    assert copied == {("docs/src", "src")}


@pytest.mark.parametrize(
    ("text", "unknown"),
    [
        ("cat docs/a.md", ""),
        ("grep -r x docs", "reads"),
        ("./program docs/a.md", "all"),
        ("$PROGRAM docs", "all"),
        ("sed --no-such-option docs/a.md", "all"),
    ],
)
def test_what_is_not_known_is_said(text: str, unknown: str, root: Path) -> None:
    assert effects(text, root)[0].unknown == unknown


@pytest.mark.parametrize(
    ("text", "code", "script"),
    [
        ("python -c 'import os; os.remove(1)'", ("import os; os.remove(1)",), ""),
        ("python -c 'print(\"git push\")'", (), ""),
        ("python run.py x", (), "run.py"),
        ("bash run.sh", (), "run.sh"),
        ("bash < run.sh", (), "run.sh"),
        ("echo 'x; y'", (), ""),
        ("node <<< 'a()'", ("a()\n",), ""),
        ("bin/tool x", (), "bin/tool"),
    ],
)
def test_code_and_scripts_are_named(
    text: str, code: tuple[str, ...], script: str, root: Path
) -> None:
    first = effects(text, root)[0]
    assert first.code == code
    assert (first.script.path if first.script else "") == script


def test_hosts_are_those_that_the_words_name(root: Path) -> None:
    (read,) = effects("curl -s https://a.example/x b.example", root)
    assert (read.hosts, read.network) == (("a.example", "b.example"), True)


def test_what_a_find_reaches_is_a_search_that_only_the_judge_makes(root: Path) -> None:
    (found,) = [
        each for command in effects("find . -name '*.tmp' -delete", root) for each in command.found
    ]
    assert [(access.kind, access.path) for access in found.files] == [("delete", "{}")]
    assert [access.path for access in found.otherwise] == ["./**/*.tmp"]
    findings = search(found.query)
    assert findings is not None
    assert sorted(entry.printed for entry, _ in findings.entries) == ["./docs/b.tmp", "./src/b.tmp"]
    assert all(sure for _, sure in findings.entries)


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("find src -type l -delete", [("src/link", True)]),
        ("find src -size +1M -name a.py -delete", [("src/a.py", False)]),
        ("find src ! -name '*.py' -type f -delete", [("src/b.tmp", True)]),
        ("find -L src -delete", None),
        ("find src -no-such-test -delete", None),
    ],
)
def test_a_search_says_what_is_certain(
    text: str, answer: list[tuple[str, bool]] | None, root: Path
) -> None:
    found = [each for command in effects(text, root) for each in command.found]
    findings = search(found[0].query)
    if answer is None:
        assert findings is None
    else:
        assert findings is not None
        assert [(entry.printed, sure) for entry, sure in findings.entries] == answer


def test_an_abbreviated_option_is_not_on_the_list_of_harmless_commands(root: Path) -> None:
    assert judge_command("sort --reverse docs/a.md", workspace=root).kind == "auto"
    assert judge_command("sort --rev docs/a.md", workspace=root).kind == "ask"
    assert judge_command("head -5x docs/a.md", workspace=root).kind == "ask"
