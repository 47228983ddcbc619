"""The rules, by factor. To add one: a class with `diagnose`, and its name in `ALL_RULES`."""

from meta_agent.agents._rules._case import Case, EvidenceView, Situation
from meta_agent.agents._rules._library import LIBRARY, VALUE, Lead, Metric, source_of
from meta_agent.agents._rules._rule import Diagnosis, Rule
from meta_agent.agents._rules._source import parses
from meta_agent.agents._rules.conversation import (
    ActAsWritten,
    GoOn,
    KeepConversation,
    ShowResults,
    ShowTask,
)
from meta_agent.agents._rules.data import BroadenCurriculum, InformativeTasksFirst
from meta_agent.agents._rules.diagnostics import EXPLAIN_GAP, ExplainGap, MeasureTrait, WatchConduct
from meta_agent.agents._rules.filters import DropDeadGroups, KeepInformativeGroups
from meta_agent.agents._rules.outcome import OutcomeFirst, PayOutcome
from meta_agent.agents._rules.recipe import (
    ExploreMore,
    LargerGroups,
    LowerLearningRate,
    NoWarmupDecay,
    RaiseLearningRate,
    UsualRange,
)
from meta_agent.agents._rules.reward import (
    DropHackableBonus,
    DropLengthPenalty,
    PunishLeak,
    RewardProgress,
    RewardTesting,
)
from meta_agent.agents._rules.scaffold import (
    DropLeakingTool,
    LongerObservations,
    LongerReplies,
    MoreTurns,
    OfferTool,
    OtherOption,
    ShowFirst,
)

ALL_RULES: tuple[Rule, ...] = (
    MoreTurns(),
    LongerObservations(),
    LongerReplies(),
    KeepConversation(),
    ShowResults(),
    ActAsWritten(),
    GoOn(),
    ShowTask(),
    OtherOption(),
    DropLeakingTool(),
    OfferTool(),
    ShowFirst(),
    DropHackableBonus(),
    DropLengthPenalty(),
    OutcomeFirst(),
    PayOutcome(),
    PunishLeak(),
    RewardTesting(),
    RewardProgress(),
    KeepInformativeGroups(),
    DropDeadGroups(),
    BroadenCurriculum(),
    InformativeTasksFirst(),
    RaiseLearningRate(),
    LowerLearningRate(),
    ExploreMore(),
    LargerGroups(),
    UsualRange(),
    NoWarmupDecay(),
    ExplainGap(),
    WatchConduct(),
    MeasureTrait(),
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
