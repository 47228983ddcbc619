"""The vLLM servers of this project that sample for a training, behind one gateway.

A runner asks `EngineGateway` (`gateway`). `Fleet` holds the engines and the version they serve.
A `Replica` is one engine that is watched and replaced. `_routes` holds the requests to it.
"""

from meta_agent.policies.fleet._replica import Engine, Launch, Patience
from meta_agent.policies.fleet._routes import Routes, Served
from meta_agent.policies.fleet.fleet import Fleet
from meta_agent.policies.fleet.gateway import EngineGateway

__all__ = ["Engine", "EngineGateway", "Fleet", "Launch", "Patience", "Routes", "Served"]
