"""The answer keys: the faults that are planted into seed harnesses. No agent may reach them."""
