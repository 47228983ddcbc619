"""What measures the loop's own measuring: which numbers tell good versions from bad ones."""
