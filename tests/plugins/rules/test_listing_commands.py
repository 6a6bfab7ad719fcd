"""Lists of files below a known folder do not break rules about other folders."""

import json
import subprocess
from pathlib import Path

import pytest
from hilum import Tool
from hilum_checks import compile_lines, judge


class Ruled:
    """A rule with one line in the notation."""

    sentence = "The rule."
    path = "AGENTS.md"
    line = 1

    def __init__(self, line: str) -> None:
        self.check = compile_lines([line])[0].check


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for folder in ("vendor", "crates/cli/src", "tests/unit/golden"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "a.py").write_text("zzz\n")
    (tmp_path / "pnpm-lock.yaml").write_text("")
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    subprocess.run(["git", "add", "."], cwd=tmp_path, check=True)
    return tmp_path


def judged(command: str, root: Path, *lines: str) -> str:
    tool = Tool("run_terminal_cmd", "", lambda: "", risk="execute")
    found = judge([Ruled(line) for line in lines], json.dumps({"command": command}), tool, root)
    return found.kind if found else ""


ELSEWHERE = [
    "grep -rl zzz crates/cli/src | xargs -r sed -i 's/zzz/yyy/g'",
    "grep -rl zzz crates 2>/dev/null | xargs sed -i s/a/b/",
    "grep -rl --include='*.py' zzz crates tests | xargs sed -i s/a/b/",
    "grep -rlZ zzz tests | xargs -0 rm",
    "rg -l zzz crates | xargs sed -i s/a/b/",
    "rg -l zzz -g '*.py' tests | sort | head -3 | xargs rm",
    "rg --files tests | xargs rm",
    "git grep -l zzz -- tests | xargs sed -i s/a/b/",
    "git ls-files 'tests/*.py' | xargs sed -i s/a/b/",
    "git ls-files -z tests | xargs -0 sed -i s/a/b/",
    "ls crates/cli/src/*.py | xargs sed -i s/a/b/",
    "sed -i s/a/b/ $(git ls-files 'tests/*.py')",
    "for f in $(find tests -name '*.py'); do sed -i s/a/b/ \"$f\"; done",
    "find tests -name '*.py' | while read -r f; do sed -i s/a/b/ \"$f\"; done",
    "grep -rln 'zzz(' crates --include='*.py' | xargs sed -i 's/zzz(/yyy(/g'",
    "grep -lrn zzz crates tests --exclude-dir=.git | xargs sed -i s/a/b/",
    "grep -rl --include '*.py' --exclude-dir .git zzz crates | xargs sed -i s/a/b/",
    'grep -rlH zzz tests | while IFS= read -r f; do sed -i s/a/b/ "$f"; done',
    "git grep -lw zzz tests crates | xargs perl -pi -e s/a/b/",
    "rg -l zzz -tpy tests | xargs sed -i s/a/b/",
    "rg -g'*.py' -l zzz --sort=path crates | xargs sed -i s/a/b/",
    "fd -e py zzz tests | xargs sed -i s/a/b/",
    "fd --extension=py . crates tests | xargs sed -i s/a/b/",
    "fdfind -t f . tests | xargs rm",
    "mapfile -t fs < <(git ls-files 'tests/*.py'); sed -i s/a/b/ \"${fs[@]}\"",
]
REFUSED = [
    "grep -rl zzz . | xargs sed -i s/a/b/",
    "grep -rl zzz | xargs sed -i s/a/b/",
    "grep -rl zzz vendor | xargs sed -i s/a/b/",
    "grep -rl zzz crates ./vendor | xargs sed -i s/a/b/",
    "grep -Rl zzz crates/link | xargs sed -i s/a/b/",
    "grep -rl zzz $DIR | xargs sed -i s/a/b/",
    "grep -rlf list crates | xargs sed -i s/a/b/",
    "grep -rh zzz crates | xargs sed -i s/a/b/",
    "cd vendor && grep -rl zzz . | xargs sed -i s/a/b/",
    "find crates | grep -rl zzz vendor | xargs sed -i s/a/b/",
    "rg -l zzz -g '*.py' | xargs rm",
    "grep -rln zzz vendor --include='*.py' | xargs sed -i s/a/b/",
    "grep -rln zzz . --exclude-dir=vendor2 | xargs sed -i s/a/b/",
    "grep -rLn zzz crates | xargs sed -i s/a/b/",
    "grep -rn zzz crates | xargs sed -i s/a/b/",
    "rg -g'*.py' -l zzz | xargs sed -i s/a/b/",
    "fd -e py | xargs sed -i s/a/b/",
    "fd -e PY . vendor | xargs sed -i s/a/b/",
    "fd zzz | xargs sed -i s/a/b/",
    "fd -L . crates | xargs sed -i s/a/b/",
    "fd -e py . $DIR | xargs sed -i s/a/b/",
    "fd -e py . crates -x sed -i s/a/b/ vendor/a.py",
    "fd -e py . vendor -x sed -i s/a/b/",
    'rg -l zzz | while read -r f; do sed -i s/a/b/ "$f"; done',
    "git ls-files | xargs sed -i s/a/b/",
    "git ls-files ':/vendor' | xargs sed -i s/a/b/",
    "git -C vendor ls-files | xargs sed -i s/a/b/",
    "git ls-files '*.py' | xargs sed -i s/a/b/",
    "git ls-files -s tests | xargs sed -i s/a/b/",
    "sed -i s/a/b/ $(git ls-files 'vendor/*.py')",
    "sed -i s/a/b/ $(grep -rl zzz vendor)",
    "find vendor -name '*.py' | while read -r f; do sed -i s/a/b/ \"$f\"; done",
    "git ls-files tests | xargs -I{} mv {} vendor/",
    "git ls-files tests | sed s/tests/vendor/ | xargs sed -i s/a/b/",
    "mapfile -t a < <(git ls-files 'tests/*.py'); mapfile -t b < <(unknown); rm \"${b[@]}\"",
]


@pytest.mark.parametrize("command", ELSEWHERE)
def test_a_list_of_another_folder_passes(command: str, root: Path) -> None:
    assert judged(command, root, "deny write vendor/", "deny write pnpm-lock.yaml") == ""


@pytest.mark.parametrize("command", REFUSED)
def test_a_list_that_may_name_the_folder_is_refused(command: str, root: Path) -> None:
    assert judged(command, root, "deny write vendor/") != ""


@pytest.mark.parametrize("command", ELSEWHERE[5:10])
def test_a_list_includes_deeper_files(command: str, root: Path) -> None:
    assert judged(command, root, "deny write tests/unit/golden/") != ""


def test_both_ends_of_an_unknown_name_count(root: Path) -> None:
    line = "deny write *.tfstate"
    assert judged("sed -i s/a/b/ $(git ls-files 'tests/*.py')", root, line) == ""
    assert judged("cp pnpm-lock.yaml tests/$name.tfstate", root, line) != ""
    assert judged("cp pnpm-lock.yaml tests/$name", root, line) != ""
    assert judged("sed -i s/a/b/ tests/$name", root, line) == ""
    (root / "tests/a.tfstate").write_text("")
    assert judged("sed -i s/a/b/ tests/$name.tfstate", root, line) != ""
    assert judged("sed -i s/a/b/ tests/$name", root, line) != ""
    assert judged("touch tests/a$name.tfstate", root, "deny create ab*.tfstate") != ""


def test_an_unknown_name_may_be_deeper(root: Path) -> None:
    for command in ("rm tests/$name", "sed -i s/a/b/ $(find tests -name '*.py')"):
        assert judged(command, root, "deny write tests/unit/golden/") == "ask", command
        assert judged(command, root, "deny write tests/unit/golden/*.txt") == "", command


@pytest.mark.parametrize("operands", ["zzz vendor", ". vendor", "-t f -e py . vendor", "zzz"])
def test_it_is_uncertain_what_fd_finds(operands: str, root: Path) -> None:
    assert judged(f"fd {operands} | xargs rm", root, "deny write vendor/") == "ask"


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        ("grep -rl 'call(' . | xargs sed -i s/a/b/", ""),
        ("grep -rl 'a|b+{c}?' . | xargs sed -i s/a/b/", ""),
        ("grep -rl 'zzz(' . | xargs sed -i s/a/b/", "ask"),
        # In these, the text is an expression.
        ("grep -rlE 'zzz|(x)' . | xargs sed -i s/a/b/", "ask"),
        ("grep -rl --perl-regexp 'z+|(x)' . | xargs sed -i s/a/b/", "ask"),
        ("egrep -rl 'zzz|(x)' . | xargs sed -i s/a/b/", "ask"),
        ("grep -rl 'z*z' . | xargs sed -i s/a/b/", "ask"),
    ],
)
def test_a_text_with_parentheses_is_itself_for_grep(command: str, kind: str, root: Path) -> None:
    (root / "vendor/a.py").write_text("zzz(\n")
    (root / "crates/cli/src/a.py").write_text("call(\na|b+{c}?\n")
    assert judged(command, root, "deny write vendor/") == kind
