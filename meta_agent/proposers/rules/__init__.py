"""The rules, a module for each mechanism. To add one, write a function under `@rule` in its
module.
"""

from meta_agent.proposers.rules import (
    chat,
    conversation,
    diagnostics,
    recipe,
    reward,
    scaffold,
    training,
)
from meta_agent.proposers.rules._rule import Rule

_MODULES = (scaffold, conversation, chat, reward, training, recipe, diagnostics)
ALL_RULES: tuple[Rule, ...] = tuple(
    value for module in _MODULES for value in vars(module).values() if isinstance(value, Rule)
)
