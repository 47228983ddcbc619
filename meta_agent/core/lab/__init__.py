"""The lab measures: it checks sources, trains and evaluates harness versions, and grades again."""
