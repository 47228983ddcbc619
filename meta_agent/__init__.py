"""meta-agent: an autonomous trainer that co-evolves an LLM policy and the harness around it.

Read `meta_agent.protocols` first: it names every noun. `meta_agent.evolve` is the loop.
Importing this package has no side effects and pulls in nothing heavy.
"""

__version__ = "0.1.0"
