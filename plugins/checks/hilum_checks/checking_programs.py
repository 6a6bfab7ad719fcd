"""Recognise installed programs that only check a project: ``buf lint``, ``golangci-lint run``.

They write only reports and caches, so that other checks which passed before them still hold.
"""

from __future__ import annotations

import re

from hilum_checks.model import Words

# By program, the sub-commands that only check; all of them where there is an asterisk.
_CHECKS: dict[str, str] = {
    "biome": "check|ci|lint",
    "buf": "breaking|build|lint",
    "bun": "audit",
    "cargo": "audit|deny check|hack check|hack clippy|hack test|machete|nextest run|outdated"
    "|semver-checks|tree|udeps",
    "changeset": "status",
    "composer": "audit|validate",
    "conftest": "test|verify",
    "cypress": "run|verify",
    "dart": "analyze",
    "deno": "check|lint",
    "flutter": "analyze",
    "gitleaks": "detect|dir|git|protect",
    "golangci-lint": "run",
    "helm": "lint|template",
    "kustomize": "build",
    "lhci": "assert|autorun|healthcheck",
    "mix": "credo|dialyzer",
    "npm": "audit",
    "opa": "check|test",
    "phpstan": "analyse|analyze",
    "playwright": "test",
    "pnpm": "audit",
    "prisma": "migrate status|validate",
    "promtool": "check|test",
    "protolint": "lint",
    "pyrefly": "check",
    "redocly": "lint",
    "regal": "lint",
    "safety": "check|scan",
    "spectral": "lint",
    "sqlc": "compile|diff|vet",
    "sqlfluff": "lint",
    "storybook": "test",
    "swiftlint": "lint",
    "taplo": "check|lint",
    "terraform": "validate",
    "tofu": "validate",
    "trivy": "config|filesystem|fs|image|repo|rootfs",
    "ty": "check",
    "yarn": "audit|npm audit",
    **dict.fromkeys(
        """
        actionlint bandit brakeman checkov codespell commitlint cppcheck depcheck deptry detekt
        gosec govulncheck interrogate jscpd knip kubeconform kubeval lighthouse lint-imports
        luacheck lychee markdownlint markdownlint-cli2 oxlint phpcs pip-audit proselint psalm
        pydocstyle rubocop secretlint selene semgrep size-limit staticcheck stylelint svelte-check
        test-storybook tflint tfsec typos vue-tsc vulture zizmor
        """.split(),
        "*",
    ),
}
# Words with which such a program changes files of the project, or does something else than checking.
_CHANGES = re.compile(
    r"fix|login|publish|init|install.*|-[oO].*|-w|-u|--?out.*|--?(?:auto-?)?(?:fix|correct).*|--write.*"
    r"|--update.*|--in-place|--save.*|--init.*|--apply.*|--generate.*|--add-.*|--create.*|--set-.*"
    r"|--unsafe.*|--alter|--interactive|--build|--declaration.*|--emit.*"
)
# The same for single programs, in addition.
_CHANGES_TOO = {
    "actionlint": "-shellcheck.*|-pyflakes.*",
    "codespell": "-i",
    "gitleaks": "-r|--report-path.*",
    "markdownlint": "-f",
    "rubocop": "-[aAxD]|--disable-.*|--regenerate.*|--start-server",
    "semgrep": "-a",
    "svelte-check": "--watch",
    "vue-tsc": "-b|-d",
}
# Programs whose option `-output` or `-o` names a format.
_FORMATS = {"helm": "-o", "kubeconform": "-output", "knip": "-o", "tflint": "-o"}
# Programs that format, but only list or check files with one of these options.
_LISTS: dict[str, frozenset[str]] = {
    **dict.fromkeys(("gofmt", "gofumpt", "goimports"), frozenset(("-l", "-d"))),
    **dict.fromkeys(("terraform", "tofu"), frozenset(("-check",))),
}
_MANAGERS = frozenset("npm pnpm yarn bun".split())
_EXECUTES = frozenset("exec run x".split())


def checks_project(words: Words) -> bool:
    """Return whether a command certainly only checks the project.

    Args:
        words: The program and its arguments.
    """
    program = words[0].rpartition("/")[2]
    given = words[1:]
    if _fits(program, given):
        return True
    # `pnpm knip` and `pnpm exec knip`.
    if program not in _MANAGERS:
        return False
    if given and given[0] in _EXECUTES:
        given = given[1:]
    return bool(given) and given[0] not in _MANAGERS and _fits(given[0], given[1:])


def _fits(program: str, given: Words) -> bool:
    """Return whether a program only checks with the given arguments."""
    listing = _LISTS.get(program, frozenset())
    if not listing.isdisjoint(given):
        return not any(word.startswith(("-w", "-write")) for word in given)
    if program not in _CHECKS:
        return False
    too = re.compile(_CHANGES_TOO.get(program, "(?!)"))
    for word in given:
        is_format = word == _FORMATS.get(program)
        if too.fullmatch(word) or (_CHANGES.fullmatch(word) and not is_format):
            return False
    if _CHECKS[program] == "*":
        return True
    operands = tuple(word for word in given if not word.startswith("-"))
    verbs = [tuple(each.split()) for each in _CHECKS[program].split("|")]
    return any(operands[: len(verb)] == verb for verb in verbs)
