"""The one way to ask a model: keys out, recorded, paid for, retried, replayed."""
