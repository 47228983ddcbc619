"""Pages: the report of a run, of a comparison and of somebody's rollouts, as HTML."""
