"""Judges diagnostics: which of the numbers they measure separate good versions from bad ones."""
