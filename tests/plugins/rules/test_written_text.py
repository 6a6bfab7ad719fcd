"""What a call writes into a file, and what only runs, is a comment, or has another name."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest
from hilum_checks import compile_rule, judge

from tests.support.obedience.judging import make_tool

SHELL = make_tool("run_terminal_cmd")
WRITE = make_tool("write_file")
PRINT = "No `print()` calls in `app/`."
LOG = "Never use `console.log`."
EVAL = "Never use `eval()`."
CORE = "Ask before editing `core/`."


class Ruled:
    """A rule as judging sees it."""

    def __init__(self, sentence: str) -> None:
        self.sentence, self.path, self.line = sentence, "AGENTS.md", 1
        self.check = compile_rule(sentence, hard=False).check
        assert self.check is not None


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("project").resolve() / "workspace"
    for name in ("app/a.py", "core/a.py", "docs/a.md", "web/src/a.ts"):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text("a\n")
    subprocess.run(["git", "init", "-q"], cwd=root, check=True)
    subprocess.run(["git", "add", "-A"], cwd=root, check=True)
    return root


def find_verdict(root: Path, sentence: str, call: str | tuple[str, str]) -> Any:
    if isinstance(call, str):
        arguments, tool = {"command": call}, SHELL
    else:
        arguments, tool = {"path": call[0], "content": call[1]}, WRITE
    return judge([Ruled(sentence)], json.dumps(arguments), tool, root)


WITH_PATH = "from pathlib import Path\nPath('app/n.py').write_text('x = 1\\n')\nprint('done')\n"


@pytest.mark.parametrize(
    ("sentence", "call"),
    [
        (PRINT, f"python3 - <<'EOF'\n{WITH_PATH}EOF"),
        (PRINT, "python3 -c \"open('app/z.py','w').write('y = 2'); print('ok')\""),
        (PRINT, "python3 -c \"p='app/a.py'; s=open(p).read(); open(p,'w').write(s); print(len(s))\""),
        (LOG, "node -e \"require('fs').writeFileSync('web/z.js', 'x'); console.log(1)\""),
        (PRINT, "cd app && cat > h.py <<'EOF'\n# print() is banned\nEOF"),
        (PRINT, "mkdir -p app/sub && cat > app/sub/h.py <<'EOF'\n# print() is banned\nEOF"),
        (LOG, "cd web && cat > src/o.ts <<'EOF'\n// console.log is banned\nEOF"),
        (EVAL, "cat > app/h.py <<'EOF'\n'''No eval().'''\nEOF\npython3 -m py_compile app/h.py"),
        (EVAL, "cat > app/h.py <<'E'\nx = 1\nE\ngit add -A && git commit -m 'Drop eval()'"),
        (LOG, "for n in $(seq 1 3); do echo $n > docs/n$n.md; done"),
        (LOG, "cp docs/a.md docs/$(date +%Y).md"),
        (LOG, "touch docs/$(date +%F).ts"),
        (LOG, "for n in $(seq 1 3); do mkdir -p web/d$n; done"),
        (PRINT, ("app/x.py", 'a = f"{T} print()"\n')),
        (PRINT, ("app/x.py", 'a = f"{{ {T} }} print()"\n')),
        (LOG, ("a.ts", "a = `a ${1} console.log`\n")),
        (EVAL, ("a.rb", '"#{a} eval(1) is bad"\n')),
    ],
)  # fmt: skip
def test_what_is_not_written_as_code_is_allowed(
    sentence: str, call: str | tuple[str, str], root: Path
) -> None:
    assert find_verdict(root, sentence, call) is None


@pytest.mark.parametrize(
    ("sentence", "call"),
    [
        (PRINT, "python3 -c \"open('app/z.py','w').write('print(1)')\""),
        (PRINT, "python3 -c \"open('app/z.py','w').write('pri' + 'nt(1)')\""),
        (PRINT, "python3 -c \"print('print(1)', file=open('app/z.py','w'))\""),
        (PRINT, "python3 -c \"print('print(1)')\" > app/z.py"),
        (PRINT, "python3 - <<'EOF'\nT = '''\nprint(1)\n'''\nopen('app/n.py','w').write(T)\nEOF"),
        (PRINT, "python3 - > app/n.py <<'EOF'\nprint(b'\\x70rint(1)')\nEOF"),
        (PRINT, "python3 -c \"def f(): print(1)\nimport inspect; open('app/z.py','w').write(inspect.getsource(f))\""),
        (LOG, "node -e \"require('fs').writeFileSync('web/z.js', 'console.log(2)')\""),
        (LOG, "node -e \"x.replace(/'/, ''); require('fs').writeFileSync('web/z.js', 'console.log(2)')\""),
        (PRINT, "cd app && cat > h.py <<'EOF'\nprint(1)\nEOF"),
        (PRINT, "mkdir -p app/sub && cat > app/sub/h.py <<'EOF'\nprint(1)\nEOF"),
        (EVAL, "cat > app/h.py <<'EOF'\neval(1)\nEOF\npython3 -m py_compile app/h.py"),
        (EVAL, "cat <<'EOF' | tr -d '#' > app/h.py\n# eval(1)\nEOF"),
        (PRINT, "touch app/h.py && echo 'print(1)' > app/h.py"),
        (LOG, "echo $n > web/n$n.ts"),
        (PRINT, ("app/x.py", 'a = f"{a} {print(1)} x"\n')),
        (LOG, ("a.ts", "a = `a ${b} ${console.log(1)}`\n")),
        (LOG, ("a.ts", "a = `a ${ '}' + console.log(1)}`\n")),
        (LOG, ("a.ts", "a = `a ${ {a: 1}.a + console.log(1)}`\n")),
    ],
)  # fmt: skip
def test_what_is_written_as_code_is_refused(
    sentence: str, call: str | tuple[str, str], root: Path
) -> None:
    assert find_verdict(root, sentence, call) is not None


@pytest.mark.parametrize(
    "call",
    [
        "tmp=$(mktemp) && echo a > $tmp && rm $tmp",
        "tmp=$(mktemp) && git diff > $tmp && rm $tmp",
        'tmp="$(mktemp -t foo.XXXX)" && cp docs/a.md "$tmp"',
        't=$(mktemp /tmp/x.XXXX) && echo a > "$t" && mv "$t" /tmp/y',
        "cd docs && tmp=$(mktemp) && echo a > $tmp",
        "N=a.md && echo x > docs/$N",
        "N=$(date +%s); echo x > /var/tmp/$N.txt",
        'echo x > "/var/tmp/$USER.log"',
        "for f in docs/*; do cp $f /var/tmp/$(basename $f).bak; done",
    ],
)
def test_temporary_names_are_in_the_folder_for_temporary_files(call: str, root: Path) -> None:
    assert find_verdict(root, CORE, call) is None


@pytest.mark.parametrize(
    "call",
    [
        "tmp=$(mktemp core/x.XXXX) && echo a > $tmp",
        "tmp=$(mktemp -p core) && echo a > $tmp",
        "tmp=$(cat name) && echo a > $tmp",
        "N=core/a.py && echo x > $N",
        "cd core && N=a.py && echo x > $N",
        "echo x > core/$(date +%s)",
        "echo x > /var/tmp/$N/../core/a.py",
    ],
)
def test_other_unknown_names_may_be_protected(call: str, root: Path) -> None:
    assert find_verdict(root, CORE, call) is not None


@pytest.mark.parametrize(
    ("script", "kind"),
    [
        ("/console.log/d", ""),
        ("/console.log/,+2d; s/a/b/", ""),
        ("s|console.log(1)||", ""),
        ("s/console.log(/logger.info(/", ""),
        (r"s#console.log(\(.*\))#logger.debug(\1)#g", ""),
        ('s/format: "esm"/format: "cjs"/', ""),
        # what a script adds
        ("s/a/console.log(1)/", "deny"),
        ("/console.log/d; s/a/console.log(2)/", "deny"),
        (r"s/\(con\)x/\1sole.log/", "deny"),
        ("s/console.log/&(2)/", "deny"),
        ("s|// console.log|console.log|", "deny"),
        ("/console.log/s|// ||", "deny"),
        ("1i console.log(1)", "deny"),
        ("1a console.log(1)", "deny"),
        ("/console.log/c console.log(2)", "deny"),
    ],
)
def test_a_script_of_sed_adds_only_its_new_texts(root: Path, script: str, kind: str) -> None:
    found = find_verdict(root, LOG, f"sed -i '{script}' web/src/a.ts")
    assert (found.kind if found else "") == kind


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        ("sed -i -e '/console.log/d' -e 's/a/b/' web/src/a.ts", ""),
        ("sed -Ei.bak 's/console.log[(](.*)[)]/logger.info(\\1)/' web/src/a.ts", ""),
        ("sed -i -e '/console.log/d' -e 's/a/console.log(1)/' web/src/a.ts", "deny"),
        ("sed -i '/console.log/d' web/src/a.ts; echo '/console.log/d' >> web/src/a.ts", "deny"),
        ("sed -n '/console.log/p' docs/a.md >> web/src/a.ts", "deny"),
        ('sed -i "s/a/$Y/" web/src/a.ts', "ask"),
    ],
)
def test_other_words_of_sed_are_written(root: Path, command: str, kind: str) -> None:
    found = find_verdict(root, LOG, command)
    assert (found.kind if found else "") == kind
