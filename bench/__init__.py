"""The benchmark: one workload, ours and peers side by side, ratios. Run `python -m bench.run`."""
