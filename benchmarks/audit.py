"""The MAP attack on every data set: certificate, no noise, and a radius far below the noise.

A fifth of the training records is public; the radius is the 0.8 quantile of its same-label
distances; epsilon 2, delta 1e-6, 10 candidates, 4 supports. The last two columns are checks of the
instrument: without noise every target must be found (up to ties), and with a radius far below the
noise nobody (0.1).
"""

import numpy as np
from sklearn.model_selection import train_test_split

from benchmarks.datasets import load_all
from skballdp import BallDPRidgePrototype, MAPReconstructionAuditor, radius_quantiles


def main(folder: str | None) -> None:
    print(f"{'':22s}  radius    rate (95 % interval)   best  support  certificate  verdict", end="")
    print("   eps=inf  tiny radius")
    for name, data in load_all(folder).items():
        X, X_public, y, y_public = train_test_split(
            data.X_train.astype(np.float64),
            data.y_train,
            test_size=0.2,
            random_state=0,
            stratify=data.y_train,
        )
        radius = radius_quantiles(X_public, y_public, 0.8, norm_bound=1.0)

        def audit(
            X=X,
            y=y,
            X_public=X_public,
            y_public=y_public,
            *,
            pool=True,
            releases=100_000,
            **parameters,
        ):
            auditor = MAPReconstructionAuditor(
                BallDPRidgePrototype(**{"epsilon": 2.0, **parameters}),
                n_releases=releases,
                random_state=0,
            )
            return auditor.fit(X, y, *((X_public, y_public) if pool else ())).report_

        report = audit(radius=radius)
        silent = audit(radius=radius, epsilon=np.inf, releases=1000)
        blind = audit(radius=1e-4 * radius, epsilon=0.0, pool=False, releases=10_000)
        low, high = report.exact_id_interval
        support = np.mean([part.support_bound for part in report.supports])
        print(
            f"{name:22s}  {radius:6.4f}  {report.exact_id_rate:.4f} ({low:.4f}-{high:.4f})  "
            f"{report.bayes_success:.4f}  {support:7.4f}  {report.exact_id_bound:11.4f}  "
            f"{'passed' if report.passed else 'FAILED':7s}  {silent.exact_id_rate:8.4f}  "
            f"{blind.exact_id_rate:11.4f}"
        )
