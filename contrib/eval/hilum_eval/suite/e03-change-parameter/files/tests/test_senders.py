import unittest

from notifier import senders
from notifier.transport import Connection


class SendersTest(unittest.TestCase):
    def setUp(self):
        Connection.sent.clear()

    def test_mail(self):
        self.assertEqual(senders.send_mail("a@example.org", "Hi", "there"), 9)
        self.assertEqual(Connection.sent[0][2:], ("a@example.org", "Hi\n\nthere"))

    def test_text(self):
        senders.send_text("+4930", "x" * 200)
        self.assertEqual(Connection.sent, [("text", 30, "+4930", "x" * 160)])

    def test_push(self):
        senders.send_push("device", "Hi", "there")
        self.assertEqual(Connection.sent, [("push", 30, "device", "Hi: there")])

    def test_addresses(self):
        for call in (
            lambda: senders.send_mail("nobody", "a", "b"),
            lambda: senders.send_text("030", "b"),
            lambda: senders.send_push("", "a", "b"),
        ):
            with self.assertRaises(ValueError):
                call()


if __name__ == "__main__":
    unittest.main()
