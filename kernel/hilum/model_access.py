"""Which models can be used, and what is missing where they cannot.

The plugin that reaches the providers has a kernel instance with these methods. Faces find it with
``kernel.plugin(ModelAccess)``, for a guided set-up.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

import msgspec

from hilum.models import ModelInfo

if TYPE_CHECKING:
    from hilum.kernel import Kernel

ProviderState = Literal["ready", "unchecked", "no_key", "no_server", "no_models", "failed"]


class ProviderStatus(msgspec.Struct, frozen=True):
    """Whether the models of a provider can be used.

    Attributes:
        name: The part before the slash in ``provider/name``.
        state: ``ready`` (it answered), ``unchecked`` (it has what it needs, and was not contacted),
            or what is missing.
        found: What was found, in a sentence.
        fix: What the user can do about it; empty if nothing needs to be done.
        address: Scheme, host and port of its server; empty if it has none.
        local: Whether the server is on this machine.
        key: Where the key is: the name of an environment variable, the keyring, or a file; empty
            if there is none. Never the key itself.
        key_env: The environment variable that may contain the key; empty if none is used.
        models: Its models, the best one first; known ones only, unless it was asked for its list.
    """

    name: str
    state: ProviderState
    found: str
    fix: str = ""
    address: str = ""
    local: bool = False
    key: str = ""
    key_env: str = ""
    models: tuple[ModelInfo, ...] = ()

    @property
    def usable(self) -> bool:
        """Whether nothing is known to be missing."""
        return self.state in ("ready", "unchecked")


class ModelTest(msgspec.Struct, frozen=True):
    """A model's answer to a small request.

    Attributes:
        model: ``provider/name``.
        address: Scheme, host and port of the server.
        seconds: Seconds until the answer began.
    """

    model: str
    address: str
    seconds: float


@runtime_checkable
class ModelAccess(Protocol):
    """Reports which models can be used, tests them, and keeps the user's keys."""

    async def survey_models(
        self, kernel: Kernel, provider: str = "", *, known_only: bool = False
    ) -> Sequence[ProviderStatus]:
        """Return the state of each provider, checked at once and with a time limit for each.

        Only servers on this machine are contacted, and the named provider.

        Args:
            kernel: The kernel with the providers.
            provider: Return only this provider, and request its list of models.
            known_only: Contact no server at all.

        Raises:
            UsageError: There is no such provider.
        """
        ...

    async def try_model(self, kernel: Kernel, name: str, *, key: str = "") -> ModelTest:
        """Send one small request to a model, and wait until its answer begins.

        Args:
            kernel: The kernel with the providers.
            name: ``provider/name``.
            key: A key to use instead of the one that is set; it is not kept.

        Raises:
            HilumError: The model cannot be used; the message has the cause and the hint the next
                step.
        """
        ...

    async def keep_key(self, kernel: Kernel, provider: str, key: str) -> str:
        """Keep a key for the user, in the system's keyring if there is one, or else in a file.

        From then on the provider uses it, unless an environment variable contains a key.

        Returns:
            Where the key is kept, in words.

        Raises:
            HilumError: It cannot be kept.
        """
        ...

    async def forget_key(self, kernel: Kernel, provider: str) -> bool:
        """Remove the key that is kept for a provider, and return whether there was one.

        Raises:
            HilumError: It cannot be removed.
        """
        ...
