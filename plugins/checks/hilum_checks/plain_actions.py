"""Actions that a rule names in plain words only: "never force-push", "no new dependencies"."""

from __future__ import annotations

import attrs

from hilum_checks import quoted_names
from hilum_checks import vocabulary as v
from hilum_checks.clauses import Clause
from hilum_checks.code_names import DEFAULT_EXPORT, SCRIPTS, code_expression
from hilum_checks.file_rules import ACTIONS_OF_VERBS, patterns_of, read_outside
from hilum_checks.git_rules import NEW_BRANCHES
from hilum_checks.label_scopes import TESTS
from hilum_checks.model import WRITES, Commands, Constraint, Content, Effect, Hosts, Paths, Tools
from hilum_checks.rule_scope import Scope


@attrs.frozen
class Plain:
    """An action in plain words.

    Attributes:
        verbs: The verbs, one of which the sentence must have.
        needed: Nouns of which the sentence must have one; empty if it needs none.
        others: Other nouns that it may have.
        constraint: The constraint.
        sure: Whether the words mean an action of the agent under every heading. "Do not send
            emails" may be about the program that the agent writes.
    """

    verbs: str
    needed: str
    others: str
    constraint: Constraint
    sure: bool = True

    def is_meant(self, verb: str, clause: Clause) -> bool:
        """Return whether a sentence with this verb and object means the action."""
        if verb not in self.verbs.split("|"):
            return False
        if self.needed and not clause.nouns & set(self.needed.split("|")):
            return False
        place = "to" if verb in ("commit", "push", "force-push", "publish") else "with"
        return clause.has_only(nouns=f"{self.needed}|{self.others}", places=place)


_DOCUMENTS = ("*.md", "*.mdx", "*.rst", "*.adoc")
_CI_FILES = (".github/workflows/**", ".gitlab-ci.yml", ".circleci/**")
_DELETE_FILES = Paths(("**",), frozenset({"delete"}))
_WILDCARD_IMPORTS = Content(
    r"(?m:^\s*from\s+\S+\s+import\s+\*|^\s*import\s+[\w.]+\.(?:\*|_)\s*(?:;|$))",
    ("*.py", "*.java", "*.kt", "*.kts", "*.scala", "*.sc", "*.groovy"),
)
_RELATIVE_IMPORTS = Content(
    r"(?m:^\s*from\s+\.+[\w.]*\s+import\b|\bfrom\s+['\"]\.{1,2}/|\brequire\(['\"]\.{1,2}/)",
    (*SCRIPTS, "*.py"),
)
_BARE_EXCEPT = Content(code_expression("except:"), ("*.py",), ignored=("comments", "strings"))
_CONFIG_READS = "git config --get|git config --list|git config -l|git config get|git config list|git config --get-all"
_SNAPSHOTS = Paths(("*.snap", "**/__snapshots__/**"), WRITES, by_hand=True)
_LOCK_FILES = Paths(tuple(sorted(v.LOCKS)), WRITES, by_hand=True)
_REMARKS = ("comments", "strings")
_DEFAULT_EXPORTS = Content(f"(?m:{DEFAULT_EXPORT})", SCRIPTS, ignored=_REMARKS)
# `style={styles.a}` may be a style that is defined elsewhere, and `data-style` is no style.
_INLINE_STYLES = Content(
    r"(?<![\w-])style(?:\s*=\s*\{\s*\{|=[\"'])"
    # `const s = {…}` and `style={s}` in the same text.
    r"|\b(?:const|let|var)\s+(\w+)\s*(?::[^=\n]{1,80})?=\s*\{(?=(?s:.*?)\sstyle\s*=\s*\{\s*\1\s*\})",
    (*SCRIPTS, "*.html", "*.astro"),
    ignored=_REMARKS,
)
_CODE = "changes|file|it|branch"
PLAIN_ACTIONS = (
    # "Never commit it" is about one thing, whichever it is.
    Plain("commit", "", "changes|file|branch|git|workspace", Commands(v.GIT_COMMIT)),
    Plain("push", "", "changes|file|branch|remote|workspace", Commands(v.GIT_PUSH)),
    Plain("force-push", "", f"{_CODE}|remote", Commands(v.FORCE_PUSH)),
    Plain("amend", "", "existing", Commands(v.AMEND)),
    Plain("create|", "branch", "new|git", NEW_BRANCHES),
    Plain("comment", "", "issue|pull request|remote", Commands(v.COMMENT)),
    Plain("run", "git", "commands", Commands((("git",),))),
    Plain("create|use|", "worktree", "new|git", Commands(v.WORKTREE)),
    Plain("run|start|use", "dev server", "", Commands(v.DEV_SERVER, unless=v.NO_DEV_SERVER)),
    Plain("write|create", "ci", "file", Paths(_CI_FILES, WRITES)),
    Plain("open|submit|create|add", "issue", "new|remote", Commands(v.ISSUE)),
    Plain(
        "open|submit|create",
        "issue",
        "new|remote|pull request",
        Commands((*v.ISSUE, *v.PULL_REQUEST)),
    ),
    Plain("close", "issue", "remote", Commands(v.CLOSE_ISSUE)),
    Plain("close", "pull request", "remote", Commands(v.CLOSE_PULL_REQUEST)),
    Plain("delete", "branch", "remote|git", Commands(v.DELETE_BRANCH)),
    Plain("write", "history", "git", Commands(v.REWRITE_HISTORY)),
    Plain("write", "public history", "git", Commands(v.REWRITE_PUBLIC_HISTORY)),
    Plain("clone", "", "workspace", Commands(v.CLONE)),
    Plain("use|add|create|introduce|", "wildcard imports", "", _WILDCARD_IMPORTS),
    Plain("use|add|create|introduce|", "default exports", "", _DEFAULT_EXPORTS),
    Plain("write|hand-edit|save", "lock files", "generated|file", _LOCK_FILES),
    Plain("write|hand-edit", "snapshots", "generated|file|existing", _SNAPSHOTS),
    Plain("use|add|create|introduce|", "relative imports", "", _RELATIVE_IMPORTS),
    Plain("use|add|create|introduce|", "inline styles", "", _INLINE_STYLES),
    Plain("stash", "", f"{_CODE}|workspace", Commands(v.STASH)),
    Plain("reset", "", f"{_CODE}|workspace", Commands(v.RESET)),
    Plain("create|save|add|", "documentation", "new|file", Paths(_DOCUMENTS, v.CREATES)),
    Plain("create|save|add", "tests", "new|file|it", Paths(TESTS, v.CREATES), sure=False),
    Plain("run|start", "app", "it", Commands((*v.DEV_SERVER, *v.RUN_APP), unless=v.NO_DEV_SERVER)),
    Plain("stage", "", "changes|file", Commands(v.STAGE)),
    Plain("rebase", "", "branch", Commands(v.REBASE)),
    Plain("deploy", "", "changes|file|it|artifacts|workspace", Commands(v.DEPLOY)),
    Plain("run", "tests", "file", Commands(v.TESTS), sure=False),
    Plain("run|", "run migrations", "commands", Commands(v.MIGRATE)),
    Plain("upgrade", "packages", "workspace|existing|other", Commands(v.UPGRADE)),
    Plain("install", "globally", "packages|other|it", Commands(v.GLOBAL_INSTALL)),
    Plain("approve-review", "pull request", "it", Commands(v.APPROVE)),
    Plain(
        "write|hand-edit",
        "git config",
        "it",
        Commands(v.GIT_CONFIG, unless=v.phrases(_CONFIG_READS)),
    ),
    Plain("use|add|introduce|create|", "bare except", "file|construct", _BARE_EXCEPT),
    Plain("open|submit|create|commit|", "pull request", "new", Commands(v.PULL_REQUEST)),
    Plain("install", "packages|modules", "new|other", Commands(v.INSTALL, new=True)),
    Plain("add|introduce|", "packages", "new|other|workspace", Commands(v.INSTALL, new=True)),
    Plain("write", "packages", "workspace", Commands(v.INSTALL, new=True), sure=False),
    Plain("publish", "", "packages|registry|artifacts", Commands(v.PUBLISH)),
    Plain("release", "", "packages|artifacts", Commands(v.PUBLISH)),
    Plain("github-release", "", "new|artifacts", Commands(v.GITHUB_RELEASE)),
    Plain("tag", "", f"{_CODE}|artifacts", Commands(v.TAG)),
    Plain("push-tag", "", f"{_CODE}|artifacts", Commands(v.PUSH_TAGS)),
    Plain("merge", "", "pull request|it|changes", Commands(v.MERGE)),
    Plain(
        "merge",
        "branch",
        "it|changes|git|other",
        Commands((*v.MERGE, *v.MERGE_BRANCH), unless=v.NO_MERGE),
    ),
    Plain("skip", "hooks", "git", Commands(v.SKIP_HOOKS, skips_hooks=True)),
    Plain("use|run|", "sudo", "commands", Commands(v.AS_ROOT)),
    Plain("run|use|", "destructive", "commands", Commands(v.DESTRUCTIVE)),
    Plain("run|use|", "destructive", "commands|git", Commands(v.DESTRUCTIVE_GIT)),
    Plain("delete", "file|folder", "existing", _DELETE_FILES, sure=False),
    Plain("access|use|contact|call|create|", "network", "", Hosts(("*",)), sure=False),
    Plain("run|use", "shell", "commands", Tools(risk="execute"), sure=False),
    Plain("send", "emails", "", Tools(v.EMAIL_TOOLS), sure=False),
    Plain("post|publish|send|", "tweets", "", Tools(v.TWEET_TOOLS), sure=False),
)
# How the files of Bundler, Mix, Gradle and Swift name a package. A new version adds none.
ADDED_PACKAGES = Content(
    r"\bgem\s+['\"]|\.package\(\s*(?:url|name|path):"
    r"|\{:\w+,\s*(?:\"[~<>=! ]*\d|(?:path|git|github|only|override|runtime|optional|app|env|branch|tag):)"
    r"|\b(?:[a-z]\w*)?(?:[iI]mplementation|[aA]pi|[cC]ompileOnly|[rR]untimeOnly|kapt|ksp|annotationProcessor)"
    r"\s*\(?\s*(?:['\"][\w.-]+:|libs\.|platform\()"
    r"|(?m:^\s*[\w-]+\s*=\s*\{[^\n]*\b(?:module|group)\s*=)|=\s*['\"][\w.-]+:[\w.-]+:",
    (
        *("Gemfile", "*.gemspec", "mix.exs", "build.gradle", "build.gradle.kts", "Package.swift"),
        "*.versions.toml",
    ),
)


def adds_packages(verb: str, clause: Clause, constraint: Constraint) -> bool:
    """Return whether a constraint is that of "no new dependencies", and names no installation."""
    is_install = isinstance(constraint, Commands) and constraint == Commands(v.INSTALL, new=True)
    return is_install and verb in ("add", "introduce", "") and "packages" in clause.nouns


def read_plain_in_folders(
    verb: str, clause: Clause, effect: Effect, scope: Scope
) -> Content | None:
    """Read "no default exports in ⟦0⟧": text that must not be added to files in some folders."""
    if clause.places != {"in"} or not all(name.endswith("/") for name in clause.names):
        return None
    plain = read_plain(verb, attrs.evolve(clause, names=[], places=set()), effect, scope)
    is_placed = isinstance(plain, Content) and all(each[:2] == "*." for each in plain.patterns)
    if not isinstance(plain, Content) or not is_placed:
        return None
    if not all(map(quoted_names.is_path, clause.names)):
        return None
    folders = patterns_of(clause.names, scope)
    placed = (f"{folder}/**/{each}" for folder in folders for each in plain.patterns)
    patterns = tuple(each if each.startswith("/") else f"**/{each}" for each in placed)
    return attrs.evolve(plain, patterns=patterns)


# Folders in which frameworks keep the migrations of a database.
_MIGRATIONS = (
    "**/migrations/**",
    "**/migrate/**",
    "**/alembic/versions/**",
    "**/db/changelog/**",
    "**/db/migration/**",
    # The names that Flyway wants, in any folder.
    "V[0-9]*__*.sql",
)


def read_plain(verb: str, clause: Clause, effect: Effect, scope: Scope) -> Constraint | None:
    """Read a verb whose object has no names: "never force-push", "no new dependencies"."""
    if "outside" in clause.places:
        return read_outside(verb, clause)
    if {"existing", "migrations"} <= clause.nouns and clause.has_only(
        nouns="existing|migrations|file"
    ):
        actions = ACTIONS_OF_VERBS.get(verb, frozenset()) - v.CREATES
        return Paths(_MIGRATIONS, actions) if actions and "read" not in actions else None
    for plain in PLAIN_ACTIONS:
        if plain.is_meant(verb, clause):
            return plain.constraint if plain.sure or scope.hard or effect == "ask" else None
    return None
