"""The fixture `meta_agent` of `_command`, for every test of the command line."""

from tests.cli._command import meta_agent as meta_agent
