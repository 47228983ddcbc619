"""Judges diagnostics: which of their numbers separate good versions from bad ones."""
