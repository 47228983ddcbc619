"""Simulated models: what a policy and a meta-agent say, from the request alone.

They sit behind the loopback servers and know nothing of the run but what an HTTP request tells
them. Nothing in them is told which verdict it should come to: the policy is better or worse by what
its scaffold makes it do, and the gate has to find that out.
"""

from tests.acceptance.brains._answers import Fix as Fix
from tests.acceptance.brains._answers import fixes_of as fixes_of
from tests.acceptance.brains._misbehaving import Misbehaving as Misbehaving
from tests.acceptance.brains._policy import Solver as Solver
from tests.acceptance.brains._shell import Configurer as Configurer
from tests.acceptance.brains._shell import ShellSolver as ShellSolver
from tests.acceptance.brains._team import Team as Team
