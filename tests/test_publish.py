"""Publishable copies and files: the same predictions, no secret, and no quiet changes."""

import contextlib
import copy
import io
import json
import logging
import math
import pickle
import sys
import warnings
import zipfile
from fractions import Fraction

import joblib
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import Normalizer, StandardScaler

from skballdp import (
    BallDPLogisticRegression,
    BallDPRidgePrototype,
    BallDPSquaredHingeSVC,
    BlockRRLabelTransformer,
    CertificationError,
    MAPReconstructionAuditor,
    PrivacyWarning,
    Radius,
    load,
    release,
    save,
)
from tests.instances import HEADS, names

heads = pytest.mark.parametrize("head", HEADS, ids=names(HEADS))
endings = pytest.mark.parametrize("ending", [".json", ".skops"])
LABELS = {
    "str": np.array(["ä", "b", "long name"]),
    "object": np.array(["a", "b", "c"], dtype=object),
    "int": np.array([-3, 0, 2**60]),
    "int8": np.array([-3, 0, 7], dtype=np.int8),
    "uint64": np.array([0, 1, 2**64 - 1], dtype=np.uint64),
    "bool": np.array([False, True]),
    "float": np.array([-1.0, 0.0, 3.0]),
    "float32": np.array([-1.0, 0.0, 3.0], dtype=np.float32),
}


def same_model(first, second, X):
    assert type(first) is type(second)
    assert first.certificate_ == second.certificate_
    assert first.classes_.dtype == second.classes_.dtype
    assert set(vars(first)) == set(vars(second))
    for name in first.get_params():
        if name != "random_state":
            np.testing.assert_array_equal(getattr(first, name), getattr(second, name))
    for method in ("predict", "decision_function", "predict_proba"):
        if hasattr(first, method):
            wanted, got = getattr(first, method)(X), getattr(second, method)(X)
            assert wanted.dtype == got.dtype
            np.testing.assert_array_equal(wanted, got)


def round_trip(clf, X, tmp_path):
    """Through release and both kinds of files."""
    published = release(clf)
    same_model(clf, published, X)
    assert published is not clf and published.random_state is None
    for ending in (".json", ".skops"):
        save(clf, tmp_path / f"model{ending}")
        same_model(clf, load(tmp_path / f"model{ending}"), X)
    save(load(tmp_path / "model.json"), tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "model.json").read_bytes()


@heads
@pytest.mark.parametrize("kind", LABELS)
@pytest.mark.parametrize("n_classes", [2, 3])
def test_round_trips(head, blobs, kind, n_classes, tmp_path):
    X, y = blobs
    some = y < min(n_classes, len(LABELS[kind]))
    clf = clone(head).set_params(radius=0.5).fit(X[some], LABELS[kind][y[some]])
    round_trip(clf, X, tmp_path)


PUBLIC = np.random.default_rng(3).standard_normal((3, 5))
PARAMETERS = [
    (BallDPRidgePrototype, {"priors": "empirical"}),
    (BallDPRidgePrototype, {"priors": [0.5, 0.5, 0.0], "prior_scale": 0.3}),
    (BallDPRidgePrototype, {"priors": np.array([0.25, 0.5, 0.25])}),
    (BallDPRidgePrototype, {"calibration": "global", "classes": [0, 1, 2, 3]}),
    (BallDPRidgePrototype, {"public_prototypes": PUBLIC.astype(np.float32)}),
    (BallDPRidgePrototype, {"radius": 0.1, "norm_bound": None, "prior_scale": 1}),
    (BallDPRidgePrototype, {"radius": Radius(0.7, source="policy", epsilon=0.1)}),
    (BallDPRidgePrototype, {"radius": 77, "epsilon": np.float64(2), "noise": "continuous"}),
    (BallDPLogisticRegression, {"public_coef": PUBLIC.tolist(), "public_intercept": [1, 2, 3]}),
    (BallDPLogisticRegression, {"fit_intercept": False, "class_weight": "balanced"}),
    (BallDPLogisticRegression, {"class_weight": {0: 1, 1: 2.5, 2: np.float32(3)}}),
    (BallDPSquaredHingeSVC, {"classes": pd.Series([2, 1, 0, 5]), "sensitivity": "paper"}),
    (BallDPSquaredHingeSVC, {"out_of_bound": "raise", "alpha": 1, "norm_bound": 1.5}),
]


@pytest.mark.parametrize("cls, parameters", PARAMETERS, ids=lambda value: str(value)[:60])
@pytest.mark.filterwarnings("ignore:The behavior of array concatenation:FutureWarning")
def test_parameters_survive(cls, parameters, blobs, tmp_path):
    X, y = blobs
    clf = cls(**parameters).fit(X, y)
    if isinstance(parameters.get("classes"), pd.Series):  # which skops does not know
        save(clf, tmp_path / "model.json")
        loaded = load(tmp_path / "model.json")
        np.testing.assert_array_equal(loaded.predict(X), clf.predict(X))
        return
    round_trip(clf, X, tmp_path)


@heads
def test_feature_names_survive(head, blobs, tmp_path):
    X, y = blobs
    frame = pd.DataFrame(X, columns=list("vwxyz"))
    clf = clone(head).fit(frame, y)
    round_trip(clf, frame, tmp_path)
    save(clf, tmp_path / "model.json")
    assert load(tmp_path / "model.json").feature_names_in_.tolist() == list("vwxyz")


@heads
def test_void_certificates(head, blobs, tmp_path):
    X, y = blobs
    for parameters in (
        {"random_state": 918273645},
        {"random_state": np.random.default_rng(0)},
        {"epsilon": math.inf},
        {"radius": 0},
        {"radius": "q80"},
    ):
        clf = clone(head).set_params(**parameters).fit(X, y)
        for publish in (release, lambda clf: save(clf, tmp_path / "model.json")):
            with pytest.raises(ValueError, match="allow_void=True") as caught:
                publish(clf)
            for reason in clf.certificate_.voided_by:
                assert reason in str(caught.value)
        assert not (tmp_path / "model.json").exists()
        published = release(clf, allow_void=True)
        same_model(clf, published, X)
        assert published.random_state is None and not published.certificate_.holds
        for ending in (".json", ".skops"):
            path = tmp_path / f"void{ending}"
            save(clf, path, allow_void=True)
            assert b"918273645" not in path.read_bytes()
            with pytest.warns(PrivacyWarning):
                same_model(clf, load(path), X)


@heads
def test_only_public_attributes_are_published(head, blobs):
    X, y = blobs
    clf = clone(head).fit(X, y)
    known = set(vars(clf))
    clf.training_data_ = X
    clf._cache = X
    published = release(clf)
    assert set(vars(published)) == known
    for name in known:
        if isinstance(getattr(published, name), np.ndarray):
            assert not np.shares_memory(getattr(published, name), getattr(clf, name))
    same_model(release(published), published, X)


def test_what_cannot_be_published_is_refused(blobs, tmp_path):
    X, y = blobs
    with pytest.raises(NotFittedError):
        release(BallDPRidgePrototype())
    with pytest.raises(NotFittedError):
        save(make_pipeline(Normalizer(), BallDPRidgePrototype()), tmp_path / "model.skops")

    class Other(BallDPRidgePrototype):
        """A subclass may store and predict whatever it likes."""

    for foreign in (LogisticRegression().fit(X, y), Other().fit(X, y), "model", None):
        with pytest.raises(TypeError, match="BallDPRidgePrototype"):
            release(foreign)
    clf = BallDPRidgePrototype().fit(X, y)
    with pytest.raises(ValueError, match=r"\.json or \.skops"):
        save(clf, tmp_path / "model.pkl")
    with pytest.raises(ValueError, match=r"\.json or \.skops"):
        load(tmp_path / "model.joblib")
    with pytest.raises(FileNotFoundError):
        load(tmp_path / "absent.json")


@pytest.mark.parametrize(
    "name, value",
    [
        ("epsilon", 0.5),
        ("delta", 1e-9),
        ("alpha", 1.0),
        ("norm_bound", 5.0),
        ("radius", 0.3),
        ("out_of_bound", "raise"),
        ("noise", "continuous"),
        ("calibration", "global"),
        ("priors", "empirical"),
        ("classes", [0, 1, 7]),
        ("public_prototypes", PUBLIC),
        ("prototypes_", PUBLIC),
        ("noise_scale_", 1.0),
        ("radius_", 0.1),
        ("class_prior_", np.array([1.0, 0.0, 0.0])),
        ("_predictable", np.array([True, True, False])),
        ("n_features_in_", 4),
        ("classes_", np.array([0, 1, 7])),
    ],
)
def test_a_model_that_was_changed_after_fit_is_refused(blobs, name, value):
    clf = BallDPRidgePrototype(0.5).fit(*blobs)
    setattr(clf, name, value)
    if name == "public_prototypes":  # the certificate does not say whether there were some
        assert release(clf).public_prototypes is not value
        return
    with pytest.raises(ValueError, match="changed after fit"):
        release(clf)


@pytest.mark.parametrize(
    "name, value",
    [
        ("fit_intercept", False),
        ("class_weight", {0: 1, 1: 1, 2: 5}),
        ("public_coef", PUBLIC),
        ("sensitivity", "paper"),
        ("coef_", PUBLIC),
        ("intercept_", np.zeros(2)),
    ],
)
def test_a_linear_model_that_was_changed_after_fit_is_refused(blobs, name, value):
    clf = BallDPLogisticRegression(0.5).fit(*blobs)
    setattr(clf, name, value)
    with pytest.raises(ValueError, match="changed after fit"):
        release(clf)


def test_a_certificate_that_contradicts_itself_is_refused(blobs):
    clf = BallDPRidgePrototype(0.5).fit(*blobs)
    object.__setattr__(clf.certificate_, "epsilon", 0.1)
    with pytest.raises(CertificationError, match="contradicts itself"):
        release(clf)


def test_pipelines(blobs, tmp_path):
    X, y = blobs
    head = BallDPLogisticRegression(0.5)
    scaler = FrozenEstimator(StandardScaler().fit(PUBLIC))
    for model in (make_pipeline(Normalizer(), head), make_pipeline(scaler, "passthrough", head)):
        model.fit(X, y)
        published = release(model)
        save(model, tmp_path / "model.skops")
        for same in (published, load(tmp_path / "model.skops")):
            assert same[-1] is not model[-1]
            np.testing.assert_array_equal(same.predict(X), model.predict(X))
        with pytest.raises(ValueError, match="not a Pipeline"):
            save(model, tmp_path / "model.json")
    with pytest.raises(ValueError, match="learns from the data"):
        release(make_pipeline(StandardScaler(), head).fit(X, y))
    with pytest.raises(TypeError, match="BallDPRidgePrototype"):
        release(make_pipeline(Normalizer(), LogisticRegression()).fit(X, y))


def test_the_file_is_standard_json(blobs, tmp_path):
    X, y = blobs
    clf = BallDPRidgePrototype(0.5, priors=[0.5, 0.5, 0.0]).fit(X, y)
    save(clf, str(tmp_path / "model.json"))
    record = json.loads((tmp_path / "model.json").read_text())
    assert record["format"] == "skballdp model" and record["version"] == 1
    assert record["coefficients"]["prototypes_"] == clf.prototypes_.tolist()
    assert record["certificate"] == clf.certificate_.to_dict()
    assert "random_state" not in record["parameters"]


@pytest.mark.parametrize(
    "path, value",
    [
        (["format"], "pickle"),
        (["version"], 2),
        (["estimator"], "LogisticRegression"),
        (["estimator"], "BallDPLogisticRegression"),
        (["estimator"], ["BallDPRidgePrototype"]),
        (["more"], 1),
        (["parameters", "epsilon"], 0.1),
        (["parameters", "random_state"], 0),
        (["parameters", "priors"], [1.0]),
        (["parameters", "priors"], {"code": "print()"}),
        (["parameters", "priors"], {}),
        (["parameters", "priors"], {"array": ["V8", [0]]}),
        (["parameters", "priors"], {"array": ["<f8"]}),
        (["parameters", "priors"], {"array": []}),
        (["parameters", "radius"], "q80"),
        (["parameters", "radius"], {"radius": [0.5, 3, 0.0]}),
        (["parameters"], []),
        (["coefficients"], {}),
        (["coefficients"], None),
        (["coefficients", "prototypes_"], [[0.0]]),
        (["coefficients", "prototypes_", 0, 0], 0.1),  # off the grid
        (["coefficients", "prototypes_", 0, 0], None),
        (["coefficients", "prototypes_", 0, 0], "inf"),
        (["coefficients", "prototypes_", 0], [1.0]),
        (["classes", "array", 1], ["a", "b", "z"]),
        (["classes", "array", 0], "<i8"),
        (["classes"], [0, 1, 2]),
        (["feature_names"], ["a"]),
        (["feature_names"], "abcde"),
        (["certificate", "epsilon"], 0.1),
        (["certificate", "noise_scale"], [1e-9] * 3),
        (["certificate", "radius"], 2.0),
        (["certificate", "n_samples"], 61),
        (["certificate", "estimator"], "BallDPLogisticRegression"),
        (["certificate", "classes"], ["a", "b", 3]),
        (["certificate", "version"], 99),
        (["certificate", "weight_max"], 1.5),
        (["certificate", "public_norm"], 1.5),
        (["certificate", "n_samples"], 10**400),
        (["certificate"], None),
    ],
    ids=str,
)
def test_tampered_files_are_refused(blobs, tmp_path, path, value):
    X, y = blobs
    file = tmp_path / "model.json"
    save(BallDPRidgePrototype(0.5).fit(X, np.array(["a", "b", "c"])[y]), file)
    record = json.loads(file.read_text())
    *parents, last = path
    part = record
    for key in parents:
        part = part[key]
    part[last] = value
    file.write_text(json.dumps(record))
    with pytest.raises(ValueError, match=r".{20}"):
        load(file)


@pytest.mark.parametrize("text", ["", "[]", "3", "{", '{"format": NaN}', "[" * 100_000, "\x00"])
def test_files_that_are_no_models_are_refused(tmp_path, text):
    (tmp_path / "model.json").write_text(text)
    with pytest.raises(ValueError, match=r".{10}"):
        load(tmp_path / "model.json")


@pytest.mark.parametrize("part", [None, "parameters", "certificate", "coefficients"])
def test_files_that_lack_a_field_are_refused(blobs, tmp_path, part):
    """No default takes the place of what is missing."""
    file = tmp_path / "model.json"
    save(BallDPLogisticRegression(0.5).fit(*blobs), file)
    for name in json.loads(file.read_text())[part] if part else json.loads(file.read_text()):
        record = json.loads(file.read_text())
        del (record[part] if part else record)[name]
        other = tmp_path / "other.json"
        other.write_text(json.dumps(record))
        with pytest.raises(ValueError, match=r".{20}"):
            load(other)


def test_equal_values_of_another_type_are_refused(blobs, tmp_path):
    X, y = blobs
    file = tmp_path / "model.json"
    save(BallDPRidgePrototype(0.5, epsilon=math.inf).fit(X[y < 2], y[y < 2]), file, allow_void=True)
    saved = json.loads(file.read_text())
    bools = {"array": ["|b1", [False, True]]}
    for changes, match in (
        ({"classes": bools}, "classes_"),
        # What the standard has no word for.
        ({"parameters": {**saved["parameters"], "epsilon": math.inf}}, "not standard JSON"),
    ):
        file.write_text(json.dumps({**saved, **changes}))
        with pytest.raises(ValueError, match=match):
            load(file)


def test_a_field_that_occurs_twice_is_refused(blobs, tmp_path):
    file = tmp_path / "model.json"
    save(BallDPRidgePrototype(0.5).fit(*blobs), file)
    text = file.read_text().replace('"alpha": 0.01,', '"alpha": 1.0, "alpha": 0.01,', 1)
    file.write_text(text)
    assert text.count('"alpha": 1.0') == 1
    with pytest.raises(ValueError, match="occurs twice"):
        load(file)


@pytest.mark.parametrize(
    "parameters",
    [
        {"radius": "q80"},
        {"radius": Radius(0.5, source='"q80" of the training data')},
        {"radius": 0.0},
        {"epsilon": math.inf},
    ],
    ids=str,
)
def test_a_void_certificate_cannot_be_washed(blobs, tmp_path, parameters):
    """Whatever voids it and is still visible in the parameters."""
    clf = BallDPRidgePrototype(**{"radius": 0.5, **parameters}).fit(*blobs)
    file = tmp_path / "model.json"
    save(clf, file, allow_void=True)
    record = json.loads(file.read_text())
    assert record["certificate"]["voided_by"]
    record["certificate"]["voided_by"] = []
    file.write_text(json.dumps(record))
    with pytest.raises(ValueError, match="voided_by"):
        load(file)
    object.__setattr__(clf.certificate_, "voided_by", ())
    with pytest.raises(ValueError, match="voided_by"):
        release(clf)


def test_skops_files_that_are_no_models_are_refused(blobs, tmp_path):
    io = pytest.importorskip("skops.io")
    file = tmp_path / "model.skops"
    file.write_bytes(b"no archive")
    with pytest.raises(ValueError, match=r"model\.skops is not a model"):
        load(file)
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("a", "b")
    with pytest.raises(ValueError, match=r"model\.skops is not a model"):
        load(file)
    clf = BallDPRidgePrototype(0.5).fit(*blobs)
    changes = {"certificate_": 3, "prototypes_": "x", "priors": print, "epsilon": None}
    for model in ({"a": 1}, LogisticRegression(), BallDPRidgePrototype()):
        io.dump(model, file)
        with pytest.raises(ValueError, match=r".{20}"):
            load(file)
    for name, value in changes.items():
        changed = copy.copy(clf)
        setattr(changed, name, value)
        io.dump(changed, file)
        with pytest.raises(ValueError, match=r".{20}"):
            load(file)


@pytest.mark.parametrize("dtype", [np.float32, np.complex128, object])
def test_coefficients_of_another_type_are_refused(blobs, dtype):
    clf = BallDPRidgePrototype(0.5).fit(*blobs)
    clf.prototypes_ = np.ones((3, 5), dtype=dtype)
    with pytest.raises(ValueError, match="prototypes_"):
        release(clf)


def test_parameters_that_json_cannot_hold(blobs, tmp_path):
    clf = BallDPRidgePrototype(0.5, epsilon=Fraction(1, 2)).fit(*blobs)
    assert release(clf).epsilon == 0.5
    with pytest.raises(TypeError, match="epsilon holds objects that JSON cannot"):
        save(clf, tmp_path / "model.json")
    assert not (tmp_path / "model.json").exists()


def test_without_skops(blobs, tmp_path, monkeypatch):
    clf = BallDPRidgePrototype(0.5).fit(*blobs)
    monkeypatch.setitem(sys.modules, "skops", None)
    monkeypatch.setitem(sys.modules, "skops.io", None)
    for call in (lambda path: save(clf, path), load):
        with pytest.raises(ImportError, match=r"pip install 'skballdp\[skops\]'"):
            call(tmp_path / "model.skops")


class _Records(logging.Handler):
    def __init__(self):
        super().__init__(level=0)
        self.lines = []

    def emit(self, record):
        self.lines.append(record.getMessage())


@contextlib.contextmanager
def everything_that_is_said():
    """Standard output and error, warnings and log records, as one list of strings."""
    said, stream, handler = [], io.StringIO(), _Records()
    root = logging.getLogger()
    level = root.level
    root.addHandler(handler)
    root.setLevel(1)
    try:
        with (
            contextlib.redirect_stdout(stream),
            contextlib.redirect_stderr(stream),
            warnings.catch_warnings(record=True) as caught,
        ):
            warnings.simplefilter("always")
            yield said
    finally:
        root.removeHandler(handler)
        root.setLevel(level)
        said += [stream.getvalue(), *handler.lines, *(str(warning.message) for warning in caught)]


def contains(dump, secrets):
    """Whether a dump holds a number of an array, in either precision and byte order, or printed."""
    for i, secret in enumerate(secrets):
        # Four bytes occur by chance, more so among multiples of a grid: two numbers in a row.
        for dtype, length in (("<f8", 1), (">f8", 1), ("<f4", 2), (">f4", 2)):
            if secrets[i : i + length].astype(dtype).tobytes().ljust(8) in dump:
                return True
        # With trailing zeros: short numbers occur by chance.
        printed = [repr(float(secret)), repr(np.float32(secret).item()), f"{secret:#.8g}"]
        if any(text.encode() in dump for text in printed):
            return True
    return False


@heads
@pytest.mark.parametrize("seed", [None, 918273645])
@pytest.mark.parametrize("n_classes", [2, 3])
def test_no_secret_is_in_any_dump_or_output(head, seed, n_classes, tmp_path):
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((40, 7)), np.arange(40) % n_classes
    clf = clone(head).set_params(radius=0.5, delta=0.1, random_state=seed)
    optimum = clf.exact_optimum(X, y)
    with everything_that_is_said() as said:
        clf.fit(X, y)
    assert any("delta" in line for line in said)  # the capture works
    published = release(clf, allow_void=True)
    save(clf, tmp_path / "model.json", allow_void=True)
    dumps = {"output": "\n".join(said).encode(), "json": (tmp_path / "model.json").read_bytes()}
    for name, model in (("fitted", clf), ("published", published)):
        file = io.BytesIO()
        joblib.dump(model, file)
        dumps[f"joblib {name}"] = file.getvalue()
        dumps[f"pickle {name}"] = pickle.dumps(model) + pickle.dumps(model, protocol=0)
        dumps[f"repr {name}"] = repr(model).encode() + str(vars(model)).encode()
    norms = np.linalg.norm(X, axis=1)
    means = np.concatenate([X[y == c].mean(axis=0) for c in range(n_classes)])
    clipped = (X / norms[:, None]).ravel()
    for name, dump in dumps.items():
        for secrets in (X.ravel(), norms, clipped, means, optimum):
            assert not contains(dump, secrets), name
    assert contains(dumps["pickle fitted"], clf.released_parameters_)  # the search works
    assert contains(dumps["json"], clf.released_parameters_)
    if seed is not None:
        parameter = {"pickle fitted", "joblib fitted", "repr fitted"}
        spelled = (b"918273645", seed.to_bytes(4, "little"), seed.to_bytes(4, "big"))
        for name, dump in dumps.items():
            assert any(text in dump for text in spelled) == (name in parameter), name
        del clf.random_state
        dump = pickle.dumps(clf.__dict__) + str(vars(clf)).encode()
        assert not any(text in dump for text in spelled)


@pytest.mark.parametrize("seed", [None, 918273645])
def test_no_secret_is_in_what_is_built_around_a_head(seed):
    """The auditor and its report, the label transformer, and a Pipeline."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((40, 7)), np.arange(40) % 3
    targets = rng.random(40)
    head = BallDPRidgePrototype(0.5, delta=0.1)
    auditor = MAPReconstructionAuditor(head, n_releases=50, n_fits=2, random_state=seed)
    labels = BlockRRLabelTransformer(
        "rp_with_prior", support=np.linspace(0, 1, 6), random_state=seed
    )
    pipeline = make_pipeline(Normalizer(), clone(head).set_params(random_state=seed))
    with everything_that_is_said() as said:
        auditor.fit(X, y)
        labels.fit(targets)
        labels.transform(targets)
        pipeline.fit(X, y)
        print(auditor.report_, labels.certificate_, auditor.report_.to_json())
    norms = np.linalg.norm(X, axis=1)
    unit = X / norms[:, None]
    means = np.concatenate([rows[y == c].mean(axis=0) for rows in (X, unit) for c in range(3)])
    optimum = np.append(head.exact_optimum(X, y), head.exact_optimum(unit, y))
    dumps = ["\n".join(said).encode()]
    for model in (auditor, labels, pipeline):
        dumps.append(pickle.dumps(model) + pickle.dumps(model, protocol=0))
        dumps.append(repr(model).encode() + str(vars(model)).encode())
    for dump in dumps:
        for secrets in (X.ravel(), norms, unit.ravel(), means, optimum, targets):
            assert not contains(dump, secrets)
    for model in (auditor, labels, pipeline[-1]):
        del model.random_state
        dump = pickle.dumps(model.__dict__) + str(vars(model)).encode()
        for spelled in (b"918273645", (918273645).to_bytes(4, "little")):
            assert spelled not in dump


@heads
def test_one_seed_on_neighbours_exposes_the_difference(head, blobs):
    """Why seeds void the promise: the noise cancels, and the optima differ in full view."""
    X, y = blobs
    neighbour = X.copy()
    neighbour[3] = -X[4]
    clf = clone(head).set_params(radius=2.0, random_state=5)
    first, second = clone(clf).fit(X, y), clone(clf).fit(neighbour, y)
    assert not first.certificate_.holds
    grids = np.asarray(first.certificate_.grid)
    grid = np.repeat(grids, len(first.released_parameters_) // len(grids))
    steps = [np.rint(clf.exact_optimum(rows, y) / grid).astype(np.int64) for rows in (X, neighbour)]
    exposed = (second.released_parameters_ - first.released_parameters_) / grid
    np.testing.assert_array_equal(exposed, steps[1] - steps[0])
    assert np.any(exposed != 0)
    unseeded = [clone(clf).set_params(random_state=None).fit(rows, y) for rows in (X, neighbour)]
    apart = (unseeded[1].released_parameters_ - unseeded[0].released_parameters_) / grid
    assert np.any(apart != steps[1] - steps[0])
