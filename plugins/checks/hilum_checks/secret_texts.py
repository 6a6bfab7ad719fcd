"""Read rules about secrets: "never commit secrets", "no hard-coded credentials"."""

from __future__ import annotations

import attrs

from hilum_checks import vocabulary as v
from hilum_checks.clauses import Clause
from hilum_checks.model import Commands, Constraint, Content, mark_detail

# Secrets whose form shows what they are: keys of well-known services, and private keys.
_SECRETS = (
    r"(?:-----BEGIN [A-Z ]*PRIVATE KEY|\bAKIA(?!\w*EXAMPLE)[0-9A-Z]{16}\b"
    + mark_detail(
        r"|\b[sr]k_live_[0-9A-Za-z]{16,}"
        r"|\bgh[pousr]_[0-9A-Za-z]{36,}|\bgithub_pat_\w{40,}"
        r"|\bglpat-[\w-]{20,}"
        r"|\bxox[abeprs]-[0-9A-Za-z-]{20,}"
        r"|\bAIza[\w-]{35}"
        r"|\bsk-(?=[\w-]*\d)(?:ant-|proj-)?[\w-]{32,}"
        r"|\bnpm_[0-9A-Za-z]{36}"
        r"|\bSG\.[\w-]{20,}\.[\w-]{20,}"
    )
    + ")"
)
# Files that are made for secrets, and that Git ignores.
_PRIVATE_FILES = (".env", ".env.*", "*.local", ".envrc", ".secrets")
_SECRET_FILES = (".env", "*.pem", "*.key", "*.p12", "id_rsa", "id_ed25519", "credentials.json")
_NOUNS = "secrets|file|source|workspace|git|history|construct|it|existing|other|data|message"


def read_secrets(verb: str, clause: Clause) -> tuple[Constraint, ...]:
    """Return what a sentence about secrets forbids; empty if it is about something else.

    Args:
        verb: The verb.
        clause: Its object.
    """
    if (
        clause.has_only(nouns=f"hard-coded secrets|{_NOUNS}")
        and "hard-coded secrets" in clause.nouns
    ):
        clause = attrs.evolve(clause, nouns=clause.nouns - {"hard-coded secrets"} | {"secrets"})
        verb = verb or "hard-code"
    is_plain = "secrets" in clause.nouns and clause.has_only(nouns=_NOUNS, places="in|to|with")
    if not is_plain:
        return ()
    content = Content(_SECRETS, unless=_PRIVATE_FILES)
    if verb in (
        "hard-code",
        "write",
        "save",
        "add",
        "introduce",
        "create",
        "use",
        "contain",
        "store",
    ):
        return (content,)
    if verb not in ("commit", "stage", "push"):
        return ()
    words = [f"{start}{name}" for name in _SECRET_FILES for start in ("", "*/")]
    return content, Commands(tuple((*stage, "*", word) for stage in v.STAGE[:2] for word in words))
