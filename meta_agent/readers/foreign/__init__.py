"""The health report on rollouts of other tools."""
