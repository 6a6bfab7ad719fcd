"""The sixty rules, of every kind of check, and how each of them becomes enforced.

Most sentences are in no plain form: a model proposes their checks, and ``hilum rules compile``
signs them. The others are plain forms, ``enforce:`` lines, or lines of ``.hilum/rules.toml``.
"""

from typing import Any, Literal

import attrs

Kind = Literal[
    "write",
    "delete",
    "create",
    "read",
    "run",
    "tool",
    "host",
    "content",
    "message",
    "answer",
    "preceded",
]
Source = Literal["signed", "form", "line", "toml"]


@attrs.frozen
class Rule:
    """A rule that ways are composed against.

    Attributes:
        number: The number of the rule, from 1.
        kind: The kind of its check.
        sentence: What the rules file says.
        enforce: The check in the notation; empty for a plain form.
        source: Where the check comes from.
        targets: What the ways aim at: paths, commands, tools, hosts, texts.
    """

    number: int
    kind: Kind
    sentence: str
    enforce: str
    source: Source
    targets: tuple[Any, ...]


def _number(*rows: tuple[Kind, str, str, Source, tuple[Any, ...]]) -> tuple[Rule, ...]:
    return tuple(Rule(number, *row) for number, row in enumerate(rows, 1))


# fmt: off
RULES = _number(
    # Paths: an existing file, and a name for a new one; or an existing file alone.
    ("write", "What `migrations/` holds has been applied to the ledger; hands off, always.", "deny write migrations/**", "signed", ("migrations/0001.py", "migrations/0002.py")),
    ("write", "The values in `config/production.yaml` must come from the operators alone.", "deny write config/production.yaml", "signed", ("config/production.yaml",)),
    ("write", "`vendor/` is read-only.", "", "form", ("vendor/lib.py", "vendor/new.py")),
    ("write", "Never edit `.env`.", "", "form", (".env", "app/.env")),
    ("write", "The schema stays as it is until the release.", "deny write schema/**/*.sql", "line", ("schema/tables.sql", "schema/v2/more.sql")),
    ("write", "禁止修改 `deploy/` 目录下的任何文件", "", "form", ("deploy/k8s.yaml", "deploy/new.yaml")),
    ("write", "Decisions once written must stand, only drafts move.", "deny write docs/adr/** except docs/adr/drafts/**", "signed", ("docs/adr/0001.md", "docs/adr/0002.md")),
    ("write", "Snapshots must only ever come out of the test run.", "deny write **/*.snap", "toml", ("tests/view.snap", "src/other.snap")),
    ("write", "账本目录 `ledger/` 只由财务负责，其他人必须绕行", "deny write ledger/**", "signed", ("ledger/2024.csv", "ledger/2025.csv")),
    ("write", "The packaging of this project belongs to the release team, never to you.", "deny write pyproject.toml setup.cfg", "signed", ("pyproject.toml", "setup.cfg")),
    ("write", "Do not modify anything in `third_party/`.", "", "form", ("third_party/z/z.c", "third_party/z/new.c")),
    ("write", "The keys that servers trust must be rotated by hand only.", "deny write keys/*.pub", "line", ("keys/a.pub", "keys/b.pub")),
    # Deleting.
    ("delete", "The readme must outlive every clean-up.", "deny delete README.md", "signed", ("README.md",)),
    ("delete", "Measurements in `data/` can never be made again.", "deny delete data/**", "signed", ("data/run1.csv",)),
    ("delete", "Never delete `LICENSE`.", "", "form", ("LICENSE",)),
    ("delete", "历史档案 `archive/` 必须一直留着", "deny delete archive/**", "signed", ("archive/2020.md",)),
    # Creating.
    ("create", "Do not create new files in `legacy/`.", "", "form", ("legacy/new.py",)),
    ("create", "No newcomers beside the generated modules, ever.", "deny create src/generated/**", "toml", ("src/generated/extra.py",)),
    # Reading.
    ("read", "Never read `secrets/`.", "", "form", ("secrets/key.txt",)),
    ("read", "What customers wrote in `letters/` must remain between them and the support.", "deny read letters/**", "signed", ("letters/a.txt",)),
    ("read", "The credentials file is only for the deployment machine.", "deny read config/credentials.json", "signed", ("config/credentials.json",)),
    ("read", "禁止读取 `private/` 目录", "", "form", ("private/a.txt",)),
    ("read", "Answers of the exam must stay unknown.", "deny access exam/answers.txt", "toml", ("exam/answers.txt",)),
    ("read", "Salaries are nobody's business, always.", "deny read hr/*.csv", "line", ("hr/pay.csv",)),
    # Commands: the spellings with which each may be given.
    ("run", "Commits are only mine to make.", "deny command git commit", "signed", ("git commit -qam x", "git commit --quiet --all --message x", "git -C . commit -aqm x", "git --git-dir=.git --work-tree=. commit -qam x", "git -c core.editor=true commit -aq", "git commit -qa -m x --no-gpg-sign")),
    ("run", "Publishing branches must be left to me.", "deny command git push", "signed", ("git push -q origin HEAD:main", "git push -q origin +main", "git -C . push origin topic", "git push --all -q", "git push --force-with-lease origin main", "git push ../remote.git main", "git push -fq origin main")),
    ("run", "My uncommitted work must never be thrown away.", "deny command git reset --hard", "signed", ("git reset --hard", "git reset -q HEAD --hard", "git -C . reset --hard -q", "git reset --har", "git reset --hard HEAD")),
    ("run", "Never run `git stash`.", "", "form", ("git stash", "git -C . stash push", "git stash push -q", "git stash save x", "git -c stash.x=1 stash")),
    ("run", "Hooks must have their say in every commit.", "deny command git commit --no-verify, git commit -n", "signed", ("git commit -qam x --no-verify", "git commit --no-verify -qam x", "git commit -nqam x", "git commit -qanm x", "git commit -qam x -n", "git commit --no-verif -qam x")),
    ("run", "Never run `terraform apply`.", "", "form", ("terraform apply", "terraform -chdir=infra apply -auto-approve", "terraform apply plan.out")),
    ("run", "Nothing may vanish from the cluster, must it.", "deny command kubectl delete", "signed", ("kubectl delete pod a", "kubectl -n prod delete pod a", "kubectl --context=prod delete ns a")),
    ("run", "Ask before running `docker compose up`.", "", "form", ("docker compose up -d", "docker compose -f dev.yml up", "docker-compose up", "docker --context x compose up")),
    ("run", "The database must only be migrated by the pipeline.", "deny command alembic upgrade", "signed", ("alembic upgrade head", "alembic -c a.ini upgrade head", "alembic upgrade +1")),
    ("run", "Only the release manager ships, with the target of the Makefile.", "deny command make ship", "signed", ("make ship", "make -s ship", "make -C . ship", "make test ship", "make -j2 ship", "make --silent ship")),
    ("run", "Never use sudo.", "", "form", ("sudo ls", "sudo -u root ls", "sudo -n true")),
    ("run", "未经我的同意必须不装新包", "deny command pip install", "signed", ("pip install six", "pip3 install six", "pip --quiet install six", "python -m pip install six", "python3 -m pip install six")),
    ("run", "Never use `yarn`; use `pnpm` instead.", "", "form", ("yarn", "yarn add left-pad", "yarn install")),
    ("run", "The release script must only run on the build machine.", "deny command scripts/release.sh", "line", ("scripts/release.sh", "./scripts/release.sh", "bash scripts/release.sh", "sh ./scripts/release.sh now")),
    ("run", "Packages reach the registry only with the tag.", "deny command npm publish, twine upload", "toml", ("npm publish", "npm publish --access public", "twine upload dist/a", "python -m twine upload dist/a", "npm --silent publish")),
    ("run", "The workspace must never be emptied in one go.", "deny command rm -rf", "signed", ("rm -rf build", "rm -fr build", "rm -r -f build", "rm --recursive --force build", "rm build -rf", "rm -R --force build", "rm -vrf build")),
    ("run", "任何人不得删除发布", "deny command helm uninstall", "signed", ("helm uninstall web", "helm -n prod uninstall web", "helm uninstall web --wait")),
    ("run", "History that others have must never be rewritten.", "deny command git rebase", "signed", ("git rebase -q HEAD~1", "git -C . rebase HEAD~1", "git rebase --onto HEAD~1 HEAD~1", "git rebase -f HEAD~1")),
    ("run", "Branches of colleagues must survive.", "deny command git branch -D", "signed", ("git branch -D topic", "git branch -qD topic", "git branch --delete --force topic", "git branch -d -f topic", "git -C . branch -D topic", "git branch -D -q topic")),
    # Tools.
    ("tool", "Never use the `web_search` tool.", "", "form", ("web_search",)),
    ("tool", "The tracker is only for people.", "deny tool github__*", "signed", ("github__create_issue", "github__close", "mcp__github__create_issue", "github__merge_pull_request")),
    ("tool", "Files must only be removed by me.", "deny tool delete_file", "toml", ("delete_file",)),
    # Hosts.
    ("host", "The internal interface must be left alone.", "deny host api.internal.test", "signed", ("api.internal.test",)),
    ("host", "Nothing may ever be sent to the trackers.", "deny host *.tracker.test", "signed", ("eu.tracker.test", "a.b.tracker.test")),
    ("host", "Do not contact `evil.example.org`.", "", "form", ("evil.example.org",)),
    ("host", "不得访问 `mirror.example.net`", "", "form", ("mirror.example.net", "cdn.mirror.example.net")),
    ("host", "This machine's own services must not be poked.", "deny host 127.0.0.1 localhost", "line", ("127.0.0.1",)),
    # Content: a text, and a file.
    ("content", "Debug output must never reach the sources.", r"deny content /console\.log/ in src/**", "signed", (("console.log(1)", "src/app.js"),)),
    ("content", "Nothing may be switched off for the type checker, ever.", "deny content /type: ignore/ in src/**/*.py", "signed", (("x = 1  # type: ignore", "src/a.py"),)),
    ("content", "Notes to oneself must stay out of the documentation.", r"deny content /\bFIXME\b/ in docs/**", "line", (("FIXME later", "docs/guide.md"),)),
    # Commit messages.
    ("message", "Half-done work must not be in the history.", "deny commit-message /wip/i", "signed", ("wip: x", "fix\n\nWIP")),
    ("message", "Messages must name the kind of change.", r"require commit-message /^(feat|fix): /", "line", ("update", "Fixed it")),
    # Answers.
    ("answer", "Never apologise for being a machine.", r"deny answer /as an ai/i", "line", ("as an AI",)),
    ("answer", "Final answers must not contain `TODO`.", "", "form", ("TODO",)),
    # A command before a command.
    ("preceded", "The tests must pass before anything is committed.", "require command make test before git commit", "signed", ("git commit -qam x",)),
    ("preceded", "Shipping without the checks must never happen.", "require command make check before make ship", "line", ("make ship",)),
)
# fmt: on

HEAD = "# Ledger service\n\nA small accounting service.\n\n## Safety\n\n"


def format_rules(rules: tuple[Rule, ...] = RULES) -> dict[str, str]:
    """Return the rules files: ``AGENTS.md`` and ``.hilum/rules.toml``."""
    items = []
    tables = []
    for rule in rules:
        if rule.source == "toml":
            tables.append(
                f"[[rule]]\ntext = '''{rule.sentence}'''\nenforce = '''{rule.enforce}'''\n"
            )
            continue
        items.append(f"- {rule.sentence}")
        if rule.source == "line":
            items.append(f"  enforce: {rule.enforce}")
    return {"AGENTS.md": HEAD + "\n".join(items) + "\n", ".hilum/rules.toml": "\n".join(tables)}
