"""Find commands and code that a sentence names without quotes: "run npm test", "no foo() calls"."""

from __future__ import annotations

import re
from functools import cache

# The sub-commands with which a program is certainly meant, and no English word.
_COMMANDS = {
    "npm": "install|ci|test|publish|run [a-z][a-z:-]*|audit fix|start|update",
    "pnpm": "install|add|test|publish|run [a-z][a-z:-]*|lint|build|format|typecheck|check|dev|dlx",
    "yarn": "install|add|test|publish|run [a-z][a-z:-]*|lint|build|format|typecheck|dev",
    "bun": "install|add|test|run [a-z][a-z:-]*",
    "npx": "[a-z][a-z-]*",
    "pip3?": "install",
    "uv": "sync|add|lock|pip install|run [a-z][a-z-]*",
    "poetry": "add|install|run [a-z][a-z-]*",
    "cargo": "fmt|clippy|test|build|check|run|publish|add|install|clean|update|nextest run|deny check",
    "go": "test|vet|fmt|build|mod tidy",
    "make": "lint|check|ci|fmt|format|verify|test(?! (?:cases?|files?|data))",
    "ruff": "check|format",
    "dotnet": "test|build|format|restore|run",
    "mvn": "test|verify|package|install|clean",
    "docker": "compose (?:up|down|build)|build|run|push|system prune",
    "terraform": "apply|destroy|fmt|validate|plan",
    "kubectl": "apply|delete",
    "flutter": "analyze|test|pub get|pub upgrade",
    "dart": "format|analyze|test",
    "bundle exec": "[a-z]+",
    "php artisan": "[a-z:]+",
    "pre-commit": "run",
    "git add": "-A|--all|-u|-f",
    "git push": "-f|--force(?:-with-lease)?",
    "git commit": "-a|--amend|--no-verify|-n",
    "git reset": "--hard",
    "git clean": "-[a-z]+",
    "git branch": "-D",
    "git rebase": "-i",
    "gh pr": "create|merge|close",
    "rm": "-rf|-fr|-r",
}
_OPTION = r"(?: --?[a-zA-Z][\w-]*(?:=\S+)?)*(?: \./\.\.\.| -- -D warnings)?"
_CODE = (
    r"(?:[a-z_]\w*\.)*[a-zA-Z_]\w*\(\)"
    r"|WebFetch|WebSearch|(?:TODO|FIXME)(?= (?:or|and|comments?)\b)|(?<=or )(?:TODO|FIXME)"
    r"|console\.(?:log|error|warn|debug)|process\.env|System\.out\.println|Thread\.sleep"
    r"|[A-Z]\w*[a-z]\.[A-Z]\w*[a-z]\w*"
)


@cache
def bare_pattern() -> re.Pattern[str]:
    """Return a pattern for commands and code without quotes."""
    commands = "|".join(f"{program} (?:{words})" for program, words in _COMMANDS.items())
    return re.compile(
        rf"(?<![\w`⟦/@.:$-])((?:{commands}){_OPTION}(?![\w:/-])|(?:{_CODE})(?![\w(/]))"
    )
