"""The part of the setup that adds a server at an address that the user enters."""

from __future__ import annotations

import attrs
from hilum import HilumError, ModelAccess, ProviderStatus, Session, is_loopback
from hilum.errors import ModelError
from hilum.models import ModelInfo

from hilum_terminal.chat_protocol import Chat, Choice
from hilum_terminal.model_texts import describe_model
from hilum_terminal.text_width import one_line

QUESTION = "Base URL of the server, for example http://gpu:8000/v1"


@attrs.define
class ServerSetup:
    """Adds a server, and lets the user choose one of its models.

    Attributes:
        asker: The conversation.
        access: The service that reaches the server.
        address: The address that the user entered last, which is suggested at the next try.
    """

    asker: Chat
    access: ModelAccess
    address: str = ""

    @property
    def _session(self) -> Session:
        return self.asker.session

    async def add(self) -> str:
        """Ask for an address, choose a model, test it, and keep the server.

        Returns:
            ``provider/name``; empty if the user left, or if the server cannot be used.
        """
        address = await self.asker.ask(QUESTION, default=self.address)
        if address is None or not address.strip():
            return ""
        self.address = address.strip()
        status = await self._add_with_key("")
        if status is None:
            return ""
        name = await self._choose_model(status)
        if not name or not await self._test(name):
            return ""
        try:
            place = await self.access.store_server(self._session.kernel, status.name)
        except HilumError as error:
            self.asker.show_error(error)
            return ""
        self.asker.say(f"The server {one_line(status.name)} is kept in {one_line(place)}.")
        return name

    async def _add_with_key(self, key: str) -> ProviderStatus | None:
        """Request the server's models, and ask for a key as long as the server requires another.

        Args:
            key: The key to try first; empty for none.
        """
        kernel = self._session.kernel
        while True:
            self.asker.say("Requesting the list of models …", style="dim")
            try:
                return await self.access.add_server(kernel, self.address, key=key)
            except HilumError as error:
                self.asker.show_error(error)
                if not (isinstance(error, ModelError) and error.kind == "auth"):
                    return None
            key = await self._ask_key()
            if not key:
                return None

    async def _ask_key(self) -> str:
        if self.address.lower().startswith("http://") and not is_loopback(self.address):
            text = "The key is sent without encryption, because the address begins with http://."
            self.asker.say(text, style="warning")
        key = await self.asker.ask("Key for this server (it is not shown)", secret=True)
        return (key or "").strip()

    async def _choose_model(self, status: ProviderStatus) -> str:
        choices = [
            Choice(info, one_line(info.name), describe_model(status, info))
            for info in status.models
        ]
        title = f"Models of {one_line(status.name)}"
        chosen = await self.asker.choose(title, choices)
        if chosen is None or not isinstance(chosen.value, ModelInfo):
            return ""
        return chosen.value.name

    async def _test(self, name: str) -> bool:
        """Send one small request to a model; ask for a key if the server requires one."""
        kernel = self._session.kernel
        while True:
            self.asker.say(f"Sending one small request to {one_line(name)} …", style="dim")
            try:
                done = await self.access.test_model(kernel, name)
            except HilumError as error:
                self.asker.show_error(error)
                if not (isinstance(error, ModelError) and error.kind == "auth"):
                    return False
            else:
                text = f"{one_line(name)} responded in {done.seconds:.1f} s."
                self.asker.say(text, style="good")
                return True
            # Some servers list their models without a key.
            key = await self._ask_key()
            if not key or await self._add_with_key(key) is None:
                return False
