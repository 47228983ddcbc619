"""The harness's git history: candidates are edited files, winners are merged, verdicts are notes.

Untrusted bytes enter this folder in `HarnessRepo.admit` (`_admission.admit_edits`) alone. A sandbox
gets `HarnessRepo.pack(base)`, works in a repository of its own, and hands back contents by path
(see `meta_agent.proposers.Workbench`).

Reasons of refusal (`CandidateError.reason`): `ref_name`, `ref_taken`, `commit_text`,
`message_too_large`, `not_a_regular_file`, `git_path`, `path_name`, `path_collision`,
`path_outside_allowlist`, `too_many_files`, `file_too_large`, `tree_too_large`, `empty`,
`merge_conflict`, `merge_failed`.
"""

from meta_agent.core.history._admission import AdmittedCommit
from meta_agent.core.history._adopt import IMPORT_TRAILER, adopt_into, adopt_patches
from meta_agent.core.history._foreign import SKIPPED_FOLDERS, read_foreign
from meta_agent.core.history._git import EMAIL, NAME, OLDEST_GIT, git_version
from meta_agent.core.history._limits import AdmissionLimits
from meta_agent.core.history._message import (
    candidate_message,
    parse_trailers,
    standard_trailers,
    with_trailers,
)
from meta_agent.core.history._past import ForeignHistory, PastCommit, foreign_history, read_folder
from meta_agent.core.history._repo import EPOCH, LEAD, HarnessRepo

__all__ = [
    "EMAIL",
    "EPOCH",
    "IMPORT_TRAILER",
    "LEAD",
    "NAME",
    "OLDEST_GIT",
    "SKIPPED_FOLDERS",
    "AdmissionLimits",
    "AdmittedCommit",
    "ForeignHistory",
    "HarnessRepo",
    "PastCommit",
    "adopt_into",
    "adopt_patches",
    "candidate_message",
    "foreign_history",
    "git_version",
    "parse_trailers",
    "read_folder",
    "read_foreign",
    "standard_trailers",
    "with_trailers",
]
