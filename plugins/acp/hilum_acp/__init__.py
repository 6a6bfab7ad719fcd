"""hilum as an agent of the Agent Client Protocol, which editors speak.

Importing this package is cheap, because every kernel loads it.
"""

from hilum_acp.settings import AcpSettings

__all__ = ["AcpSettings"]
