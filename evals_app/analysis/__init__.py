"""Read models: a run, an attempt, comparison of runs, baselines, trends, statistics, exports."""
