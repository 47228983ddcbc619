"""Models that attempt tasks: nano models, models trained with TRL, frozen models, vLLM servers."""
