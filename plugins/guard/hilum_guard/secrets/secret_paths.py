"""List the paths of secrets: a maintained list, and files whose mode or name marks them as secret.

The list is based on the programs' documentation of their logins, keys and histories.
"""

from __future__ import annotations

import functools
import os
import re
import stat
import time
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import suppress
from fnmatch import translate
from functools import cache
from typing import TYPE_CHECKING, NamedTuple

from hilum_guard.file_names import folded
from hilum_guard.secrets.secret_names import original_names

if TYPE_CHECKING:
    from hilum_guard.watching.folder_scan import ScannedFolders

# Paths below the home folder that contain secrets.
HOME = tuple(
    """.ssh .aws .azure .gnupg .kube .docker .netrc _netrc .git-credentials .pypirc .npmrc
    .yarnrc .yarnrc.yml .bunfig.toml .vault-token .password-store .pki .1password
    .cargo/credentials .cargo/credentials.toml .gem/credentials .terraform.d
    .terraformrc .m2/settings.xml .m2/settings-security.xml .gradle/gradle.properties
    .ivy2/.credentials .sbt/.credentials .nuget/NuGet/NuGet.Config .composer/auth.json
    .pgpass .my.cnf .mylogin.cnf .s3cfg .boto .oci .fly .rclone.conf .ansible_vault
    .sops .age .config/sops .huggingface .cache/huggingface/token
    .cache/huggingface/stored_tokens .kaggle .databrickscfg .snowsql .dbt/profiles.yml
    .wakatime.cfg .netlify .vercel .heroku .cloudflared .wrangler .ngrok2 .modal.toml
    .replicate .jupyter/jupyter_server_config.json
    .ipython/profile_default/history.sqlite .mc/config.json .minio .local/share/ov
    .passwd-s3fs .passwd-ossfs .msmtprc .mutt .muttrc .fetchmailrc .offlineimaprc
    .mbsyncrc .irssi .weechat .purple .vnc .remmina .rdp .bash_history .zsh_history
    .histfile .sh_history .ksh_history .python_history .psql_history .sqlite_history
    .mysql_history .rediscli_history .mongosh .dbshell .node_repl_history .irb_history
    .pry_history .lesshst .viminfo .local/state/nvim/shada .local/share/nvim/shada
    .local/share/fish/fish_history .local/share/atuin .local/share/mc/history .mozilla
    .thunderbird .local/share/keyrings .local/share/kwalletd .gnome2/keyrings
    .config/kwalletrc .bitcoin .litecoin .dogecoin .ethereum .electrum .electrum-ltc
    .monero .zcash .dash .solana .near-credentials .config/solana .foundry/keystores
    .exodus .brownie/accounts .starkli-wallets .subkey .claude .claude.json .codex
    .gemini .copilot .cursor .continue .aider.conf.yml .codeium .windsurf .qwen .kimi
    .amp .local/share/amp .local/share/opencode .local/share/goose .local/share/crush
    .local/share/kilo .factory .openhands .openai .anthropic .groq .llm .cody .tabnine
    .augment .roo .cline .pi/agent/auth.json .mcp-auth .qodo .amazonq .kiro .zed .pulumi
    .railway .supabase .snowflake .linode-cli .ollama/id_ed25519
    .local/share/com.vercel.cli .local/share/jupyter/runtime .local/share/uv/credentials
    .local/share/python_keyring .local/share/pnpm/auth.ini .continuum/anaconda-client
    .cache/git/credential .cache/snowflake .cache/google-vscode-extension
    .cache/github-copilot .cache/mozilla .cache/thunderbird .cache/google-chrome
    .cache/chromium .cache/BraveSoftware .cache/microsoft-edge .cache/vivaldi
    .vscode/cli/token.json .vscode-cli/token.json .vscode-server/data/User/globalStorage
    .local/share/code-server/User/globalStorage""".split()
)
# Paths below the configuration folder (`~/.config`) that contain secrets.
CONFIG = tuple(
    """gh hub glab-cli gcloud doctl op git/credentials containers/auth.json github-copilot
    google-chrome chromium BraveSoftware microsoft-edge vivaldi opera rclone sops age
    s3cmd hub.yaml tea lab flyctl fly oci heroku netlify configstore vercel wrangler
    .wrangler ngrok cloudflared stripe twilio-cli doppler infisical teller bw Bitwarden
    1Password keepassxc gopass rbw hcloud linode-cli scw vultr-cli exercism hetzner
    databricks snowflake huggingface wandb modal railway supabase turso planetscale
    neonctl neon pulumi argocd openai k9s helm/registry helm/repositories.yaml
    pypoetry/auth.toml uv/credentials composer/auth.json Code/User/globalStorage
    VSCodium/User/globalStorage Cursor Windsurf opencode goose crush amp codex claude
    Claude gemini copilot github-copilot-cli aichat mods fabric io.datasette.llm
    zed/settings.json evolution geary neomutt msmtp isync aerc Signal discord Slack
    Element Telegram TelegramDesktop Exodus Electrum Ledger solana filezilla remmina
    Nextcloud syncthing tailscale wireguard openvpn mitmproxy""".split()
)
CONFIG_SPACED = ("Bitwarden CLI", "Ledger Live", "Microsoft Edge")
MAC = (
    "Library/Keychains",
    "Library/Cookies",
    "Library/Safari",
    "Library/Application Support/Google/Chrome",
    "Library/Application Support/Firefox",
    "Library/Application Support/BraveSoftware",
    "Library/Application Support/Microsoft Edge",
    "Library/Application Support/Exodus",
    "Library/Application Support/Bitcoin",
    "Library/Application Support/Claude",
    "Library/Application Support/Cursor",
    "Library/Application Support/Code/User/globalStorage",
)

# Paths in the home folder's dot-folders that are not searched: they are large and generated, and
# programs need them. The tokens that programs keep there are in the list above.
PASSED_OVER = frozenset(
    """.cache .npm .nvm .pyenv .rustup .rbenv .asdf .venv .virtualenvs .local/lib
    .local/bin .local/share/uv .local/share/pipx .local/share/mise .local/share/fonts
    .local/share/Trash .local/share/virtualenvs .local/share/pnpm .local/share/pdm
    .local/share/hatch .local/share/rustup .local/share/cargo .local/share/nvm
    .local/share/fnm .local/share/pyenv .local/share/containers .local/share/flatpak
    .local/share/Steam .local/share/nvim/lazy .local/share/nvim/mason .local/pipx
    .cargo/registry .cargo/bin .cargo/git .m2/repository .gradle/caches .gradle/wrapper
    .gradle/daemon .vscode/extensions .vscode-server/bin .vscode-server/cli/servers
    .vscode-server/extensions .java .conda .julia .ghcup .stack .opam .nix-profile
    .nix-defexpr .wine .steam .var .dotnet .bun .deno .pnpm-store .yarn .texlive
    .matplotlib .fontconfig .dbus .pulse .config/pulse .terminfo .volta .goenv .sdkman
    .linuxbrew .oh-my-zsh .sbt/boot .ivy2/cache .android/avd .platformio""".split()
)
# The names of such folders wherever they are.
GENERATED = frozenset(".git .venv __pycache__ node_modules site-packages".split())
# Shells and tools read these files at startup. These files stay readable but are write-protected.
START_FILES = frozenset(
    """.profile .bashrc .bash_profile .bash_login .bash_logout .bash_aliases .zshrc .zshenv
    .zprofile .zlogin .gitconfig .inputrc .vimrc .tmux.conf .screenrc .xauthority
    .iceauthority .xsession-errors .sudo_as_admin_successful .wget-hsts
    .config/git/config .config/git/ignore .config/pip/pip.conf""".split()
)
MAX_FOLDERS = 4_000
"""Maximum number of folders of a workspace to search for files that are named like secrets."""

# Workspace files that are hidden from commands regardless of their mode. Files in the second list
# are hidden only if no other user may read them.
_HIDDEN_NAMES = tuple(
    """.env .env.* .envrc .netrc _netrc .pgpass .git-credentials .htpasswd .dockercfg
    .vault-token *.kdbx *.jks *.keystore id_rsa id_dsa id_ecdsa id_ed25519 credentials
    credentials.json credentials.toml credentials.yml credentials.yaml secrets.json
    secrets.toml secrets.yml secrets.yaml secrets.env *.secrets terraform.tfstate
    terraform.tfstate.* service-account*.json service_account*.json wpa_supplicant.conf""".split()
)
_PRIVATE_NAMES = tuple(
    ".npmrc .pypirc *.env *.pem *.key *.p12 *.pfx *.credentials secret secrets *_history".split()
)
_NO_SECRET = (
    r"\.env\.(example|sample|template|dist|defaults?|schema|ci|test\.example)|.*\.(example|sample"
    r"|template|pub)"
)
# The longest part without wildcards of each pattern.
_LITERAL_PARTS = tuple(
    dict.fromkeys(
        max(re.split(r"[*?\[\]]", pattern), key=len)
        for pattern in (*_HIDDEN_NAMES, *_PRIVATE_NAMES)
    )
)
SKIPPED = frozenset(
    ".git node_modules .venv venv __pycache__ .tox .nox .mypy_cache .ruff_cache .pytest_cache dist"
    " build target".split()
)


SETTLED = 50_000_000
"""Time in nanoseconds within which a folder may change again without a new change time (ctime)."""
Listed = tuple[tuple[str, ...], tuple[str, ...]]
"""A folder's subfolders, and the files in it whose names matter."""
FolderStamp = tuple[int, int, int, int]
"""Identifies a folder with its entries, if its last change is older than ``SETTLED``."""


class _Search(NamedTuple):
    """The result of a search for file names that are typical of secrets.

    Attributes:
        revision: The revision of the scan before the search.
        unscanned: The folders that the scan did not include, each with what it contained.
        files: The files that were found.
    """

    revision: int
    unscanned: tuple[tuple[str, Listed], ...]
    files: tuple[str, ...]


class SecretFiles:
    """A finder of workspace files that are named like secrets; it caches unchanged folders."""

    def __init__(self) -> None:
        self._seen: dict[str, tuple[tuple[int, int], Listed]] = {}
        self._searches: dict[str, _Search] = {}

    def of_workspace(self, root: str, scanned: ScannedFolders | None = None) -> Iterator[str]:
        """Yield the workspace files that are named like secrets, and hard links to them. Blocks.

        Args:
            root: The root of the workspace.
            scanned: The folders that were scanned just before. As long as the scan finds no change,
                this method does not examine these folders again.
        """
        named = self._find_named(root, scanned)
        for path in named:
            if is_hidden_name(os.path.basename(path)) or is_private(path):
                yield path
        yield from self._find_links(root, named)

    def links(self, root: str) -> Iterator[str]:
        """Yield hard links with other names to a workspace's secrets. Blocks."""
        yield from self._find_links(root, self._find_named(root))

    def _find_links(self, root: str, named: Iterable[str]) -> Iterator[str]:
        """Yield hard links with other names to some files.

        Args:
            root: The root of the workspace.
            named: The files.
        """
        secrets = set(filter(None, map(_read_linked_file, named)))
        if not secrets:
            return
        # A folder listing contains the inodes of its entries, so only files with a secret's inode
        # are examined.
        inodes = {inode for _, inode in secrets}
        for folder, _ in self._folders(root):
            with suppress(OSError), os.scandir(folder) as entries:
                for entry in entries:
                    if entry.inode() not in inodes or _has_secret_name(entry.path):
                        continue
                    if _read_linked_file(entry.path) in secrets:
                        yield entry.path

    def _find_named(self, root: str, scanned: ScannedFolders | None = None) -> tuple[str, ...]:
        """Return the files in a workspace whose names are typical of secrets."""
        known = self._searches.get(root)
        if scanned is not None and known is not None and self._holds(known, scanned):
            return known.files
        unscanned: list[tuple[str, Listed]] = []
        files: list[str] = []
        for folder, listed in self._folders(root):
            files += filter(_has_secret_name, listed[1])
            if scanned is not None and folder not in scanned.paths:
                unscanned.append((folder, listed))
        if scanned is not None:
            self._searches[root] = _Search(scanned.revision, tuple(unscanned), tuple(files))
        return tuple(files)

    def _holds(self, known: _Search, scanned: ScannedFolders) -> bool:
        """Return whether another search would find the same files."""
        if known.revision != scanned.revision:
            return False
        # `_look` returns the same object for a folder that has not changed.
        return all(self._look(folder) is listed for folder, listed in known.unscanned)

    def _folders(self, root: str) -> Iterator[tuple[str, Listed]]:
        """Yield the folders in a workspace, each with its subfolders and the files that matter."""
        waiting = deque([root])
        for _ in range(MAX_FOLDERS):
            if not waiting:
                return
            # The search is breadth-first, so that the limit omits the deepest folders.
            folder = waiting.popleft()
            listed = self._look(folder)
            yield folder, listed
            # Generated folders are large and contain none of the project's secrets.
            for path in listed[0]:
                if os.path.basename(path) not in SKIPPED:
                    waiting.append(path)

    def _look(self, folder: str) -> Listed:
        """Return a folder's subfolders, and the files in it whose names matter."""
        try:
            status = os.stat(folder)
            # A program can set the modification time (mtime), but not the change time (ctime).
            changed = (status.st_ino, status.st_ctime_ns)
            known = self._seen.get(folder)
            if known is not None and known[0] == changed:
                return known[1]
            is_settled = time.time_ns() - status.st_ctime_ns > SETTLED
            listed = _list_folder(folder)
        except OSError:
            return (), ()
        if is_settled:
            self._seen[folder] = (changed, listed)
        else:
            self._seen.pop(folder, None)
        return listed


def _list_folder(folder: str) -> Listed:
    """Return a folder's subfolders, and the files in it whose names matter.

    In dot-folders, all files matter, because their mode may make them secrets.

    Raises:
        OSError: The folder cannot be listed.
    """
    is_dot_folder = "/." in folder
    folders: list[str] = []
    files: list[str] = []
    others: list[str] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.path)
            elif is_dot_folder or entry.name.startswith("."):
                files.append(entry.path)
            else:
                others.append(entry.name)
    # In most folders, no name can be that of a secret.
    if _may_include_secret("/".join(others)):
        files += [os.path.join(folder, name) for name in others if _has_secret_name(name)]
    return tuple(folders), tuple(files)


def _may_include_secret(names: str) -> bool:
    """Return whether some of the names in a text may be typical of secrets.

    A name can match a pattern only if it contains the literal parts of the pattern, and the marks
    that ``original_names`` removes are before or after these parts. Matching each name takes 8 µs,
    which was 0.2 s of a start among 20,000 files (tests/benchmarks/real_project.py).

    Args:
        names: The names, separated by characters that no name contains.
    """
    if not names.isascii():  # folding may combine characters of two names
        return True
    low = folded(names)
    return any(part in low for part in _LITERAL_PARTS)


def _has_secret_name(path: str) -> bool:
    """Return whether a file name is typical of secrets."""
    name = os.path.basename(path)
    return is_hidden_name(name) or is_private_name(name)


def _read_linked_file(path: str) -> tuple[int, int] | None:
    """Return the device and inode of a regular file with several names; None for any other file."""
    try:
        status = os.lstat(path)
    except OSError:
        return None
    if not stat.S_ISREG(status.st_mode) or status.st_nlink < 2:
        return None
    return status.st_dev, status.st_ino


def make_folder_stamp(status: os.stat_result) -> FolderStamp:
    """Return the stamp of a folder with this status."""
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_ctime_ns


def is_private(path: str) -> bool:
    """Return whether a path is a non-empty regular file that only its owner may read."""
    try:
        status = os.lstat(path)
    except OSError:
        return False
    # Programs set this mode for keys and logins (ssh rejects other modes).
    is_restricted = not status.st_mode & 0o177  # private and not executable
    return stat.S_ISREG(status.st_mode) and is_restricted and status.st_size > 0


@cache
def _pattern(names: tuple[str, ...]) -> re.Pattern[str]:
    return re.compile("|".join(map(translate, names)))


def is_hidden_name(name: str) -> bool:
    """Return whether files with this name are hidden from commands."""
    return any(_is_named(_HIDDEN_NAMES, each) for each in original_names(folded(name)))


def is_private_name(name: str) -> bool:
    """Return whether files with this name are hidden when only the user may read them."""
    return any(_is_named(_PRIVATE_NAMES, each) for each in original_names(folded(name)))


def _is_named(patterns: tuple[str, ...], low: str) -> bool:
    return _pattern(patterns).match(low) is not None and not re.fullmatch(_NO_SECRET, low)


@functools.lru_cache(maxsize=8)
def list_secret_paths(homes: tuple[str, ...], configs: tuple[str, ...]) -> tuple[str, ...]:
    """Return the paths in the maintained list, whether they exist or not."""
    found = [os.path.join(home, name) for home in homes for name in (*HOME, *MAC)]
    names = (*CONFIG, *CONFIG_SPACED)
    found += [os.path.join(config, name) for config in configs for name in names]
    return tuple(found)
