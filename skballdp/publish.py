"""The fitted model as it leaves the house: a clean copy, and files that need no pickle.

A published head is rebuilt from what is public (parameters, coefficients, certificate) by the
code that ends `fit`, never copied attribute by attribute: whatever else somebody hung on the
object stays behind, and what does not agree with the certificate is noticed.
"""

import json
import math
import re
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_is_fitted

from skballdp._pipeline import require_public_steps
from skballdp._release import BallDPClassifier, Problem, json_value, scalar_if_equal
from skballdp.certificate import PrivacyCertificate
from skballdp.exceptions import PrivacyWarning
from skballdp.linear import BallDPLogisticRegression, BallDPSquaredHingeSVC
from skballdp.prototype import BallDPRidgePrototype
from skballdp.radius import READ_FROM_DATA, Radius, policy_level, resolve_radius

__all__ = ["load", "release", "save"]

_FORMAT = "skballdp model"
_VERSION = 1
_LINEAR = ("coef_", "intercept_")
# The coefficients of each head: side by side they are the matrix that `_set_released` takes.
_COEFFICIENTS: dict[type[BallDPClassifier], tuple[str, ...]] = {
    BallDPRidgePrototype: ("prototypes_",),
    BallDPLogisticRegression: _LINEAR,
    BallDPSquaredHingeSVC: _LINEAR,
}
_HEADS = {cls.__name__: cls for cls in _COEFFICIENTS}
_CERTIFIED = ("epsilon", "delta", "alpha", "norm_bound", "out_of_bound")
# What a file that is no model may lead to on the way.
_MALFORMED = (
    ArithmeticError, AttributeError, LookupError, RecursionError, TypeError, zipfile.BadZipFile,
)  # fmt: skip
_FIELDS = {
    "format", "version", "estimator", "parameters", "classes", "feature_names", "coefficients",
    "certificate",
}  # fmt: skip


def release(estimator: Any, *, allow_void: bool = False) -> Any:
    """Return a copy of a fitted model that may be published.

    Parameters
    ----------
    estimator : fitted head or Pipeline
        A head of this package, or a Pipeline that ends in one and whose other steps are stateless
        or frozen with `sklearn.frozen.FrozenEstimator`.
    allow_void : bool, default=False
        Whether to accept a model whose certificate is void.

    Returns
    -------
    head or Pipeline
        A new object of the same class with the same predictions. A head holds its parameters,
        without `random_state`, the public attributes of a fitted head, ``certificate_`` among
        them, and nothing else. Other steps of a Pipeline are kept as they are.

    Raises
    ------
    NotFittedError
        If the model is not fitted.
    TypeError
        If it is neither a head of this package nor a Pipeline that ends in one.
    ValueError
        If the certificate is void, parameters or coefficients were changed after `fit`, or a step
        of the Pipeline learns from the data.
    CertificationError
        If the certificate contradicts itself.

    See Also
    --------
    save : Write a model to a file.

    Notes
    -----
    Parameters such as `public_coef` or a Radius are public under the promise and stay.

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.preprocessing import normalize
    >>> from skballdp import BallDPRidgePrototype, release
    >>> X, y = load_digits(return_X_y=True)
    >>> clf = BallDPRidgePrototype(radius=0.5, epsilon=2.0).fit(normalize(X), y)
    >>> clf.where_the_data_are = "a note to self"
    >>> published = release(clf)
    >>> hasattr(published, "where_the_data_are")
    False
    >>> bool((published.predict(X) == clf.predict(X)).all())
    True
    """
    if isinstance(estimator, Pipeline):
        *steps, (name, head) = estimator.steps
        require_public_steps(steps)
        return Pipeline([*steps, (name, release(head, allow_void=allow_void))])
    cls = type(estimator)
    if cls not in _COEFFICIENTS:
        raise TypeError(
            f"estimator must be a fitted {', '.join(_HEADS)}, or a Pipeline that ends in one, got "
            f"an object of type {cls.__name__}. Publish the head inside it."
        )
    check_is_fitted(estimator, ["certificate_", "classes_", *_COEFFICIENTS[cls]])
    certificate = estimator.certificate_
    if not isinstance(certificate, PrivacyCertificate):
        raise _changed("certificate_")
    certificate.check()
    if not (certificate.holds or allow_void):
        raise ValueError(
            "the certificate is void, so publishing the model protects nobody: "
            + "; ".join(certificate.voided_by)
            + ". Fit again without that, or pass allow_void=True to publish it as it is."
        )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        # clone copies the parameters: the two models share no memory.
        parameters = {**clone(estimator).get_params(deep=False), "random_state": None}
        published = _rebuild(
            cls(**parameters),
            certificate,
            np.asarray(estimator.classes_),
            {name: getattr(estimator, name) for name in _COEFFICIENTS[cls]},
            getattr(estimator, "feature_names_in_", None),
        )
    for name, value in vars(published).items():
        if name not in parameters and not np.array_equal(vars(estimator).get(name, ()), value):
            raise _changed(name)
    return published


def save(estimator: Any, path: Any, *, allow_void: bool = False) -> None:
    """Write a publishable copy of a fitted model to a file.

    Parameters
    ----------
    estimator : fitted head or Pipeline
        As in `release`, which it goes through; a Pipeline only as ``.skops``.
    path : str or path-like
        Where to. ``.json`` is standard JSON with parameters, coefficients (exact, digit for
        digit) and certificate. ``.skops`` is the format of the package skops.
    allow_void : bool, default=False
        As in `release`.

    Raises
    ------
    ImportError
        If skops is asked for and not installed.
    TypeError, ValueError
        As in `release`; for another ending; for parameters or labels that JSON cannot hold.

    See Also
    --------
    load : Read the file.

    Examples
    --------
    >>> import os, tempfile
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.preprocessing import normalize
    >>> from skballdp import BallDPRidgePrototype, load, save
    >>> X, y = load_digits(return_X_y=True)
    >>> clf = BallDPRidgePrototype(radius=0.5, epsilon=2.0).fit(normalize(X), y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "model.json")
    ...     save(clf, path)
    ...     loaded = load(path)
    >>> bool((loaded.predict(X) == clf.predict(X)).all())
    True
    """
    path = _checked_path(path)
    published = release(estimator, allow_void=allow_void)
    if path.suffix == ".skops":
        _skops().dump(published, path)
        return
    if isinstance(published, Pipeline):
        raise ValueError(
            "a .json file holds a head, not a Pipeline: save the last step, or use a path that "
            "ends in .skops."
        )
    parameters = published.get_params(deep=False)
    del parameters["random_state"]
    names = getattr(published, "feature_names_in_", None)
    record = {
        "format": _FORMAT,
        "version": _VERSION,
        "estimator": type(published).__name__,
        "parameters": {name: _encode(name, value) for name, value in parameters.items()},
        "classes": _encode("classes_", published.classes_),
        "feature_names": None if names is None else names.tolist(),
        "coefficients": {
            name: getattr(published, name).tolist() for name in _COEFFICIENTS[type(published)]
        },
        "certificate": published.certificate_.to_dict(),
    }
    # All of it before the file is touched: an error must not leave half a model behind.
    path.write_text(json.dumps(record, indent=1, allow_nan=False) + "\n", encoding="utf-8")


def load(path: Any) -> Any:
    """Read a model written by `save`.

    Parameters
    ----------
    path : str or path-like
        A ``.json`` or ``.skops`` file.

    Returns
    -------
    head or Pipeline
        Fitted, with the predictions of the model that was saved.

    Raises
    ------
    ImportError
        If skops is needed and not installed.
    ValueError
        If the file is not a model of a version that this release reads, or its parts contradict
        each other.
    CertificationError
        If the certificate contradicts itself.

    Warns
    -----
    PrivacyWarning
        If the certificate is void.

    See Also
    --------
    save : Write such a file.

    Notes
    -----
    The certificate is checked, and the rest compared with it as far as the certificate mentions it.
    That finds accidents and careless edits; it is no signature: it cannot tell who wrote the file,
    nor whether somebody has moved coefficients on their grid or removed that the noise was seeded.

    Nothing in a JSON file is executed. From a skops file only types of this package and those that
    skops trusts are loaded.

    Examples
    --------
    >>> import os, tempfile
    >>> from sklearn.datasets import load_digits
    >>> from sklearn.preprocessing import normalize
    >>> from skballdp import BallDPRidgePrototype, load, save
    >>> X, y = load_digits(return_X_y=True)
    >>> clf = BallDPRidgePrototype(radius=0.5, epsilon=2.0).fit(normalize(X), y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "model.json")
    ...     save(clf, path)
    ...     load(path).certificate_ == clf.certificate_
    True
    """
    path = _checked_path(path)
    try:
        if path.suffix == ".skops":
            ours = [*_HEADS.values(), PrivacyCertificate, Radius]
            trusted = [f"{cls.__module__}.{cls.__qualname__}" for cls in ours]
            model = release(_skops().load(path, trusted=trusted), allow_void=True)
        else:
            text = path.read_text(encoding="utf-8")
            record = json.loads(text, parse_constant=_no_constant, object_pairs_hook=_unambiguous)
            model = _from_record(record)
    except _MALFORMED as error:
        raise ValueError(
            f"{path.name} is not a model of this package: {type(error).__name__} while it was "
            f"read ({error!s:.200}). Ask for the file that save wrote."
        ) from None
    certificate = (model.steps[-1][1] if isinstance(model, Pipeline) else model).certificate_
    for sentence in certificate.voided_by:
        warnings.warn(f"{certificate.estimator}: {sentence}", PrivacyWarning, stacklevel=2)
    return model


def _from_record(record: Any) -> BallDPClassifier:
    if not isinstance(record, dict) or record.get("format") != _FORMAT:
        raise ValueError(f"the file is not a {_FORMAT}; write it with skballdp.save.")
    if record.get("version") != _VERSION:
        raise ValueError(
            f"the model has version {record.get('version')!r:.40}, but this release reads "
            f"{_VERSION}; load it with the release that wrote it."
        )
    if set(record) != _FIELDS:
        fields = ", ".join(sorted(set(record) ^ _FIELDS))
        raise ValueError(f"the file is not a model: missing or unknown fields: {fields}.")
    cls = _HEADS.get(record["estimator"])
    if cls is None:
        raise ValueError(f"estimator must be one of {', '.join(_HEADS)}.")
    certificate = PrivacyCertificate.from_json(json.dumps(record["certificate"]))
    certificate.check()
    parameters = {name: _decode(value) for name, value in record["parameters"].items()}
    wanted = cls().get_params(deep=False).keys() - {"random_state"}
    if parameters.keys() != wanted:
        names = ", ".join(sorted(parameters.keys() ^ wanted))
        raise ValueError(f"the file is not a model: missing or unknown parameters: {names}.")
    coefficients = record["coefficients"]
    if coefficients.keys() != set(_COEFFICIENTS[cls]):
        raise ValueError(f"coefficients must hold {', '.join(_COEFFICIENTS[cls])}.")
    coefficients = {
        name: np.asarray(value, dtype=np.float64) for name, value in coefficients.items()
    }
    classes = _decode(record["classes"])
    if not isinstance(classes, np.ndarray):
        raise ValueError("classes must be an array.")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", PrivacyWarning)
        return _rebuild(
            cls(**parameters), certificate, classes, coefficients, record["feature_names"]
        )


def _rebuild(
    head: BallDPClassifier,
    certificate: PrivacyCertificate,
    classes: np.ndarray,
    coefficients: dict[str, np.ndarray],
    feature_names: Any,
) -> BallDPClassifier:
    """Fit the head from its release instead of data; whatever contradicts the rest is refused."""
    if certificate.estimator != type(head).__name__:
        raise _changed("certificate_")
    labels = tuple(json_value(label) for label in classes.tolist())
    same_types = list(map(type, labels)) == list(map(type, certificate.classes))
    if labels != certificate.classes or not same_types:
        raise _changed("classes_")
    parameters: dict[str, Any] = head.get_params(deep=False)
    for name in _CERTIFIED:
        if parameters[name] != getattr(certificate, name):
            raise _changed(name)
    if certificate.noise not in (parameters["noise"], "none"):
        raise _changed("noise")
    domain = parameters["classes"]
    if domain is not None and not np.array_equal(np.unique(np.asarray(domain)), classes):
        raise _changed("classes")
    radius = Radius(
        certificate.radius, source=certificate.radius_source, epsilon=certificate.radius_epsilon
    )
    policy, norm_bound = parameters["radius"], certificate.norm_bound
    if policy_level(policy) is None:
        resolved = resolve_radius(policy, norm_bound=norm_bound)
    else:  # only the training data know what "q80" was
        resolved = Radius(certificate.radius, source=f'"{policy}" {READ_FROM_DATA}')
    if resolved != radius:
        raise _changed("radius")
    problem = Problem(
        n_samples=certificate.n_samples,
        n_features=certificate.n_features,
        classes=classes.copy(),
        class_counts=np.asarray(certificate.class_counts),
        epsilon=certificate.epsilon,
        delta=certificate.delta,
        alpha=certificate.alpha,
        norm_bound=norm_bound,
        out_of_bound=certificate.out_of_bound,
        radius=radius,
        noise=parameters["noise"],
    )
    voided_by, _ = head._weaknesses(problem)
    if voided_by and certificate.holds:
        raise _changed("voided_by")
    head._check_head(problem)
    for name, value in head._certified_parameters(problem).items():
        if value != getattr(certificate, name):
            raise _changed(name)
    if parameters.get("calibration", parameters.get("sensitivity")) != certificate.sensitivity_rule:
        raise _changed("sensitivity_rule")

    blocks = 1 if len(classes) == 2 and "coef_" in coefficients else len(classes)
    for name, value in coefficients.items():
        shape = (blocks,) if name == "intercept_" else (blocks, problem.n_features)
        if not isinstance(value, np.ndarray) or value.dtype != np.float64 or value.shape != shape:
            raise _changed(name)
        if not np.all(np.isfinite(value)):
            raise _changed(name)
        spacing = np.asarray(certificate.grid).reshape((-1,) + (1,) * (value.ndim - 1))
        steps = np.divide(value, spacing, out=np.zeros_like(value), where=spacing > 0)
        if not np.array_equal(steps, np.rint(steps)):
            raise _changed(name)
    head._set_released(np.column_stack(list(coefficients.values())), problem)
    for name, value in coefficients.items():
        if not np.array_equal(getattr(head, name), value):  # an intercept where there is none
            raise _changed(name)

    head.classes_ = problem.classes
    head.radius_ = radius.value
    head.sensitivity_ = scalar_if_equal(np.asarray(certificate.sensitivity))
    head.noise_scale_ = scalar_if_equal(np.asarray(certificate.noise_scale))
    head.certificate_ = certificate
    head.n_features_in_ = problem.n_features
    if feature_names is not None:
        names = np.array(feature_names, dtype=object)
        if names.shape != (problem.n_features,) or not all(isinstance(n, str) for n in names):
            raise _changed("feature_names_in_")
        head.feature_names_in_ = names
    return head


def _changed(name: str) -> ValueError:
    return ValueError(
        f"{name} does not agree with the rest of the model: it was changed after fit. Fit again, "
        "or restore it."
    )


def _encode(name: str, value: Any) -> Any:
    """A parameter as JSON; whatever is no plain value becomes an object with one key."""
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"float": repr(value)}
    if isinstance(value, Radius):
        return {"radius": [value.value, value.source, value.epsilon]}
    if isinstance(value, dict):
        items = [[_encode(name, key), _encode(name, item)] for key, item in value.items()]
        return {"dict": items}
    if isinstance(value, list | tuple):
        return [_encode(name, item) for item in value]
    array = np.asarray(value)
    if array.dtype.kind == "f" and array.dtype.itemsize > 8:
        array = array.astype(np.float64)  # which is what fit used
    if array.dtype.kind in "biufU" or (
        array.dtype == object and all(isinstance(v, str | int | float) for v in array.flat)
    ):
        return {"array": [array.dtype.str, array.tolist()]}
    raise TypeError(
        f"{name} holds objects that JSON cannot, dtype {array.dtype}. Use strings or numbers, or "
        "a path that ends in .skops."
    )


def _decode(value: Any) -> Any:
    if isinstance(value, list):
        return [_decode(item) for item in value]
    if not isinstance(value, dict):
        return value
    kind: str
    content: Any
    kind, content = next(iter(value.items()), ("", None))
    if kind == "float" and content in ("inf", "-inf"):
        return float(content)
    if kind == "radius":
        return Radius(*content)
    if kind == "dict":
        return {_decode(key): _decode(item) for key, item in content}
    if kind == "array" and re.fullmatch(r"[<>|=][biufU]\d{1,6}|\|O", content[0]):
        return np.asarray(content[1], dtype=content[0])
    raise ValueError("the file is not a model: a parameter is of an unknown kind.")


def _no_constant(name: str) -> None:
    raise ValueError(f"the file is not standard JSON: it holds {name}.")


def _unambiguous(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object; of two fields with one name, another reader might see the other."""
    record = dict(pairs)
    if len(record) != len(pairs):
        raise ValueError("the file is not a model: a field occurs twice.")
    return record


def _checked_path(path: Any) -> Path:
    path = Path(path)
    if path.suffix not in (".json", ".skops"):
        raise ValueError(f"path must end in .json or .skops, got the ending {path.suffix!r}.")
    return path


def _skops() -> Any:
    try:
        import skops.io
    except ImportError:
        raise ImportError(
            "a .skops file needs the package skops: pip install 'skballdp[skops]'. Or use a path "
            "that ends in .json."
        ) from None
    return skops.io
