"""How a patch is graded: sifted, run, and run again beside its twins."""
