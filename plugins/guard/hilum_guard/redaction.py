"""The one redactor of the house: what looks like a secret becomes ``[REDACTED:NAME]``, in results, logs and cassettes.

Two nets: known values (of this process's environment variables whose names speak of secrets, and of the user's settings),
wherever they turn up, and shapes that keys are known to have. Both work inside JSON text without breaking it.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Mapping
from functools import cache, partial
from urllib.parse import quote

from hilum_guard.secret_names import is_secret_name

_SHORTEST = 8

# Where a word begins; an escape of JSON or of a terminal may stand before it, whose last letter is none of the word's.
_B = r"(?:(?<![A-Za-z0-9_])|(?<=\\[bfnrt])|(?<=\\u[0-9a-fA-F]{4})|(?<=[0-9]m))"
# Name, words of which one must be there (a quick look: most texts hold none), pattern. Order matters: the whole block before
# its parts. A group named `keep` stays in the text.
_SHAPES: tuple[tuple[str, tuple[str, ...], str], ...] = (
    # A block that was cut off is as secret as a whole one; its lines may be numbered.
    ("PRIVATE_KEY", ("PRIVATE KEY",), r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----"
     r"(?:[A-Za-z0-9+/=\s:,.]|(?<=\d )\||\\[nr]|-(?!----END))*(?:-----END [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----)?"),
    ("PRIVATE_KEY", ("AGE-SECRET-KEY-",), r"AGE-SECRET-KEY-[0-9A-Z]{20,}"),
    ("AUTHORIZATION", ("uthorization", "UTHORIZATION"),
     r"(?i)(?P<keep>authorization\\?[\"']?\s*[:=]\s*\\?[\"']?(?:(?:bearer|basic|token|digest)\s+)?)"
     r"(?!\[REDACTED|(?:bearer|basic|token)\b)[^\s\"'\\,;()\[]{6,}+(?![(\[])"),
    ("BEARER", ("earer ", "EARER "), rf"(?i)(?P<keep>{_B}bearer\s+)(?=[^\s\"']*\d)[A-Za-z0-9._~+/=-]{{8,}}"),
    ("URL_PASSWORD", ("://",), r"(?P<keep>://)[^\s/:@\"'\\]*:[^\s/@\"'\\]+(?=@)"),
    ("URL_TOKEN", ("://",), r"(?P<keep>://)(?=[^\s/@\"'\\]*\d)[^\s/:@\"'\\]{16,}(?=@)"),
    ("SLACK_HOOK", ("hooks.slack.com/",), r"(?P<keep>hooks\.slack\.com/services/)[\w/-]{20,}"),
    ("OPENAI_KEY", ("sk-",), rf"{_B}sk-[A-Za-z0-9_-]{{16,}}"),
    ("GITHUB_TOKEN", ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_"),
     r"gh[pousr]_[A-Za-z0-9]{16,}|github_pat_\w{20,}"),
    ("GITLAB_TOKEN", ("glpat-",), r"glpat-[\w-]{16,}"),
    ("AWS_KEY", ("AKIA", "ASIA"), r"(?:AKIA|ASIA)[0-9A-Z]{16}(?![0-9A-Z])"),
    ("GOOGLE_KEY", ("AIza",), r"AIza[\w-]{30,}"),
    ("SLACK_TOKEN", ("xox",), r"xox[abeoprs]-[\w-]{10,}"),
    ("HUGGINGFACE_TOKEN", ("hf_",), r"hf_[A-Za-z0-9]{20,}"),
    ("VENDOR_KEY", ("gsk_", "xai-", "r8_", "dop_v1_"), rf"{_B}(?:gsk_|xai-|r8_|dop_v1_)[A-Za-z0-9_-]{{20,}}"),
    ("SENDGRID_KEY", ("SG.",), rf"{_B}SG\.[\w-]{{16,}}\.[\w-]{{16,}}"),
    ("GOOGLE_TOKEN", ("ya29.",), rf"{_B}ya29\.[\w.-]{{20,}}"),
    ("PACKAGE_TOKEN", ("npm_", "pypi-"), r"npm_[A-Za-z0-9]{30,}|pypi-[\w-]{30,}"),
    ("STRIPE_KEY", ("k_live_", "k_test_"), r"[rs]k_(?:live|test)_[A-Za-z0-9]{16,}"),
    ("JWT", ("eyJ",), r"eyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]{5,}"),
    ("ASSIGNMENT", ("KEY", "TOKEN", "SECRET", "PASS"),
     rf"(?P<keep>{_B}(?:[A-Z][A-Z0-9_]*(?:KEY|_PASS)|(?:[A-Z][A-Z0-9_]*)?(?:TOKEN|SECRET|PASSWORD|PASSWD))"
     r"\s?=\s?\\?[\"']?)(?![\[{$(])[^\s\"'\\,;()]{8,}"),
    # As settings files and headers write it. A digit must be in the value: what has none is rather a word or code.
    ("CREDENTIAL", ("ey", "oken", "ecret", "assw", "ookie"),
     rf"(?P<keep>{_B}(?:[A-Za-z][A-Za-z0-9]{{0,30}}[_-]){{0,6}}"
     r"(?i:api_?key|api-key|access_?key|account_?key|secret(?:_?key)?(?:_base)?|token|password|passwd|cookie)"
     r"\\?[\"']?\s?[:=]\s?)(?:(?P<quote>\\?[\"'])(?=[^\s\"'\\]{0,200}\d)[^\s\"'\\{}()$<>]{8,4000}+(?=\\?[\"'])"
     r"|(?!\[REDACTED)(?=[A-Za-z0-9+/_=-]{0,200}\d)(?=\d{0,200}[A-Za-z])[A-Za-z0-9+/_=-]{12,4000}+(?![.(\[\w]))"),
)  # fmt: skip


# What is a secret by the look of what stands around it; in a program's source that is mostly none.
_GUESSED = frozenset({"ASSIGNMENT", "CREDENTIAL"})
PLACEHOLDER = re.compile(r"\[REDACTED:[^\]\s]{1,200}\]")
_compiled = cache(re.compile)  # when a text first has the words: all of them cost 8 ms at start


class Redactor:
    """Replaces secrets in texts.

    Args:
        environ: Environment whose secrets are known; this process's by default.
        secrets: More secrets, name to value.
    """

    def __init__(self, environ: Mapping[str, str] | None = None, secrets: Mapping[str, str] | None = None) -> None:
        self._names: dict[str, str] = {}
        for name, value in (os.environ if environ is None else environ).items():
            if is_secret_name(name) and not (os.path.isabs(value) and os.path.exists(value)):
                self._add(name, value)
        for name, value in (secrets or {}).items():
            self._add(name, value)
        values = sorted(self._names, key=len, reverse=True)
        self._values = re.compile("|".join(map(re.escape, values))) if values else None

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

    def __call__(self, text: str, *, guess: bool = True) -> str:
        """Replace the secrets in a text.

        Args:
            text: The text.
            guess: Whether a value counts that is only called a secret, as in ``password = "…"``.
        """
        if self._values is not None:
            text = self._values.sub(lambda match: f"[REDACTED:{self._names[match.group()]}]", text)
        for name, words, pattern in _SHAPES:
            if (guess or name not in _GUESSED) and any(word in text for word in words):
                text = _compiled(pattern).sub(partial(_mask, name), text)
        return text


def _mask(name: str, match: re.Match[str]) -> str:
    groups = match.groupdict()
    return f"{groups.get('keep') or ''}{groups.get('quote') or ''}[REDACTED:{name}]"


def settings_secrets(data: Mapping[str, object], path: str = "settings") -> dict[str, str]:
    """Give what settings hold that should stay secret: values whose names say so, and all headers of requests.

    Args:
        data: The settings as plain data.
        path: What the names of the values begin with.
    """
    found: dict[str, str] = {}
    for name, value in data.items():
        if isinstance(value, Mapping):
            found |= settings_secrets(value, f"{path}.{name}")
        elif isinstance(value, str) and (is_secret_name(name) or path.endswith(".headers")) and name != "key_env":
            found[f"{path}.{name}"] = value.removeprefix("Bearer ").strip()
    return found
