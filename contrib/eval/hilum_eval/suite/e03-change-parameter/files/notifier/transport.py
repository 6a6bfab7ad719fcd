"""The connection to a gateway."""


class Connection:
    """A connection that records what is sent, in place of a network."""

    sent = []

    def __init__(self, gateway, timeout):
        self.gateway = gateway
        self.timeout = timeout

    def deliver(self, address, text):
        """Send a text and return the number of characters."""
        Connection.sent.append((self.gateway, self.timeout, address, text))
        return len(text)
