"""Views: diffs, comparisons, trees, searches and briefs, computed from the log."""
