"""The health report on rollouts that somebody else made."""
