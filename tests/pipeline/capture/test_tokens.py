"""Tokens for OAUTHBEARER: a function that the user names, its errors, and the signature for Amazon MSK."""

from __future__ import annotations

import base64
import re
import sys
import time
from pathlib import Path
from urllib.parse import parse_qs, urlparse

import pytest
from confluent_kafka.admin import AdminClient

from counterpoise.errors import CounterpoiseError, MissingExtraError, OptionError, SourceError
from counterpoise.extras import pip_install
from counterpoise.pipeline.capture.cluster import connect
from counterpoise.pipeline.capture.settings import Settings
from counterpoise.pipeline.capture.tokens import msk_token, token_callback

MODULE = """
import time
calls = []
def token(config):
    calls.append(config)
    return f"t{len(calls)}", time.time() + 300
def failing(config):
    raise RuntimeError(f"no answer for hunter2\\n{config}")
def text(config):
    return "a token"
def early(config):
    return "t", "soon"
"""


@pytest.fixture(autouse=True)
def _module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "given_tokens.py").write_text(MODULE)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "given_tokens", raising=False)


def settings(function: str, **more: str) -> Settings:
    return Settings({"bootstrap.servers": "a:9092", "counterpoise.token.function": function, **more})


def test_the_first_token_is_that_of_the_check_and_each_later_call_gets_a_new_one() -> None:
    given = settings("given_tokens:token", **{"sasl.oauthbearer.config": "scope=x"})
    assert "counterpoise.token.function" not in dict(given)
    call = token_callback(given)
    assert call is not None
    assert [call("")[0], call("")[0]] == ["t1", "t2"]
    assert __import__("given_tokens").calls == ["scope=x", "scope=x"]
    assert token_callback(Settings({"bootstrap.servers": "a:9092"})) is None


@pytest.mark.parametrize(
    ("function", "kind", "words"),
    [
        ("no_such:token", OptionError, "No module named 'no_such'; give module:function of a module on PYTHONPATH"),
        ("given_tokens:none", OptionError, "has no attribute 'none'"),
        ("given_tokens", OptionError, "give module:function"),
        (":token", OptionError, "give module:function"),
        (
            "given_tokens:failing",
            SourceError,
            "given_tokens:failing returns no token: RuntimeError: no answer for *** secret=***",
        ),
        ("given_tokens:text", SourceError, "expected a tuple of a text and the seconds since 1970 when it expires"),
        ("given_tokens:early", SourceError, "expected a tuple of a text and the seconds since 1970"),
    ],
)
def test_a_function_that_returns_no_token_is_one_line(function: str, kind: type[CounterpoiseError], words: str) -> None:
    given = settings(function, **{"sasl.password": "hunter2", "sasl.oauthbearer.config": "secret=abc"})
    with pytest.raises(kind) as raised:
        connect(AdminClient, given, {})
    assert words.replace(" secret=***", "") in str(raised.value)
    assert "hunter2" not in str(raised.value)
    assert "abc" not in str(raised.value)
    assert "\n" not in str(raised.value)


def test_a_token_for_msk_is_signed_for_the_region_and_expires(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in {"AWS_ACCESS_KEY_ID": "AKIA", "AWS_SECRET_ACCESS_KEY": "hunter2", "AWS_REGION": "eu-north-1"}.items():
        monkeypatch.setenv(name, value)
    for config, region in (("", "eu-north-1"), ("region=eu-west-1", "eu-west-1")):
        token, expires = msk_token(config)
        url = urlparse(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode())
        assert (url.hostname, parse_qs(url.query)["Action"]) == (f"kafka.{region}.amazonaws.com", ["kafka-cluster:Connect"])
        assert parse_qs(url.query)["X-Amz-Credential"][0].startswith("AKIA/")
        assert 600 < expires - time.time() < 1000
    assert "hunter2" not in token


def test_a_profile_is_used_and_an_unknown_region_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "credentials").write_text("[ops]\naws_access_key_id=OPSKEY\naws_secret_access_key=x\n")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name, raising=False)
    token, _ = msk_token("region=eu-west-1 profile=ops")
    assert "OPSKEY" in base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)).decode()
    with pytest.raises(OptionError, match="the region is unknown; set AWS_REGION"):
        msk_token("")


def test_without_the_signer_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "aws_msk_iam_sasl_signer", None)
    given = Settings({"bootstrap.servers": "a:9092", "sasl.mechanism": "AWS_MSK_IAM"})
    with pytest.raises(MissingExtraError, match=re.escape(pip_install("msk"))):
        connect(AdminClient, given, {})


def test_kerberos_without_libsasl2_says_how_to_get_it() -> None:
    given = Settings({"bootstrap.servers": "a:9092", "security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "GSSAPI"})
    with pytest.raises(SourceError, match="from a wheel has no Kerberos: build librdkafka with libsasl2"):
        connect(AdminClient, given, {})
