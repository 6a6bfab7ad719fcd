"""Recognise secrets by the names of variables and settings, and file copies by their names.

All of hilum's plugins use this list.
"""

from __future__ import annotations

import fnmatch
import re
from functools import cache

from hilum_guard.file_names import folded

_WORDS = r"AUTH|COOKIES?|CREDS|DSN|JWT|KEYS?|PASS|PASSPHRASE|PAT|PRIVATE|\w+_PWD"
# The headers for a receiver of telemetry contain its key.
_HEADERS = r"OTEL_(?:\w+_)?HEADERS"
_ENDS = r"APIKEY|CREDENTIALS?|PASSWD|PASSWORDS?|SECRETS?|TOKENS?|(?:SECRET|ACCESS|PRIVATE)KEY"
_NAME = re.compile(rf"(?:^|_)(?:{_WORDS}|{_HEADERS}|\w*(?:{_ENDS}))\d*(?:_|$)")


def is_secret_name(name: str) -> bool:
    """Return whether a name looks like a secret's name: ``OPENAI_API_KEY``, ``db-password``."""
    return _NAME.search(name.upper().replace("-", "_")) is not None


MAX_COPIES = 3
"""Maximum number of nested copies (copies of copies) to recognise."""
_SWAP = r"(?i)\.sw[a-p]$"
_BACKUP_ENDS = r"(?i)(~|\.~\d+~|\.(bak|backup|old|orig|save|saved|rej|tmp|sw[a-p])\d*|_bak)$"


def original_names(name: str) -> tuple[str, ...]:
    """Yield a file's name and the names of its possible originals, such as ``.env`` for ``.env~``.

    Editors and tools leave such copies.

    Args:
        name: The last part of a path.
    """
    found = [name]
    for _ in range(MAX_COPIES):
        before = _remove_marks(found[-1])
        if not before or before == found[-1]:
            break
        is_swap = re.search(_SWAP, found[-1]) is not None
        found.append(before)
        if is_swap and before.startswith("."):  # Vim prefixes the name with a dot
            found.append(before[1:])
    return tuple(dict.fromkeys(filter(None, found)))


def _remove_marks(name: str) -> str:
    """Return a file name without the prefix or suffix that marks a copy."""
    if len(name) > 2 and name.startswith("#") and name.endswith("#"):  # an Emacs auto-save file
        return name[1:-1]
    if len(name) > 2 and name.startswith(".#"):  # an Emacs lock file
        return name[2:]
    return re.sub(_BACKUP_ENDS, "", name)


SECRET_NAMES = tuple(
    """.env .env.* *.env .envrc .netrc _netrc .pgpass .npmrc .pypirc .git-credentials
    .htpasswd .dockercfg .vault-token *.pem *.key *.p12 *.pfx *.kdbx *.jks *.keystore
    id_rsa* id_dsa* id_ecdsa* id_ed25519* credentials credentials.* *.credentials secret
    secrets secret.* secrets.* *.secret *.secrets shadow shadow- gshadow gshadow-
    sudoers *_history terraform.tfstate* .ssh .aws .gnupg .kube .docker .azure .gcloud
    sudoers.d wpa_supplicant.conf ssh_host_*_key""".split()
)
NOT_SECRET = (
    r"\.env\.(example|sample|template|dist|defaults?|schema)|.*\.pub|secrets?\.(py|pyi|js|ts|go|rs"
    r"|md|rst|txt)"
)


def matches(name: str, patterns: tuple[str, ...]) -> bool:
    """Return whether a name matches any of the given patterns, ignoring differences in spelling."""
    return _union(patterns).match(folded(name)) is not None


@cache
def _union(patterns: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(fnmatch.translate(pattern) for pattern in patterns))
