"""The steps of the loop, one file each. Every step journals its outcome."""
