"""What studies runs from outside: comparing them, review, history."""
