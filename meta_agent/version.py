"""The version of this package; read by its build and said by its commands."""

__version__ = "0.1.0"
