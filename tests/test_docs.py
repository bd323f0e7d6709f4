"""Documentation is tested: docstrings by numpydoc, the Python blocks of the pages by running."""

import dataclasses
import importlib
import inspect
import pkgutil
import re
from pathlib import Path

import pytest
from numpydoc.validate import validate

import skballdp

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
# Codes of numpydoc.validate that do not apply: summaries may take two lines of indentation
# style (GL01, SS06), parameters need no final full stop (PR08, PR09), results need no name
# (RT02 to RT05), and See Also and extended summaries are optional (SA01, SA04, ES01).
IGNORED = {"GL01", "SS05", "SS06", "ES01", "SA01", "SA04", "PR08", "PR09", "RT02", "RT03", "RT04"}
IGNORED |= {"RT05", "GL08"}  # absence is tested by test_everything_public_has_a_docstring


def public_objects():
    """Names in ``__all__`` of every public module, and the public methods of classes."""
    found = {}
    for module in pkgutil.walk_packages(skballdp.__path__, "skballdp."):
        if any(part.startswith("_") for part in module.name.split(".")):
            continue
        loaded = importlib.import_module(module.name)
        for name in getattr(loaded, "__all__", []):
            value = getattr(loaded, name)
            if not (inspect.isclass(value) or inspect.isfunction(value)):
                continue
            if not value.__module__.startswith("skballdp"):
                continue
            found[f"{value.__module__}.{value.__qualname__}"] = value
            for attribute, member in vars(value).items() if inspect.isclass(value) else ():
                if not attribute.startswith("_") and inspect.isfunction(member):
                    found[f"{value.__module__}.{value.__qualname__}.{attribute}"] = member
    return found


OBJECTS = public_objects()


@pytest.mark.parametrize("name", sorted(OBJECTS))
def test_everything_public_has_a_docstring(name):
    assert inspect.getdoc(OBJECTS[name])


def is_documented_api(name):
    """What is reachable from the top level, `accounting`, `labels` or `plotting`."""
    top = {getattr(skballdp, public) for public in skballdp.__all__}
    packages = ("skballdp.accounting.", "skballdp.labels.", "skballdp.plotting.")
    owner = OBJECTS.get(name.rsplit(".", 1)[0])
    return OBJECTS[name] in top or owner in top or name.startswith(packages)


@pytest.mark.parametrize("name", sorted(filter(is_documented_api, OBJECTS)))
def test_numpydoc(name):
    """Sections, parameters and their order; one-line docstrings are for the obvious."""
    errors = [error for error in validate(name)["errors"] if error[0] not in IGNORED]
    short = inspect.getdoc(OBJECTS[name]).count("\n") == 0
    errors = [error for error in errors if not (short and error[0] in ("EX01", "RT01", "PR01"))]
    if "." in name.replace(OBJECTS[name].__module__ + ".", ""):  # examples stand with the class
        errors = [error for error in errors if error[0] != "EX01"]
    if dataclasses.is_dataclass(OBJECTS[name]):  # fields are documented as attributes
        errors = [error for error in errors if error[0] != "PR01"]
    assert errors == []


@pytest.mark.parametrize("name", sorted(skballdp.__all__))
def test_the_public_api_has_examples(name):
    assert ">>>" in inspect.getdoc(getattr(skballdp, name))


def code_blocks(page):
    """Consecutive Python blocks of a page share their names, as a reader would run them."""
    return re.findall(r"^```python\n(.*?)^```", page.read_text(encoding="utf-8"), re.M | re.S)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # some write files
    names = {}
    for block in code_blocks(page):
        exec(compile(block, str(page), "exec"), names)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_inside_the_repository_exist(page):
    for target in re.findall(r"\]\(([^)#\s]+)", page.read_text(encoding="utf-8")):
        if "://" not in target:
            assert (page.parent / target).exists(), target
