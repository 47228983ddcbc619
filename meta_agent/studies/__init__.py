"""What studies runs from outside: comparing, calibrating, backtests, forecasts, review."""
