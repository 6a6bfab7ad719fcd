"""Web search and web pages for the agent, and the check of addresses that every plugin with a network shares."""

from hilum_web.addresses import METADATA, PUBLIC, Reach
from hilum_web.connecting import AddressRefused, HostUnknown, UrlUnread, checked, open_client
from hilum_web.urls import Target, Verdict, check_url, read_url

__all__ = [
    "METADATA",
    "PUBLIC",
    "AddressRefused",
    "HostUnknown",
    "Reach",
    "Target",
    "UrlUnread",
    "Verdict",
    "check_url",
    "checked",
    "open_client",
    "read_url",
]
