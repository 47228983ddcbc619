"""The harness contract: `harness.toml`, its factors and recipe, its code in a sandbox."""

from meta_agent.core.harness._paths import matches, matches_any, safe_path
from meta_agent.core.harness.command import CommandSession, Opener, open_session
from meta_agent.core.harness.contract import CONTRACT_FILE, Entry, HarnessContract, parse_contract
from meta_agent.core.harness.recipe import RECIPE_FILE, Recipe, parse_recipe
from meta_agent.core.harness.session import CheckResult, HarnessSession, Measurement, Teaches

__all__ = [
    "CONTRACT_FILE",
    "RECIPE_FILE",
    "CheckResult",
    "CommandSession",
    "Entry",
    "HarnessContract",
    "HarnessSession",
    "Measurement",
    "Opener",
    "Recipe",
    "Teaches",
    "matches",
    "matches_any",
    "open_session",
    "parse_contract",
    "parse_recipe",
    "safe_path",
]
