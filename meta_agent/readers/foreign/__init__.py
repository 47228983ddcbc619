"""The health report on rollouts of other tools.

`read_foreign` returns it, and says what the data of those tools lacks.
"""

from meta_agent.readers.foreign.reading import MINIMUM, ForeignReport, read_foreign

__all__ = ["MINIMUM", "ForeignReport", "read_foreign"]
