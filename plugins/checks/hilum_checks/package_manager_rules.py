"""Read rules about package managers and launchers: "use only ⟦0⟧", "use `uv run` for Python"."""

from __future__ import annotations

from collections.abc import Sequence

import attrs

from hilum_checks import vocabulary as v
from hilum_checks.clauses import read_clauses
from hilum_checks.command_rules import read_command_names
from hilum_checks.model import Commands
from hilum_checks.rule_scope import Scope
from hilum_checks.tokens import Token


def read_other_managers(tokens: Sequence[Token], scope: Scope) -> Commands | None:
    """Read "use only ⟦0⟧" and "always use ⟦0⟧": a package manager, which forbids the others."""
    clauses = read_clauses([token for token in tokens if token.text != "supported"])
    if len(clauses) != 1 or not clauses[0].has_only(
        "names", nouns="it|workspace|commands|tool|packages|managing"
    ):
        return None
    clause = clauses[0]
    for managers in v.PACKAGE_MANAGERS:
        is_one = len(clause.names) == 1 and clause.names[0] in managers
        if is_one and {"use", "run"}.issuperset(clause.verbs):
            others = managers - {"bun", "conda", *clause.names}
            return read_command_names(sorted(others), scope)
    return None


def read_manager(tokens: Sequence[Token]) -> Commands | None:
    """Read "use ⟦0⟧ for package management": the others must not manage packages."""
    names = [token.word for token in tokens if token.role == "name"]
    texts = {
        word
        for token in tokens
        if token.role not in ("name", "join")
        for word in token.text.split()
    }
    if not names or not texts & _PACKAGE_WORDS or not texts <= _MANAGING_WORDS:
        return None
    # "`pnpm install` - install packages" only describes a command.
    is_order = bool(texts & {"use", "uses", "using", "for", "manager", "使用", "包管理器"})
    if not is_order or " " in names[0]:
        return None
    # "`pnpm` (`pnpm install`)" names its commands, too.
    program = names[0]
    managers = next((each for each in v.PACKAGE_MANAGERS if program in each), frozenset())
    if not managers or any(name.split()[0] != program for name in names):
        return None
    others = sorted(managers - {program})
    found = [words for name in others for words in v.MANAGING.get(name, ())]
    # `uv pip install` is no `pip install`.
    unless = (("uv", "pip"),) if program == "uv" else ()
    return Commands(tuple(found), unless=unless) if found else None


_PACKAGE_WORDS = frozenset(
    "package packages dependency dependencies 包 依赖 依赖包 包管理 包管理器".split()
)
_MANAGING_WORDS = _PACKAGE_WORDS | frozenset(
    """
    use uses using for all management manager work operations
    commands the as this project workspace repo repository and always mandatory required installs installation
    install javascript typescript python node js ts in any tooling with tasks it is we our adding
    使用 管理 安装 所有 必须 统一 作为 项目
    """.split()
)


def read_launched(tokens: Sequence[Token], scope: Scope) -> Commands | None:
    """Read "use `uv run` for all Python commands": Python must be started by a launcher."""
    names = [token.word for token in tokens if token.role == "name"]
    texts = {token.text for token in tokens if token.role not in ("name", "join")}
    if len(names) not in (1, 2) or "python" not in texts or not texts <= _LAUNCHING_WORDS:
        return None
    words = tuple(names[0].removesuffix(" python").split())
    is_launcher = words in v.LAUNCHERS[:8] and len(words) == 2
    is_sure = scope.binding or scope.hard or bool(texts & {"commands", "command", "命令"})
    if not is_launcher or not is_sure or names[1:] not in ([], ["python"]):
        return None
    found = read_command_names(["python", "python3"], scope)
    return attrs.evolve(found, unless=v.LAUNCHERS) if found else None


_LAUNCHING_WORDS = frozenset(
    """
    use run execute through via with for to in python commands command scripts script code all every
    always must prefix running executing everything files 使用 运行 执行 命令 脚本 必须 所有
    """.split()
)
