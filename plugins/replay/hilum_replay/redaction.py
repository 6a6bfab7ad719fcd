"""Secrets never enter a cassette: what looks like one becomes ``[REDACTED:NAME]``.

Two nets: the values of this process's environment variables whose names speak of secrets, wherever they turn up, and
shapes that keys are known to have. Both work inside JSON text without breaking it.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from functools import partial
from urllib.parse import quote

_NAME = re.compile(
    r"(?:^|_)(?:\w*API_?KEY|KEYS?|\w*TOKENS?|\w*SECRETS?|\w*PASSWORD|PASSWD|PASSPHRASE|\w+_PWD|CREDENTIALS?|AUTH)(?:_|$)",
    re.I,
)
_SHORTEST = 8

# Order matters: the whole block before its parts. A group named `keep` stays in the text.
_SHAPES: tuple[tuple[str, str], ...] = (
    ("PRIVATE_KEY", r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----(?:[A-Za-z0-9+/=\s:,.]|\\[nr]|-(?!----END))*"
     r"(?:-----END [A-Z0-9 ]*PRIVATE KEY-----)?"),  # a block that was cut off is as secret
    ("AUTHORIZATION", r"(?P<keep>\b(?:proxy-)?authorization\\?[\"']?\s*[:=]\s*\\?[\"']?(?:(?:bearer|basic|token|digest)\s+)?)"
     r"(?!\[REDACTED|(?:bearer|basic|token)\b)[^\s\"'\\,;]{6,}"),
    ("BEARER", r"(?P<keep>\bbearer\s+)(?!\[REDACTED)[A-Za-z0-9._~+/=-]{8,}"),
    ("URL_PASSWORD", r"(?P<keep>\b[a-z][a-z0-9+.-]*://)[^\s/:@\"'\\]*:[^\s/@\"'\\]+(?=@)"),
    ("OPENAI_KEY", r"\bsk-[A-Za-z0-9_-]{16,}"),
    ("GITHUB_TOKEN", r"\bgh[pousr]_[A-Za-z0-9]{16,}|\bgithub_pat_\w{20,}"),
    ("GITLAB_TOKEN", r"\bglpat-[\w-]{16,}"),
    ("AWS_KEY", r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b"),
    ("GOOGLE_KEY", r"\bAIza[\w-]{30,}"),
    ("SLACK_TOKEN", r"\bxox[abeoprs]-[\w-]{10,}"),
    ("HUGGINGFACE_TOKEN", r"\bhf_[A-Za-z0-9]{20,}"),
    ("PACKAGE_TOKEN", r"\bnpm_[A-Za-z0-9]{30,}|\bpypi-[\w-]{30,}"),
    ("STRIPE_KEY", r"\b[rs]k_(?:live|test)_[A-Za-z0-9]{16,}"),
    ("JWT", r"\beyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]{5,}"),
    ("ASSIGNMENT", r"(?P<keep>(?:^|\\n|(?<=[\s\"']))(?:export\s+)?[A-Z][A-Z0-9_]*(?:KEY|TOKEN|SECRET|PASSWORD|PASSWD)\s?=\s?"
     r"\\?[\"']?)(?![\[{$(])[^\s\"'\\,;()]{8,}"),
)  # fmt: skip
_CASELESS = ("AUTHORIZATION", "BEARER", "URL_PASSWORD")
# One quick look that finds any text that could match; most texts hold none of these.
_HINT = re.compile(r"(?i:PRIVATE KEY-----|authorization|bearer|://|eyJ)|sk-|gh[pousr]_|github_pat|glpat|A[KS]IA|AIza|xox|hf_|npm_"
                   r"|pypi-|[rs]k_|KEY|TOKEN|SECRET|PASSWORD|PASSWD")  # fmt: skip


class Redactor:
    """Replaces secrets in texts.

    Args:
        environ: Environment whose secrets are known; this process's by default.
        secrets: More secrets, name to value.
    """

    def __init__(self, environ: Mapping[str, str] | None = None, secrets: Mapping[str, str] | None = None) -> None:
        self._names: dict[str, str] = {}
        for name, value in (os.environ if environ is None else environ).items():
            if _NAME.search(name) and not (os.path.isabs(value) and os.path.exists(value)):
                self._add(name, value)
        for name, value in (secrets or {}).items():
            self._add(name, value)
        values = sorted(self._names, key=len, reverse=True)
        self._values = re.compile("|".join(map(re.escape, values))) if values else None
        self._shapes = [(n, re.compile(p, re.M | re.S | (re.I if n in _CASELESS else 0))) for n, p in _SHAPES]

    def _add(self, name: str, value: str) -> None:
        """Know a value in the spellings it has in texts, JSON and URLs."""
        if len(value) < _SHORTEST:
            return
        for form in (
            value,
            json.dumps(value)[1:-1],
            json.dumps(value, ensure_ascii=False)[1:-1],
            quote(value, safe=""),
        ):
            self._names.setdefault(form, name)

    def __call__(self, text: str) -> str:
        """Replace the secrets in a text."""
        if self._values is not None:
            text = self._values.sub(lambda match: f"[REDACTED:{self._names[match.group()]}]", text)
        if _HINT.search(text) is None:
            return text
        for name, shape in self._shapes:
            text = shape.sub(partial(_mask, name), text)
        return text


def _mask(name: str, match: re.Match[str]) -> str:
    return (match.groupdict().get("keep") or "") + f"[REDACTED:{name}]"
