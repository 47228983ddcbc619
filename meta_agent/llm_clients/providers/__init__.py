"""Each provider is one SDK behind the same Protocol; `_endpoints` opens them."""
