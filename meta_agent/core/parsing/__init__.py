"""What untrusted bytes are read with: JSON, Python source, unseen characters, Parquet rows."""
