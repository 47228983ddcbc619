"""The way in to model servers for other rooms: where a role's model is, and opening it.

Light to import: an SDK is imported when one of its providers is opened.
"""

from meta_agent.llm_clients.providers._endpoints import Endpoint as Endpoint
from meta_agent.llm_clients.providers._endpoints import endpoint_for as endpoint_for
from meta_agent.llm_clients.providers._endpoints import open_endpoint as open_endpoint
from meta_agent.llm_clients.providers._endpoints import open_provider as open_provider
from meta_agent.llm_clients.providers._streaming import Timeouts as Timeouts
