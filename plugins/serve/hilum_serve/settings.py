"""The settings of the server, in the table ``[serve]``."""

from __future__ import annotations

from hilum import section, setting


@section("serve")
class ServeSettings:
    """How ``hilum serve`` serves sessions. Options of the command override these settings."""

    port: int = setting(
        default=8722,
        project=False,
        minimum=0,
        help="Port of `hilum serve`; 0 for any free one.",
    )
    idle_minutes: float = setting(
        default=10.0,
        project=False,
        minimum=0,
        help="Minutes after which the server closes a session that nobody reads and nothing runs in.",
    )
    connections: int = setting(
        default=512,
        project=False,
        minimum=1,
        help="Most connections that the server keeps open at the same time.",
    )
    connections_per_user: int = setting(
        default=256,
        project=False,
        minimum=1,
        help="Most event streams that one user may have open at the same time.",
    )
    requests_per_minute: int = setting(
        default=1_200,
        project=False,
        minimum=1,
        help="Most requests of one user in a minute; more are refused with 429.",
    )
    peer_url: str = setting(
        default="",
        project=False,
        help=(
            "Address at which other servers with the same database reach this one, such as"
            " http://10.0.0.1:8722. Requests for a session are then passed on to the server that has"
            " it open."
        ),
    )
    peer_key: str = setting(
        default="",
        secret=True,
        help=(
            "Key of at least 32 characters that all servers with serve.peer_url have in common."
            " Whoever has it can read and use the tokens of all users."
        ),
    )
    peer_plain_http: bool = setting(
        default=False,
        project=False,
        help=(
            "Whether tokens may be sent without encryption to servers whose address is not an IP"
            " address of this machine or a private network."
        ),
    )
