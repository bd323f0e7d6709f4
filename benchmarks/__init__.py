"""Benchmarks: ``python -m benchmarks NAME [--data DIR]``; without ``--data``, on digits."""
