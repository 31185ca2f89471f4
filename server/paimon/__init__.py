"""The Paimon REST catalog protocol: what any Paimon client speaks when it is given this server as its catalog."""

from server.paimon.dispatch import bp as PAIMON_BLUEPRINT

__all__ = ["PAIMON_BLUEPRINT"]
