"""What studies runs from outside: comparing them, forecasts, review, history."""
