"""Trains policies with TRL's GRPO in a child process, fed by rollouts that the host makes.

The host's half (`PolicyChild`, `train_policy`) needs no torch. The child's half (`child`, `_local`,
`_trainer`, `_recipe`) is imported by the child alone, and by `handover` to merge an adapter.
"""

from meta_agent.policies.training._metrics import TRL_NAMES
from meta_agent.policies.training._wire import (
    Advantages,
    RolloutEvent,
    Row,
    StepMetrics,
    TrainJob,
    TrainSettings,
)
from meta_agent.policies.training.checkpoint import OpenedPolicy, open_checkpoint, write_checkpoint
from meta_agent.policies.training.policy import PolicyChild, Timeouts
from meta_agent.policies.training.run import train_policy

__all__ = [
    "TRL_NAMES",
    "Advantages",
    "OpenedPolicy",
    "PolicyChild",
    "RolloutEvent",
    "Row",
    "StepMetrics",
    "Timeouts",
    "TrainJob",
    "TrainSettings",
    "open_checkpoint",
    "train_policy",
    "write_checkpoint",
]
