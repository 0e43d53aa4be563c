"""The one way out: every URL that configuration, alerts or tools name is fetched through this client."""

from controlplane.core.outbound.client import Answer, OutboundClient, Streamed, host_of
from controlplane.core.outbound.errors import OutboundError
from controlplane.core.outbound.policy import OutboundPolicy, policy_from_settings

__all__ = ["Answer", "OutboundClient", "OutboundError", "OutboundPolicy", "Streamed", "host_of", "policy_from_settings"]
