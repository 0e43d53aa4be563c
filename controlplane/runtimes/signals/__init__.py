"""Reading signals, for every source, runtime and page: what an alert says, what a metric measures, where it changes."""
