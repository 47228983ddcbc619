"""Local weights: engines that need torch, imported in the policy child and nowhere else."""
