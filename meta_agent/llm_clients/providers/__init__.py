"""Each provider is one SDK behind the same Protocol; `ways_in` opens them."""
