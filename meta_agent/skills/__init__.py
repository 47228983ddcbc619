"""Skills: lessons that verdicts taught, as Agent Skills folders that any client can read.

A skill is data with its source. It may change the order in which ideas are tried;
it never decides what is merged.
"""

from meta_agent.skills._distil import distil
from meta_agent.skills._export import export
from meta_agent.skills._library import SkillLibrary, load_skill
from meta_agent.skills._validate import validate

__all__ = ["SkillLibrary", "distil", "export", "load_skill", "validate"]
