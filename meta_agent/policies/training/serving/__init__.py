"""What engines elsewhere sample for a training: their weights (`publishing`, `untied`), and who
holds their conversations (`speaker`)."""
