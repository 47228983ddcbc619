"""The trusted core that merges rest on: the loop, the lab that measures, the gate and the
ledger.
"""
