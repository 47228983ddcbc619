"""Engines of our own that sample for a training: several vLLM servers behind one gateway.

`EngineGateway` (`gateway`) is what a runner asks; `Fleet` holds the engines and which weights they
serve; a `Replica` is one engine, watched and replaced; `_routes` is what it is asked.
"""

from meta_agent.policies.fleet._replica import Engine, Launch, Patience
from meta_agent.policies.fleet._routes import Routes
from meta_agent.policies.fleet._served import Served
from meta_agent.policies.fleet.fleet import Fleet
from meta_agent.policies.fleet.gateway import EngineGateway

__all__ = ["Engine", "EngineGateway", "Fleet", "Launch", "Patience", "Routes", "Served"]
