"""Run one benchmark by name."""

import argparse
import importlib
import pkgutil

import benchmarks

NAMES = sorted(
    module.name
    for module in pkgutil.iter_modules(benchmarks.__path__)
    if module.name not in ("__main__", "datasets")
)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("name", choices=NAMES)
    parser.add_argument("--data", metavar="DIR", help="folder with .npz files of embeddings")
    args = parser.parse_args()
    importlib.import_module(f"benchmarks.{args.name}").main(args.data)


if __name__ == "__main__":
    main()
