"""What the terminal shows: progress, summaries and questions."""
