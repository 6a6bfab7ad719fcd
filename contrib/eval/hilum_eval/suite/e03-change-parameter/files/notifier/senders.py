"""One function for each kind of notification."""

from notifier.transport import Connection


def send_mail(address, subject, body):
    """Send a mail and return the number of characters."""
    if "@" not in address:
        raise ValueError(f"{address!r} is not a mail address")
    connection = Connection("mail", timeout=30)
    return connection.deliver(address, f"{subject}\n\n{body}")


def send_text(address, body):
    """Send a text message and return the number of characters."""
    if not address.startswith("+"):
        raise ValueError(f"{address!r} is not a phone number")
    connection = Connection("text", timeout=30)
    return connection.deliver(address, body[:160])


def send_push(address, title, body):
    """Send a push message and return the number of characters."""
    if not address:
        raise ValueError("a push message needs a device")
    connection = Connection("push", timeout=30)
    return connection.deliver(address, f"{title}: {body}")


def send_all(mail, phone, subject, body):
    """Send a mail and a text message."""
    return send_mail(mail, subject, body) + send_text(phone, body)
