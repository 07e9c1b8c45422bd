"""Tokens for SASL/OAUTHBEARER: from a Python function that the user names, or signed for Amazon MSK."""

from __future__ import annotations

import os
from collections.abc import Callable
from importlib import import_module
from typing import Any, TypeAlias

from counterpoise.errors import CounterpoiseError, MissingExtraError, OptionError, SourceError
from counterpoise.extras import pip_install
from counterpoise.pipeline.capture.settings import Settings

__all__ = ["Token", "msk_token", "token_callback"]

Token: TypeAlias = tuple[Any, ...]
"""The token, the seconds since 1970 when it expires, and optionally a principal and SASL extensions (see confluent-kafka)."""


def token_callback(settings: Settings) -> Callable[[str], Token] | None:
    """The token function of the settings, for librdkafka, which calls it again before a token expires; None: there is none.

    It is called once here, so that its error is shown. Raises `OptionError` if there is no such function, and `SourceError` if
    it returns no token.
    """
    name = settings.token_function
    if name is None:
        return None
    module, _, attribute = name.partition(":")
    try:
        function: Callable[[str], Any] = getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise OptionError(f"counterpoise.token.function: {error}; give module:function of a module on PYTHONPATH") from None
    config = settings.get("sasl.oauthbearer.config", "")
    try:
        first = [function(config)]
    except CounterpoiseError:
        raise
    except Exception as error:  # noqa: BLE001 - whatever the function raises
        raise SourceError(f"{name} returns no token: {type(error).__name__}: {settings.redacted(error)}") from None
    if not isinstance(first[0], tuple) or [*map(type, first[0][:2])] not in ([str, int], [str, float]):
        raise SourceError(f"{name} returns no token: expected a tuple of a text and the seconds since 1970 when it expires")
    return lambda _: first.pop() if first else function(config)


def msk_token(config: str) -> Token:
    """A token for Amazon MSK with IAM; `config` may have a ``region``, and a ``profile`` or ``role`` for the credentials."""
    try:
        from aws_msk_iam_sasl_signer import MSKAuthTokenProvider as Signer
    except ImportError:
        raise MissingExtraError(f"AWS_MSK_IAM needs aws-msk-iam-sasl-signer-python: {pip_install('msk')}") from None
    given = dict(word.partition("=")[::2] for word in config.split())
    region = given.get("region") or os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if not region:
        raise OptionError("AWS_MSK_IAM: the region is unknown; set AWS_REGION")
    if "role" in given:
        token, expires = Signer.generate_auth_token_from_role_arn(region, given["role"])
    elif "profile" in given:
        token, expires = Signer.generate_auth_token_from_profile(region, given["profile"])
    else:
        token, expires = Signer.generate_auth_token(region)
    return token, expires / 1000
