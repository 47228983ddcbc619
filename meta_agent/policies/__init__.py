"""The models that act: nano, models trained with TRL, frozen models and vLLM servers."""
