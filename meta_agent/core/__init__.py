"""What a merge rests on: the loop, the lab that measures, the gate, the history and the ledger."""
