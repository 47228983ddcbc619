"""The lab measures harness versions: it checks sources, trains, evaluates, and grades again."""
