"""Readers of untrusted bytes: JSON, Python source, Parquet, tar archives, invisible characters."""
