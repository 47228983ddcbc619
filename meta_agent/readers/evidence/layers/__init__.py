"""The layers of evidence that are read off rollouts: score, signal and behaviour."""
