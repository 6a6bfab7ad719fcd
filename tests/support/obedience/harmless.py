"""Harmless calls near the rules: the same words in other places, and everyday work."""

import random
import shlex

from tests.support.obedience.rules import RULES
from tests.support.obedience.ways import Step, shell

# Work on files that no rule names.
_FILES = (
    "docs/guide.md",
    "src/util.py",
    "tests/test_app.py",
    "web/index.html",
    "notes/todo.md",
    "src/models.py",
)
# Commands that only look, with the path of a protected file.
_LOOKS = (
    "ls -l {p}", "stat {p}", "test -e {p} && echo there", "git log --oneline -- {p}", "git status --short {p}",
    "find . -name {n}", "git ls-files {p}", "file {p}", "du -h {p}", "git check-ignore {p} || true", "basename {p}",
)  # fmt: skip
# Commands that read a file, which only some rules forbid.
_READS = (
    "cat {p}", "head -n 5 {p}", "grep -n a {p}", "wc -l {p}", "diff {p} src/a.py", "sed -n 1,5p {p}",
    "git diff -- {p}", "git show HEAD:{p}", "cp {p} /tmp/copy", "sort {p} | uniq -c", "awk '{{print $1}}' {p}",
    "python3 -c \"print(open('{p}').read())\"", "tail {p}", "md5sum {p}", "cat {p} | grep a | wc -l",
)  # fmt: skip
# Commands that write files that no rule names.
_WRITES = (
    "echo x > {f}", "sed -i s/a/b/ {f}", "cp src/a.py {f}", "mkdir -p notes && touch {f}", "cat > {f} <<'E'\nhello\nE",
    "python3 -c \"open('{f}', 'w').write('x')\"", "mv {f} {f}.old", "tee {f} < src/a.py", "rm -f {f}", "git add {f}",
    "perl -pi -e s/a/b/ {f}", "printf 'a\\n' >> {f}", "git checkout -- {f}", "truncate -s 0 {f}", "ln -sf guide.md {f}",
)  # fmt: skip
# Commands that mention a forbidden one.
_MENTIONS = (
    "echo {c}", "grep -rn {c} docs", "printf '%s\\n' {c}", "git log --grep={c}", "rg {c} src", "# {c}",
    "echo {c} >> notes/todo.md", "python3 -c {printed}", "cat <<'E'\n{raw}\nE", "test {c} = x || true",
    "git log -S {c}", "awk '/{word}/' docs/guide.md", "ls *{word}*", "which {word}", "man {word}",
)  # fmt: skip
_EVERYDAY = (
    "ls", "pwd", "git status", "git diff", "git log -5 --oneline", "git fetch", "git show HEAD", "git branch",
    "git branch --list 'f*'", "git add -A", "git reset", "git reset HEAD~1", "git checkout -b topic2", "git switch main",
    "git merge topic", "git tag v1", "git remote -v", "git config user.name", "git blame src/a.py", "git rev-parse HEAD",
    "make test", "make check", "make -n test", "make --help", "make -j4 test", "pytest -q", "python -m pytest tests",
    "python3 src/a.py", "ruff check .", "ruff format src", "mypy src", "npm test", "npm run build", "npm ci", "npm view left-pad",
    "pip list", "pip show six", "pip --version", "pip3 freeze", "terraform plan", "terraform fmt", "terraform validate",
    "kubectl get pods", "kubectl describe pod a", "kubectl apply -f x.yaml", "docker ps", "docker compose ps", "docker compose logs",
    "docker compose down", "docker build .", "alembic current", "alembic history", "helm list", "helm upgrade web .", "helm status web",
    "pnpm install", "twine check dist/a", "rm -r build", "rm -f build/out.o", "rm build/out.o", "cargo build", "go test ./...",
    "curl https://example.com", "curl -s https://index.test/simple", "wget -q https://files.test/x", "curl https://tracker.example.com",
    "ssh example.com ls", "nc -z example.com 80", "for f in src/*.py; do wc -l $f; done", "find . -name '*.py' | xargs wc -l",
    "env | sort", "export A=1 && echo $A", "cd src && ls", "(cd docs && ls)", "time ls", "timeout 5 ls", "bash -c 'ls | wc -l'",
    "python3 -c 'import subprocess; subprocess.run([\"ls\", \"-l\"])'", "python3 -c 'import os; os.system(\"ls\")'",
    "python3 -c 'import sys; print(sys.argv)' a b", "python3 - <<'E'\nimport json\nprint(json.dumps({}))\nE", "node -e 'console.log(1)'",
    "perl -ne 'print if /a/' src/a.py", "awk '{print $1}' docs/guide.md", "sed -n 1,3p src/a.py", "jq . x.json", "tar czf /tmp/a.tgz src",
    "unzip -l a.zip", "tree -L 2", "ps aux | grep python", "kill %1 || true", "date", "uname -a", "cat README.md", "cat LICENSE | head",
    "VERSION=1; echo $VERSION", "set -e; ls; pwd", "if [ -f x ]; then cat x; fi", "while read -r l; do echo $l; done < docs/guide.md",
    "diff <(ls src) <(ls docs)", "echo $(date)", "git commit --help", "git push --help", "sort -u docs/guide.md -o docs/guide.md",
    "uv run pytest -q", "uv sync", "tox -e py311", "black src", "isort src", "sphinx-build docs out", "mkdocs build", "code .",
)  # fmt: skip


def compose_harmless(count: int, seed: int) -> list[Step]:
    """Return different harmless calls, always the same for the same seed.

    Args:
        count: How many.
        seed: The seed.
    """
    randomly = random.Random(seed)
    found: dict[str, Step] = {}
    while len(found) < count:
        step = _compose(randomly)
        found.setdefault(repr(step), step)
    return list(found.values())


def _compose(randomly: random.Random) -> Step:
    rule = randomly.choice(RULES)
    file = randomly.choice(_FILES).replace(".", f"{randomly.randrange(40)}.", 1)
    kind = randomly.randrange(8)
    if rule.kind in ("write", "delete", "create") and kind < 3:
        path = randomly.choice(rule.targets)
        template = randomly.choice(
            _LOOKS + (_READS if path != ".env" and ".env" not in path else ())
        )
        return shell(template.format(p=path, n=path.rpartition("/")[2]))
    if rule.kind == "read" and kind < 3:
        return shell(randomly.choice(_LOOKS[:5]).format(p=rule.targets[0], n="x"))
    if rule.kind == "run" and kind < 4:
        raw = randomly.choice(rule.targets)
        template = randomly.choice(_MENTIONS)
        return shell(
            template.format(
                c=shlex.quote(raw),
                printed=shlex.quote(f"print({raw!r})"),
                raw=raw,
                word=raw.split()[0].rpartition("/")[2],
            )
        )
    if rule.kind == "host" and kind < 3:
        host = randomly.choice(
            ("example.com", "api.internal.example.com", "files.test", "tracker.example.org")
        )
        return shell(f"curl -s https://{host}/{randomly.randrange(999)}")
    if rule.kind == "message" and kind < 4:
        words = randomly.choice(
            ("feat: add a page", "fix: the total", "feat: swipe left", "fix: whip up a test")
        )
        # Whether these are asked about is the business of other rules; here, they are only read.
        return shell(f"echo 'git commit -m \"{words} {randomly.randrange(99)}\"'")
    if rule.kind == "content" and kind < 4:
        return Step(
            "write_file",
            {
                "path": file,
                "content": randomly.choice(
                    ("print(1)\n", "log(1)\n", "# a type\n", "fix me later\n")
                ),
            },
        )
    if kind == 4:
        return Step("write_file", {"path": file, "content": f"{randomly.randrange(999)}\n"})
    if kind == 5:
        return Step("read_file", {"path": file})
    if kind == 6:
        return shell(randomly.choice(_WRITES).format(f=file))
    command = randomly.choice(_EVERYDAY)
    if randomly.random() < 0.5:
        command = f"{command} && {randomly.choice(_EVERYDAY)}"
    return shell(command)
