"""The nano suites: a laboratory on which the loop's own error rates can be measured.

Tasks are generated and graders are exact, so a claim of the loop can be checked against the truth
in minutes, on a CPU. Figures from here say nothing about large models; they say whether the loop
finds what is wrong, blocks what is invalid, and leaves alone what is fine.
"""

from meta_agent.domains.nano.swe import NanoSwe

__all__ = ["NanoSwe"]
