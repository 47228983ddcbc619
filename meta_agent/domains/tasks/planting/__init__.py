"""Faults that are planted into a package: which edits, how likely, what they break."""
