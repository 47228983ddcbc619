"""Every model call: engines for local weights, behind the one `Gateway` protocol.

The engines need torch, so nothing is re-exported here: import `meta_agent.models.engines.nano_engine` or
`meta_agent.models.engines.hf_engine` where torch may be loaded, which is the policy child and nowhere else.
"""
