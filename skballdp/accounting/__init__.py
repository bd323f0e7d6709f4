"""Pure mathematics of the promise: no estimator, no data."""
