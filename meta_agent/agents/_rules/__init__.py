"""The rules, by factor. To add one: a function under `@rule`, and its name in `ALL_RULES`."""

from meta_agent.agents._rules import (
    conversation,
    data,
    diagnostics,
    filters,
    outcome,
    recipe,
    reward,
    scaffold,
)
from meta_agent.agents._rules._case import Case, EvidenceView, Situation
from meta_agent.agents._rules._library import LIBRARY, VALUE, Lead, Metric, source_of
from meta_agent.agents._rules._rule import Diagnosis, Rule
from meta_agent.agents._rules._source import parses
from meta_agent.agents._rules.diagnostics import EXPLAIN_GAP

ALL_RULES: tuple[Rule, ...] = (
    scaffold.more_turns,
    scaffold.longer_observations,
    scaffold.longer_replies,
    conversation.keep_conversation,
    conversation.show_results,
    conversation.act_as_written,
    conversation.go_on,
    conversation.show_task,
    scaffold.other_option,
    scaffold.drop_leaking_tool,
    scaffold.offer_tool,
    scaffold.show_first,
    reward.drop_hackable_bonus,
    reward.drop_length_penalty,
    outcome.outcome_first,
    outcome.pay_outcome,
    reward.punish_leak,
    reward.reward_testing,
    reward.reward_progress,
    filters.keep_informative_groups,
    filters.drop_dead_groups,
    data.broaden_curriculum,
    data.informative_tasks_first,
    recipe.raise_learning_rate,
    recipe.lower_learning_rate,
    recipe.explore_more,
    recipe.larger_groups,
    recipe.usual_range,
    recipe.no_warmup_decay,
    diagnostics.explain_gap,
    diagnostics.watch_conduct,
    diagnostics.measure_trait,
)

__all__ = [
    "ALL_RULES",
    "EXPLAIN_GAP",
    "LIBRARY",
    "VALUE",
    "Case",
    "Diagnosis",
    "EvidenceView",
    "Lead",
    "Metric",
    "Rule",
    "Situation",
    "parses",
    "source_of",
]
