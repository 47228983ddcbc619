"""The vLLM servers of this project that sample for a training, behind a single gateway.

A runner asks `EngineGateway` (`gateway`). `Fleet` holds the engines and the policy
version that they serve. A `Replica` watches one engine and replaces it if it fails.
`_routes` holds the requests to it.
"""

from meta_agent.policies.fleet._replica import Engine, Launch, Patience
from meta_agent.policies.fleet._routes import Routes, Served
from meta_agent.policies.fleet.fleet import Fleet
from meta_agent.policies.fleet.gateway import EngineGateway

__all__ = ["Engine", "EngineGateway", "Fleet", "Launch", "Patience", "Routes", "Served"]
