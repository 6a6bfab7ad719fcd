"""The service that reports which models can be used, and what is missing for others.

The plugin that connects to the providers has a kernel instance with the methods of ``ModelAccess``.
Faces find this instance with ``kernel.plugin(ModelAccess)``, for a guided setup.
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
    """The status of a provider: whether its models can be used.

    Attributes:
        name: The part before the slash in ``provider/name``.
        state: ``ready`` (the provider responded), ``unchecked`` (nothing is missing, but the
            provider was not contacted), or what is missing.
        message: A sentence about the result of the check.
        hint: What the user can do about a problem; empty if nothing needs to be done.
        address: Scheme, host and port of the provider's server; empty if it has no server.
        local: Whether the server is on this machine.
        key: The location of the key: the name of an environment variable, the keyring, or a file;
            empty if there is no key. Never the key itself.
        key_env: The environment variable that may contain the key; empty if the provider uses none.
        models: The provider's models, best first; only known models, unless the provider's list was
            requested.
    """

    name: str
    state: ProviderState
    message: str
    hint: str = ""
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
    """The result of a small request to a model.

    Attributes:
        model: ``provider/name``.
        address: Scheme, host and port of the server.
        seconds: Seconds until the response began.
    """

    model: str
    address: str
    seconds: float


@runtime_checkable
class ModelAccess(Protocol):
    """A service that reports which models can be used, tests them, and stores the user's keys."""

    async def survey_models(
        self, kernel: Kernel, provider: str = "", *, known_only: bool = False
    ) -> Sequence[ProviderStatus]:
        """Return the status of each provider.

        The providers are checked concurrently, each with a time limit.

        Only servers on this machine and the named provider are contacted.

        Args:
            kernel: The kernel that has the providers.
            provider: The only provider to return, whose list of models is then requested.
            known_only: Whether to contact no server at all.

        Raises:
            UsageError: The provider does not exist.
        """
        ...

    async def test_model(self, kernel: Kernel, name: str, *, key: str = "") -> ModelTest:
        """Send one small request to a model, and wait until its response begins.

        Args:
            kernel: The kernel that has the providers.
            name: ``provider/name``.
            key: A key to use instead of the configured one; it is not stored.

        Raises:
            HilumError: The model cannot be used; the message states the cause and the hint the next
                step.
        """
        ...

    async def store_key(self, kernel: Kernel, provider: str, key: str) -> str:
        """Store a key for the user, in the system's keyring if there is one, or else in a file.

        The provider then uses this key, unless an environment variable contains a key.

        Returns:
            A description of where the key is stored.

        Raises:
            HilumError: The key cannot be stored.
        """
        ...

    async def add_server(self, kernel: Kernel, address: str, *, key: str = "") -> ProviderStatus:
        """Check a server at an address that the user entered, and let this kernel use its models.

        One request, for the list of models, is sent. Nothing is stored; see ``store_server``.

        Args:
            kernel: The kernel that gets the provider.
            address: The base URL, as the user typed or pasted it.
            key: The key; empty if the server requires none.

        Returns:
            The provider with its models. A provider that has this address already is used.

        Raises:
            UsageError: The text is not the address of a server, or not a key.
            ModelError: The server cannot be used; the message states the cause and the hint the
                next step. The kind is ``auth`` if it requires another key.
        """
        ...

    async def store_server(self, kernel: Kernel, provider: str) -> str:
        """Store the address of an added server, and its key, for the user.

        The address is stored in the user's settings and the key as ``store_key`` stores it, never in
        a project.

        Args:
            kernel: The kernel that has the provider.
            provider: The name that ``add_server`` returned.

        Returns:
            A description of where the address is stored.

        Raises:
            HilumError: It cannot be stored.
        """
        ...

    async def forget_key(self, kernel: Kernel, provider: str) -> bool:
        """Remove the key that is stored for a provider, and return whether there was one.

        Raises:
            HilumError: The key cannot be removed.
        """
        ...
