"""Pure mathematics of regularised empirical risk minimisation, on arrays."""
