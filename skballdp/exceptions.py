"""Warnings and errors that are particular to privacy."""

__all__ = ["CertificationError", "PrivacyWarning"]


class PrivacyWarning(UserWarning):
    """Something that is allowed weakens the privacy promise.

    Raised, for example, for seeded noise, for a radius read off the training data, and for
    ``delta >= 1 / n``. The certificate of the fitted model says the same in its
    ``voided_by`` or ``caveats``.

    Examples
    --------
    >>> import warnings
    >>> from skballdp import PrivacyWarning
    >>> warnings.simplefilter("error", PrivacyWarning)  # refuse instead of warning
    >>> warnings.simplefilter("default", PrivacyWarning)
    """


class CertificationError(ValueError):
    """The promise that was asked for cannot be certified in floating point.

    It is decided from public numbers (shape, class counts, parameters) before the data are
    read, never from the values in ``X``: an error that depends on them would itself be a
    release.

    Examples
    --------
    >>> from skballdp import CertificationError
    >>> issubclass(CertificationError, ValueError)
    True
    """
