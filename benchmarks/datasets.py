"""Data for the benchmarks: scikit-learn's digits, or a folder of .npz files of embeddings."""

from pathlib import Path

from skballdp.cli import Dataset, load_digits_split, load_npz

__all__ = ["load", "load_all"]


def load_all(folder: str | None) -> dict[str, Dataset]:
    """Every data set in `folder` by name, or digits if there is no folder."""
    if folder is None:
        return {"digits": load_digits_split()}
    paths = sorted(Path(folder).glob("*.npz"))
    if not paths:
        raise SystemExit(f"{folder}: no .npz file in this folder")
    return {path.stem: load_npz(path) for path in paths}


def load(folder: str | None, name: str) -> tuple[str, Dataset]:
    """The data set `name` of `folder`, or digits if there is no folder."""
    if folder is None:
        return "digits", load_digits_split()
    return name, load_npz(Path(folder) / f"{name}.npz")
