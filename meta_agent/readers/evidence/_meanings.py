"""What each metric is, in one sentence, and what to do where it is bad: one table for all screens.

A name is a full one (`layer.name`) or a rule's; what a harness's own diagnostics measure has no row
here. Commands are as typed, with words in capitals for what only their reader knows; `{asked}` is
what the report was asked for.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Final, NamedTuple


class Meaning(NamedTuple):
    """`pattern` matches a whole name; `then` and `command` are there for what can alert."""

    pattern: str
    what: str
    then: str = ""
    command: str = ""


_AGENT: Final = "meta-agent evolve --harness AGENT --tasks TASKS --policy PROVIDER/MODEL --dry-run"
_TRAIN: Final = "meta-agent evolve --tasks TASKS --policy hf:MODEL --dry-run"
_GRADER: Final = "meta-agent tasks check TASKS"
_AGAIN: Final = "meta-agent report {asked} --html after.html"
_HONEST: Final = "Read these attempts; then see what the grader takes from nothing and from cheats."
_DEAD: Final = "Mix easier and harder tasks, take more attempts at each, or pay for parts."
_SAID: Final = "Read those attempts and mend the limit or the message; then read new attempts."

MEANINGS: Final[tuple[Meaning, ...]] = tuple(
    Meaning(*row)
    for row in (
        ("score.n", "Attempts that were planned, lost ones included."),
        ("score.n_solved", "Attempts that solved their task."),
        ("score.n_clean", "Attempts that solved it without flagged conduct."),
        ("score.n_failed", "Attempts that ended without a solution."),
        ("score.n_infra_error", "Attempts that the machines lost: no failure of the model."),
        ("score.n_verifier_error", "Attempts that the grader could not grade."),
        ("score.n_policy_error", "Attempts that an error of the agent ended."),
        ("score.tasks", "Different tasks: the unit of the intervals."),
        ("score.success", "Share of all attempts that solved their task."),
        (r"score.(clean_)?success_(low|high)", "End of its 95 % interval, with tasks as units."),
        ("score.success_known", "Share solved of the attempts whose outcome is known."),
        ("score.clean_success", "Share of all attempts solved without flagged conduct."),
        ("score.infra_share", "Share of attempts that machines or grader lost.",
         "Run those attempts again once the machine holds.", "meta-agent doctor"),
        ("score.task_mean", "Share solved, averaged over tasks instead of attempts."),
        ("score.pass_k", "Attempts that every task had at least: the k of pass@k."),
        ("score.pass_at_k", "Chance that one of k attempts at a task solves it."),
        ("signal.reward_mean", "Mean reward of an attempt."),
        ("signal.reward_missing", "Share of all attempts that got no reward.",
         "Find why the reward gave no number.", _AGAIN),
        ("signal.reward_corr_success", "How closely rewards go with being solved, -1 to 1."),
        ("signal.reward_corr_clean", "How closely rewards go with clean success, -1 to 1.",
         _HONEST, _GRADER),
        ("signal.reward_follows", "How closely rewards go with clean success at one task, -1 to 1.",
         _HONEST, _GRADER),
        ("signal.misordered", "Share of pairs at one task in which an unclean attempt beats a "
         "clean one.",
         _HONEST, _GRADER),
        ("signal.tied", "Share of pairs of a clean and an unclean attempt that are paid alike.",
         "Let the reward tell solved from unsolved.", _GRADER),
        ("signal.reward_turns_corr", "How closely rewards go with length, -1 to 1.",
         "See whether long attempts are better, or only paid more.", _TRAIN),
        ("signal.reward_turns_corr_within", "How closely rewards go with length among attempts "
         "that ended alike.",
         "Pay by the outcome, not by the way to it.", _TRAIN),
        ("signal.flagged_reward_gap", "Reward of flagged attempts minus that of the others.",
         _HONEST, _GRADER),
        ("signal.groups", "Groups of two or more attempts that share a task."),
        ("signal.dead_group_ratio", "Share of groups whose attempts all have the same reward: "
         "training learns nothing from them.", _DEAD, _TRAIN),
        ("rule.low_signal", "Most groups teach nothing, for one and the same reason.",
         _DEAD, _TRAIN),
        ("signal.dead_solved_ratio", "Share of groups that teach nothing since all are solved."),
        ("signal.dead_unsolved_ratio", "Share of groups that teach nothing since none is solved."),
        ("signal.task_repeats", "Share of groups whose task an earlier group had already."),
        ("signal.reward_spread", "How far rewards of one group lie apart (standard deviation).",
         _DEAD, _TRAIN),
        ("signal.rv_std_over_mean", "How unlike the groups are in their spread of rewards.",
         _DEAD, _TRAIN),
        (r"signal.component\..*\.mean", "Mean of this part of the reward."),
        (r"signal.component\..*\.constancy", "Share of attempts with this part's commonest value.",
         "Leave the part out, or let it tell attempts apart.", _TRAIN),
        (r"signal.component\..*\.spread_share", "How much of the reward's spread is this part's."),
        (r"signal.component\..*\.corr_success", "How closely this part goes with being solved."),
        (r"signal.component\..*\.corr_clean", "How closely this part goes with clean success."),
        (r"signal.component\..*\.corr_flagged", "How closely this part goes with flagged conduct."),
        (r"signal.component\..*\.turns_corr_within", "How closely this part goes with length among "
         "attempts that ended alike."),
        (r"signal.component\..*\.follows", "How closely it goes with clean success at one task."),
        (r"signal.component\..*\.rest_follows", "How closely the reward without this part goes "
         "with clean success."),
        (r"signal.pay\..*", "Share of rewarded ways to fail that would pay as much as solving.",
         _HONEST, _GRADER),
        ("signal.filter.lost", "Share of what groups could teach that the filter leaves out."),
        ("signal.filter.idle", "Weight that the filter leaves to groups that teach nothing."),
        ("signal.curriculum.covered", "Share of the tasks that training would see."),
        ("signal.curriculum.skew", "How unlike the tasks of training are to all tasks."),
        ("signal.curriculum.solved", "How unlike they are in how often they are solved."),
        ("signal.train.steps", "Optimiser steps behind the training series."),
        (r"signal.train\..*\.(first|last|change)", "A training series: the mean of its first third "
         "or its last, or the difference."),
        ("behaviour.turns_mean", "Calls of the model in an attempt.",
         "Look where long attempts lose their turns.", _AGENT),
        ("behaviour.cut_replies", "Share of replies that ended at their token limit.",
         _SAID, _AGAIN),
        ("behaviour.tokens_mean", "Tokens of an attempt."),
        ("behaviour.mean_logprob", "How sure the policy was of its tokens; 0 is certain.",
         "Raise the temperature, or train with more entropy.", _TRAIN),
        ("behaviour.inexact_share", "Share of token records that hold the last part only.",
         "Keep every call's tokens.", _AGAIN),
        ("behaviour.tool_calls_mean", "Tool calls in an attempt."),
        ("behaviour.tool_failure_rate", "Share of tool calls that failed.", _SAID, _AGENT),
        ("behaviour.repeated_action_rate", "Share of tool calls equal to the one before.",
         "Say in the tool's answer what to do instead.", _AGENT),
        ("behaviour.actionless_turns", "Share of turns without a tool call."),
        (r"behaviour.tool_share\..*", "This tool's share of all calls."),
        (r"behaviour.tool_failure\..*", "Share of this tool's calls that failed."),
        ("behaviour.submit_rate", "Share of attempts that handed something in."),
        ("behaviour.self_test_rate", "Share of attempts that ran a test of their own.",
         "Ask for a test before handing in, or make testing cheap.", _AGENT),
        ("behaviour.edit_rate", "Share of attempts that edited anything.",
         "Read what they did instead.", _AGENT),
        ("behaviour.edit_then_test", "Share of editing attempts that tested their last edit."),
        ("behaviour.view_before_edit", "Share of editing attempts that looked first."),
        ("behaviour.edit_failure_rate", "Share of edits that were refused.", _SAID, _AGENT),
        ("rule.edit_failure", "Edits are refused: a matter of form, not of skill.", _SAID, _AGENT),
        ("behaviour.first_edit_turn", "The turn of the first edit."),
        ("behaviour.test_fail_rate", "Share of test runs that failed."),
        ("behaviour.retry_after_fail", "Share of failed test runs that an edit follows."),
        ("behaviour.submit_after_fail", "Share handed in of attempts whose last test failed.",
         "Let handing in run the tests first.", _AGENT),
        (r"behaviour.stop\..*", "Share of all attempts that ended so."),
        ("behaviour.truncation", "Share of all attempts that a limit ended (tokens, turns, time).",
         "Raise the limit that ends most, or shorten the work.", _AGENT),
        ("behaviour.flagged", "Share of attempts with conduct that is no honest work."),
        (r"behaviour.flag\..*", "Share of attempts with this flag."),
        ("behaviour.leak_use", "Share of attempts that read an answer they should not see.",
         "Close the leak before comparing anything.", _GRADER),
        ("behaviour.leak_share_of_solved", "Share of the solved attempts that had read an answer."),
        ("rule.leak", "Much of what is solved is solved by reading the answer.",
         "Close the leak before comparing anything.", _GRADER),
        ("behaviour.tamper_use", "Share of attempts that went for the grader or its files.",
         "Put grader and tests out of the agent's reach.", _GRADER),
        ("behaviour.sequence_diversity", "Share of different tool sequences among one group.",
         "Raise the temperature.", _TRAIN),
        ("conversation.forgotten", "Share of earlier messages that a call no longer shows."),
        ("conversation.reply_changed", "Share of calls that show the last reply otherwise."),
        ("conversation.reply_silent", "Share of replies that asked the environment for nothing."),
        ("conversation.reply_lost", "Share of replies of which nothing came, though the same words "
         "do something elsewhere."),
        ("conversation.argument_changed", "Share of arguments that the reply does not hold."),
        ("conversation.argument_moved", "Share of arguments in another order than in the reply."),
        ("conversation.argument_coverage", "How much of a reply its arguments hold."),
        ("conversation.argument_place", "How far into a reply its last argument stands."),
        ("conversation.call_unwritten", "Share of calls that the reply does not name."),
        ("conversation.result_cut", "Share of results of which the policy saw a part."),
        ("conversation.result_altered", "Share of results that the policy saw otherwise."),
        ("conversation.result_dropped", "Share of results that the policy did not see."),
        ("conversation.result_stale", "Share of results in whose place an earlier one stood."),
        ("conversation.ended_early", "Share of attempts that the scaffold ended before any limit."),
        ("conversation.task_unseen", "Share of what the task gives that the first call lacks."),
        ("shape.group_size_mean", "Attempts of a group; a group of one can't be compared."),
        ("shape.empty_patch", "Share of blank patches among those that the data has."),
        ("shape.chars_(mean|p50|p90|max)", "How many characters the model wrote in an attempt."),
        ("shape.empty", "Share of attempts in which the model wrote nothing."),
        ("shape.duplicates", "Share that repeat an earlier attempt at the task word for word."),
        ("shape.unanswered", "Share of tool calls whose answer the conversation does not hold."),
        ("shape.looping", "Share whose last 40 characters stand there three times or more."),
        ("shape.reward_chars_corr", "How closely rewards go with how much was written, -1 to 1."),
        ("shape.reward_chars_corr_within", "How closely rewards go with it among attempts "
         "at one task."),
        (r"shape.suspect\..*\.solved", "Share solved of the attempts with such a call."),
        (r"shape.suspect\..*", "Share of attempts with a tool call that is worth a look."),
    )
)  # fmt: skip
_UNSAID: Final = Meaning("", "")


def is_share(name: str) -> bool:
    """Returns True for a metric that is a share of something, by its full name."""
    return meaning_of(name).what.startswith("Share")


@cache
def meaning_of(name: str) -> Meaning:
    """Returns the row of a metric by its full name. It is empty if the table has none."""
    return next((row for row in MEANINGS if re.fullmatch(row.pattern, name)), _UNSAID)
