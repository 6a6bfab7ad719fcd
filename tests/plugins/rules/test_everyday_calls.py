"""Calls of a usual day that no rule means, each beside one that the rule forbids."""

import json
import os
import subprocess
from pathlib import Path

import pytest
from hilum_checks import compile_rule, judge
from hilum_checks.call_history import CallHistory

from tests.support.judged_commands import Ruled, judge_sentence
from tests.support.obedience.judging import make_tool

WRAPPER = """\
#!/bin/sh
set -euf
exec_maven() {
  exec "$MAVEN_HOME/bin/$MVN_CMD" "$@"
}
MAVEN_HOME="$HOME/.m2/wrapper/dists/x"
MVN_CMD=mvn
exec_maven "$@"
"""
MANAGE = """\
#!/usr/bin/env python
import os
import sys


def main():
    os.environ.setdefault('DJANGO_SETTINGS_MODULE', 'mysite.settings')
    from django.core.management import execute_from_command_line
    execute_from_command_line(sys.argv)


if __name__ == '__main__':
    main()
"""
FILES = {
    "mvnw": WRAPPER,
    "scripts/test.sh": '#!/bin/sh\nset -e\npytest "$@"\n',
    "scripts/outer.sh": "#!/bin/sh\nbash scripts/test.sh -q\n",
    "scripts/any.sh": '#!/bin/sh\n"$@"\n',
    "scripts/deploy.sh": "#!/bin/sh\nmake deploy\n",
    "bin/setup": "#!/bin/sh\nnpm ci\n",
    "reset.sh": "#!/bin/sh\ncargo clean\n",
    "c.sh": '#!/bin/sh\ncargo "$@"\n',
    "push.sh": "#!/bin/sh\ngit push\n",
    "wipe.sh": "#!/bin/sh\nflyway clean\n",
    "gen/a.csv": "a b\n",
    "gen/b.json": "{}\n",
    "src/a.py": "x = 1\n",
    "core/src/main/A.java": "class A { }\n",
    "core/target/a": "x\n",
    "infra/main.tf": "x\n",
    "prisma/migrations/1/migration.sql": "select 1;\n",
    ".env.production": "A=1\n",
    "Makefile": "check: lint test\nlint:\n\ttrue\ntest:\n\ttrue\nhalf: lint\nsub:\n\tmake test || true\n"
    "build:\n\t./mvnw -q verify\n",
    "justfile": "check: lint test\n    echo\nlint:\n    true\ntest:\n    true\n",
}


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository whose files are older than this program."""
    root = tmp_path_factory.mktemp("calls").resolve()
    for name, text in FILES.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
        os.utime(root / name, (1e9, 1e9))
    subprocess.run(["git", "init", "-q", "-b", "main"], cwd=root, check=True)
    subprocess.run(["git", "add", "-A"], cwd=root, check=True)
    return root


MVN = "Always use `./mvnw`, never `mvn`."
SCRIPT = "Use `scripts/test.sh`, never run `pytest` directly."
PYTEST = "Never run `pytest` directly."
CARGO = "Never run `cargo clean`."
YARN = "Use `yarn`, never `npm`."


@pytest.mark.parametrize(
    ("sentence", "command"),
    [
        (MVN, "./mvnw -q verify"), (MVN, "bash ./mvnw -q verify"), (MVN, "CI=1 ./mvnw verify"),
        (MVN, "set -e; ./mvnw verify"), (MVN, "make build"),
        (SCRIPT, "bash scripts/test.sh"), (SCRIPT, "./scripts/test.sh -k x"), (SCRIPT, "sh scripts/outer.sh"),
        (SCRIPT, "sh scripts/any.sh ls"), (PYTEST, "sh scripts/test.sh"), (YARN, "sh bin/setup"), (YARN, "bin/setup"),
        (CARGO, "sh reset.sh"), (CARGO, "sh c.sh build"),
        ("Never run `make deploy`; use `scripts/deploy.sh`.", "sh scripts/deploy.sh"),
    ],
)  # fmt: skip
def test_the_project_s_scripts_call_its_tools(sentence: str, command: str, root: Path) -> None:
    assert judge_sentence(sentence, command, root) == ""


@pytest.mark.parametrize(
    ("sentence", "command"),
    [
        (MVN, "mvn -q verify"), (MVN, "MVN_CMD=mvn ./mvnw verify"), (MVN, "export MVN_CMD=mvn; ./mvnw verify"),
        (MVN, "echo 'mvn x' > mvnw && sh mvnw"), (SCRIPT, "sh scripts/any.sh pytest"),
        (SCRIPT, "printf 'pytest\\n' > go.sh && sh go.sh"), (SCRIPT, "bash scripts/test.sh; pytest"),
        (SCRIPT, "printf 'sh scripts/test.sh\\n' > go.sh && sh go.sh"), (CARGO, "sh c.sh clean"),
        # what is lasting
        ("Never push.", "sh push.sh"), ("Never run `make deploy`.", "sh scripts/deploy.sh"),
        ("Never run `flyway clean`.", "sh wipe.sh"), (MVN, "make build MVN_CMD=mvn"),
    ],
)  # fmt: skip
def test_what_a_call_puts_into_a_script_is_denied(sentence: str, command: str, root: Path) -> None:
    assert judge_sentence(sentence, command, root) == "deny"


def test_django_s_own_script_runs_although_it_is_new(root: Path) -> None:
    (root / "manage.py").write_text(MANAGE)
    assert judge_sentence("Never force-push.", "python manage.py makemigrations", root) == ""
    (root / "manage.py").write_text(MANAGE + "os.execvp(os.environ['X'], ['x'])\n")
    assert judge_sentence("Never force-push.", "python manage.py makemigrations", root) == "ask"


GEN = "Never edit `gen/`."


def python(*lines: str) -> str:
    text = "\n".join(lines)
    return f"python3 - <<'EOF'\n{text}\nEOF"


@pytest.mark.parametrize(
    "command",
    [
        "awk 'NR>1{print $2}' gen/a.csv", "awk '{if ($1 > 2) print $1}' gen/a.csv",
        "awk 'length>100{print FILENAME\":\"FNR}' gen/a.csv", "awk '$1 >= 2 && /x>y/ {n++} END {print n}' gen/a.csv",
        "awk '{print ($1 > 2)}' gen/a.csv", "perl -ne 'print if $. > 1' gen/a.csv",
        python("from pathlib import Path", "out = []", "for p in sorted(Path('gen').glob('*.csv')):",
               "    out.append(p.read_text())", "Path('src/all.txt').write_text('\\n'.join(out))"),
        python("import pathlib, shutil", "for p in pathlib.Path('gen').glob('*.csv'):",
               "    shutil.copy(p, pathlib.Path('/tmp') / p.name)"),
        python("import glob", "out = [open(p).read() for p in glob.glob('gen/*.csv')]",
               "open('src/o', 'w').write(''.join(out))"),
        "python3 -c \"import shutil; shutil.copytree('gen', '/tmp/gen', dirs_exist_ok=True)\"",
        "python3 -c \"import zipfile; zipfile.ZipFile('/tmp/a.zip', 'w').write('gen/a.csv')\"",
        python("import zipfile", "with zipfile.ZipFile('/tmp/a.zip', 'w') as z:", "    z.write('gen/a.csv')"),
        python("import csv", "with open('gen/a.csv') as f:", "    rows = list(csv.DictReader(f))",
               "with open('src/o.csv', 'w') as f:", "    csv.writer(f).writerows(rows)"),
        "node -e \"const d=require('./gen/b.json'); require('fs').writeFileSync('src/o.json', JSON.stringify(d))\"",
        "node -e \"const fs=require('fs'); fs.writeFileSync('src/n.txt', fs.readdirSync('gen').join(' '))\"",
    ],
)  # fmt: skip
def test_code_that_reads_and_writes_elsewhere_is_allowed(command: str, root: Path) -> None:
    assert judge_sentence(GEN, command, root) == ""


@pytest.mark.parametrize(
    "command",
    [
        "awk '{print > \"gen/a.csv\"}' src/a.py", "awk '{print $1 > FILENAME}' gen/a.csv",
        "awk '{printf \"%s\", $1 >> FILENAME}' gen/a.csv", "awk 'NR>1{print $2 > FILENAME}' gen/a.csv",
        "awk '{ \"date > gen/a.csv\" | getline }' gen/a.csv", "gawk -i inplace '{print}' gen/a.csv",
        "perl -ne 'open(F, \">gen/a.csv\"); print F $_' src/a.py", "perl -i -ne 'print if $. > 1' gen/a.csv",
        python("from pathlib import Path", "for p in Path('gen').glob('*.csv'):", "    p.write_text(p.read_text())"),
        python("from pathlib import Path", "for p in Path('gen').glob('*.csv'):", "    x = p.read_text()",
               "p.write_text('x')"),
        python("from pathlib import Path", "for p in Path('gen').glob('*.csv'):",
               "    (p.parent / 'x').write_text('x')"),
        python("import pathlib, shutil", "for p in pathlib.Path('src').glob('*'):",
               "    shutil.copy(p, pathlib.Path('gen') / p.name)"),
        python("import glob", "for p in glob.glob('gen/*.csv'):", "    open(p, 'w').write('x')"),
        "python3 -c \"import shutil; shutil.copytree('src', 'gen', dirs_exist_ok=True)\"",
        "python3 -c \"import zipfile; zipfile.ZipFile('gen/a.zip', 'w').write('src/a.py')\"",
        python("with open('src/a.py') as f:", "    rows = f.read()", "with open('gen/a.csv', 'w') as f:",
               "    f.write(rows)"),
        python("with open('gen/a.csv') as f:", "    rows = f.read()", "with open('src/o', 'w') as f:",
               "    f.write(rows)", "open(f.name, 'w')"),
        "node -e \"const d=require('./src/b.json'); require('fs').writeFileSync('gen/b.json', JSON.stringify(d))\"",
    ],
)  # fmt: skip
def test_code_that_writes_is_denied(command: str, root: Path) -> None:
    assert judge_sentence(GEN, command, root) == "deny"


MIGRATIONS = "Never edit existing migrations."
REWRITE = python(
    "from pathlib import Path",
    "for p in Path('FOLDER').rglob('*.ENDING'):",
    "    p.write_text(p.read_text().replace('A', 'B'))",
)


def test_a_pattern_in_code_is_judged_by_the_files_that_it_matches(root: Path) -> None:
    harmless = REWRITE.replace("FOLDER", "core/src").replace("ENDING", "java")
    assert judge_sentence(MIGRATIONS, harmless, root) == ""
    forbidden = REWRITE.replace("FOLDER", ".").replace("ENDING", "sql")
    assert judge_sentence(MIGRATIONS, forbidden, root) == "deny"
    listed = "git ls-files '*.java' | xargs awk 'length>120{print FILENAME}'"
    assert judge_sentence(MIGRATIONS, listed, root) == ""


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        ("rm -rf */target", ""),
        ("rm -rf **/target", ""),
        ("chmod -R u+w */target", ""),
        ("rm -rf */*", "deny"),
        ("rm -rf inf*", "deny"),
        ("rm -rf */main.tf", "deny"),
        ("mkdir -p infra/target; rm -rf */target", "deny"),
    ],
)
def test_a_pattern_stands_for_files_that_exist(command: str, kind: str, root: Path) -> None:
    assert judge_sentence("Never touch `infra/`.", command, root) == kind


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        ("import pathlib; print(len(list(pathlib.Path('.').rglob('*'))))", ""),
        ("import glob; print(len(glob.glob('**/*', recursive=True)))", ""),
        ("import pathlib; print([p.read_text() for p in pathlib.Path('.').rglob('*')])", "deny"),
        ("import glob; print([open(p).read() for p in glob.glob('**/*', recursive=True)])", "deny"),
        ("import shutil; shutil.copy('.env.production', 'x')", "deny"),
    ],
)
def test_listing_names_reads_nothing(code: str, kind: str, root: Path) -> None:
    assert judge_sentence("Never read `.env.production`.", f'python3 -c "{code}"', root) == kind


@pytest.fixture(scope="module")
def branches(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository in which `main` has changed a file since `work` was made, with its remote."""
    root = tmp_path_factory.mktemp("branches").resolve()

    def run(*words: str) -> None:
        subprocess.run(["git", *words], cwd=root, check=True)

    def commit(name: str, text: str) -> None:
        (root / name).write_text(text)
        run("add", "-A")
        run("-c", "user.name=a", "-c", "user.email=a@example.com", "commit", "-qm", name)

    run("init", "-qb", "main")
    commit(".env.production", "A=1\n")
    run("switch", "-qc", "work")
    for number in range(3):
        commit(f"{number}.txt", "x\n")
    run("switch", "-q", "main")
    commit(".env.production", "A=2\n")
    run("update-ref", "refs/remotes/origin/old", "HEAD~1")
    run("update-ref", "refs/remotes/origin/main", "HEAD")
    run("switch", "-q", "work")
    return root


@pytest.mark.parametrize(
    ("command", "kind"),
    [
        ("git diff main...HEAD", ""), ("git diff origin/main...HEAD", ""), ("git diff main...", ""),
        ("git diff origin/old..HEAD", ""), ("git diff origin/old", ""), ("git log -p -3", ""),
        ("git log -p -n 2", ""), ("git log -p --max-count=2 HEAD", ""),
        ("git diff main..HEAD", "ask"), ("git diff origin/main..HEAD", "ask"), ("git diff HEAD...main", "ask"),
        ("git log -p origin/old..HEAD", ""), ("git log -p main..", ""), ("git log -p -2 HEAD~2..HEAD", ""),
        ("git log -p HEAD..main", "ask"), ("git log -p origin/old..main", "ask"), ("git log -p --all main..HEAD", "ask"),
        ("git log -p -9", "ask"), ("git log -p -2 main", "ask"), ("git log -p", "ask"),
        ("git diff other...HEAD", "ask"), ("git fetch && git diff origin/main...HEAD", "ask"),
    ],
)  # fmt: skip
def test_commits_are_judged_by_the_files_that_they_change(
    command: str, kind: str, branches: Path
) -> None:
    assert judge_sentence("Never read `.env.production`.", command, branches) == kind


def test_settings_that_show_merges_are_asked_about(branches: Path) -> None:
    command = "git log -p -2"
    assert judge_sentence("Never read `.env.production`.", command, branches) == ""
    subprocess.run(["git", "config", "log.diffMerges", "on"], cwd=branches, check=True)
    assert judge_sentence("Never read `.env.production`.", command, branches) == "ask"
    subprocess.run(["git", "config", "--unset", "log.diffMerges"], cwd=branches, check=True)


UNIT_TESTS = "#[cfg(test)]\nmod tests {\n    #[test]\n    fn a() {\n        x.unwrap();\n    }\n}\n"


@pytest.mark.parametrize(
    ("sentence", "text", "kind"),
    [
        ("Never use `.unwrap()` outside tests.", UNIT_TESTS, ""),
        ("Never use `.unwrap()` outside tests.", "#[test]\nfn a() {\n    x.unwrap();\n}", ""),
        ("Never use `.unwrap()` outside tests.", "fn f() { x.unwrap() }\n" + UNIT_TESTS, "deny"),
        ("Never use `.unwrap()` outside tests.", UNIT_TESTS + "fn f() { x.unwrap() }", "deny"),
        (
            "Never use `.unwrap()` outside tests.",
            "#[cfg(test)]\nmod t;\nfn f() { x.unwrap() }",
            "deny",
        ),
        (
            "Never use `.unwrap()` outside tests.",
            '#[cfg(test)]\nmod t { const A: &str = "{"; }\nfn f() { x.unwrap() }',
            "deny",
        ),
        ("Never use `.unwrap()`.", UNIT_TESTS, "deny"),
    ],
)
def test_unit_tests_of_rust_are_tests(sentence: str, text: str, kind: str, root: Path) -> None:
    rule = Ruled(sentence, compile_rule(sentence, hard=False).check)
    arguments = json.dumps({"path": "src/b.rs", "content": text})
    found = judge([rule], arguments, make_tool("write_file"), root)
    assert (found.kind if found else "") == kind


POETRY = "Run `poetry run pytest` before committing."
BOTH = "Run `make lint` and `make test` before committing."
JUST = "Run `just test` before committing."


@pytest.mark.parametrize(
    ("sentence", "command", "kind"),
    [
        # in a service of the project
        (POETRY, "docker compose exec web poetry run pytest", ""),
        (POETRY, "docker compose run --rm web poetry run pytest", ""),
        (POETRY, "docker-compose exec -T web poetry run pytest", ""),
        (POETRY, "docker compose exec -d web poetry run pytest", "deny"),
        (POETRY, "docker compose -f /tmp/x.yml exec web poetry run pytest", "deny"),
        (POETRY, "COMPOSE_FILE=/tmp/x.yml docker compose exec web poetry run pytest", "deny"),
        (POETRY, "docker run alpine poetry run pytest", "deny"),
        (POETRY, "docker compose exec web poetry run black .", "deny"),
        # as the prerequisite of another goal
        (BOTH, "make check", ""),
        (BOTH, "make -j4 check", ""),
        (BOTH, "make half && make test", ""),
        (BOTH, "make half", "deny"),
        (BOTH, "make -i check", "deny"),
        (BOTH, "make -n check", "deny"),
        (BOTH, "make lint && make sub", "deny"),
        (BOTH, "printf 'check:\\n' > Makefile && make check", "deny"),
        (JUST, "just check", ""),
        (JUST, "just lint", "deny"),
    ],
)
def test_what_counts_as_the_required_command(
    sentence: str, command: str, kind: str, root: Path
) -> None:
    rule = Ruled(sentence, compile_rule(sentence, hard=False).check)
    arguments = json.dumps({"command": f"{command} && git commit -m a"})
    found = judge([rule], arguments, make_tool("run_terminal_cmd"), root, CallHistory())
    assert (found.kind if found else "") == kind
