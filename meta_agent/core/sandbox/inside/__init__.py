"""What runs inside a sandbox: stdlib only, streamed to a bare Python before anything else."""
