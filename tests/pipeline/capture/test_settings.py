"""Connection settings: Java's names are translated, secrets are never shown, wrong ones get one line."""

from __future__ import annotations

import pickle
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException

from counterpoise.errors import OptionError, SourceError
from counterpoise.pipeline.capture import fetch
from counterpoise.pipeline.capture.cluster import source_error
from counterpoise.pipeline.capture.positions import EARLIEST, LATEST, from_json, parse_positions, resolve, share_out, to_json
from counterpoise.pipeline.capture.settings import Settings, read_properties

AT = {"bootstrap.servers": "a:9092"}
PLAIN = 'org.apache.kafka.common.security.plain.PlainLoginModule required username="jo" password="p\\"w;d";'
KRB5 = 'com.sun.security.auth.module.Krb5LoginModule required keyTab="/etc/me.keytab" principal="me@REALM" useKeyTab=true;'
OIDC = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required clientId='c' clientSecret='s3cret' ;"


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"sasl.jaas.config": PLAIN}, {"sasl.username": "jo", "sasl.password": 'p"w;d'}),
        (
            {"sasl.jaas.config": OIDC},
            {
                "sasl.oauthbearer.method": "oidc",
                "sasl.oauthbearer.client.id": "c",
                "sasl.oauthbearer.client.secret": "s3cret",
            },
        ),
        (
            {"sasl.jaas.config": OIDC.replace(";", 'scope="kafka api" extension_logicalCluster="l-1" extension_poolId=p-2;')},
            {
                "sasl.oauthbearer.method": "oidc",
                "sasl.oauthbearer.client.id": "c",
                "sasl.oauthbearer.client.secret": "s3cret",
                "sasl.oauthbearer.scope": "kafka api",
                "sasl.oauthbearer.extensions": "logicalCluster=l-1,poolId=p-2",
            },
        ),
        (
            {"sasl.jaas.config": KRB5, "sasl.mechanism": "GSSAPI", "sasl.kerberos.service.name": "kafka"},
            {
                "sasl.kerberos.keytab": "/etc/me.keytab",
                "sasl.kerberos.principal": "me@REALM",
                "sasl.mechanism": "GSSAPI",
                "sasl.kerberos.service.name": "kafka",
            },
        ),
        ({"ssl.truststore.location": "ca.pem"}, {"ssl.ca.location": "ca.pem"}),
        ({"ssl.truststore.location": "ca", "ssl.truststore.type": "PEM"}, {"ssl.ca.location": "ca"}),
        ({"ssl.keystore.location": "me.p12"}, {"ssl.keystore.location": "me.p12"}),
        (
            {"ssl.truststore.certificates": "ca", "ssl.keystore.certificate.chain": "cert", "ssl.keystore.key": "key"},
            {"ssl.ca.pem": "ca", "ssl.certificate.pem": "cert", "ssl.key.pem": "key"},
        ),
        (
            {"ssl.keystore.location": "me.pem", "ssl.key.password": "x"},
            {"ssl.certificate.location": "me.pem", "ssl.key.location": "me.pem", "ssl.key.password": "x"},
        ),
        ({"ssl.endpoint.identification.algorithm": ""}, {"ssl.endpoint.identification.algorithm": "none"}),
        ({"key.deserializer": "org.x.Y", "max.poll.records": "5", "client.id": "me"}, {"client.id": "me"}),
    ],
)
def test_java_names_become_those_of_librdkafka(given: dict[str, str], wanted: dict[str, str]) -> None:
    assert dict(Settings({**AT, **given})) == {**AT, **wanted}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, "no bootstrap servers"),
        ({**AT, "ssl.truststore.location": "trust.jks"}, "`keytool -list -rfc -keystore trust.jks > trust.jks.pem`"),
        ({**AT, "ssl.keystore.location": "me.jks"}, "expected PKCS12 or PEM"),
        ({**AT, "sasl.jaas.config": "com.sun.security.auth.module.Krb5LoginModule required;"}, "Java's own"),
        (
            {**AT, "sasl.mechanism": "AWS_MSK_IAM", "sasl.jaas.config": "x awsRoleExternalId=1;"},
            "awsRoleExternalId is not supported",
        ),
        ({**AT, "sasl.jaas.config": "x.ScramLoginModule required password='hunter2';"}, "username and password"),
    ],
)
def test_what_cannot_be_followed_is_one_line(given: dict[str, str], words: str) -> None:
    with pytest.raises(OptionError, match=words) as caught:
        Settings(given)
    assert "hunter2" not in str(caught.value)


@pytest.mark.parametrize(
    ("servers", "jaas", "config"),
    [
        ("b-1.shop.x1.c2.kafka.eu-west-1.amazonaws.com:9098", "", "region=eu-west-1"),
        ("boot-x.c1.kafka-serverless.us-east-1.amazonaws.com:9098", " awsProfileName=ops", "region=us-east-1 profile=ops"),
        ("proxy:9098", ' awsRoleArn="arn:aws:iam::1:role/x"', "role=arn:aws:iam::1:role/x"),
    ],
)
def test_javas_settings_of_amazon_msk_become_tokens_signed_in_python(servers: str, jaas: str, config: str) -> None:
    module = f"software.amazon.msk.auth.iam.IAMLoginModule required{jaas};"
    handler = "software.amazon.msk.auth.iam.IAMClientCallbackHandler"
    given = {"sasl.mechanism": "AWS_MSK_IAM", "sasl.jaas.config": module, "sasl.client.callback.handler.class": handler}
    settings = Settings({"bootstrap.servers": servers, **given})
    assert dict(settings) == {"bootstrap.servers": servers, "sasl.mechanism": "OAUTHBEARER", "sasl.oauthbearer.config": config}
    assert settings.token_function == "counterpoise.pipeline.capture.tokens:msk_token"
    assert servers in settings.redacted(f"{servers} does not answer")


def test_secrets_are_hidden_even_after_pickling() -> None:
    settings = Settings({**AT, "sasl.jaas.config": PLAIN, "ssl.key.password": "keypw"})
    for each in (settings, pickle.loads(pickle.dumps(settings))):
        assert 'p"w;d' not in repr(each)
        assert "keypw" not in repr(each)
        assert each.redacted(f'Invalid value "keypw" or p"w;d in {PLAIN}\nnext') == 'Invalid value "***" or *** in *** next'


@pytest.mark.parametrize(
    "name",
    ["sasl.password", "ssl.keystore.key", "ssl.key.pem", "ssl.keystore.location", "ssl.key.location", "sasl.jaas.config",
     "sasl.oauthbearer.client.secret", "sasl.oauthbearer.config", "ssl.keystore.password", "sasl.oauthbearer.assertion.file"],
)  # fmt: skip
def test_a_secret_of_several_lines_or_in_a_path_is_hidden(name: str) -> None:
    """White space of a message is folded; what is secret is replaced before and after."""
    secret = "x.PlainLoginModule username='jo'\n  password='hunter2  3'" if "jaas" in name else "/home/hunter2\n  key.p12"
    settings = Settings({**AT, name: secret})
    assert "hunter2" not in repr(settings)
    assert settings.redacted(f"cannot read {secret}: no") == "cannot read ***: no"
    assert settings.redacted(f"cannot read {' '.join(secret.split())}: no") == "cannot read ***: no"


def test_a_part_of_a_secret_that_librdkafka_quotes_is_hidden() -> None:
    settings = Settings({**AT, "sasl.oauthbearer.config": "principal=jo token=hunter2 extension_a=b7f3"})
    said = "Unrecognized sasl.oauthbearer.config beginning at: token=hunter2 extension_a=b7f3; hunter2 of jo"
    assert settings.redacted(said) == "Unrecognized sasl.oauthbearer.config beginning at: *** ***; *** of jo"


@pytest.mark.parametrize(
    ("code", "words"),
    [
        (KafkaError._TRANSPORT, "a:9092 does not answer (no way to ***); check the address, the listener and its security"),
        (KafkaError._AUTHENTICATION, "a:9092 refuses the login (no way to ***); check user, password and mechanism"),
        (KafkaError._FAIL, "topics: no way to ***"),
    ],
)
def test_errors_of_librdkafka_are_reported_in_its_words_without_secrets(code: int, words: str) -> None:
    settings = Settings({**AT, "ssl.key.password": "keypw"})
    assert str(source_error(KafkaError(code, "no way to keypw"), "topics", settings)) == words


def test_a_properties_file_is_read_as_java_does(tmp_path: Path) -> None:
    file = tmp_path / "client.properties"
    file.write_text(
        "# security\n! note\n\nsecurity.protocol=SASL_SSL\nsasl.mechanism : PLAIN\nclient.id me\nsasl.username=j\\\n   o\\=1\n"
    )
    assert read_properties(file) == {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "PLAIN",
        "client.id": "me",
        "sasl.username": "jo=1",
    }
    file.write_text("a\\ b\\=c=\\u0070w\\td\\u00e9\\ud83d\\ude00\\\\u0041\nlast=a\u2028b\\")
    assert read_properties(file) == {"a b=c": "pw\td\u00e9\U0001f600\\u0041", "last": "a\u2028b"}
    for wrong in ("\\u00g0", "\\u12", "\\ud800"):
        file.write_text(f"client.id=x\npassword=hunter2{wrong}\n")
        with pytest.raises(OptionError, match=r"client\.properties, line 2: expected four hexadecimal digits") as caught:
            read_properties(file)
        assert "hunter2" not in str(caught.value)
    file.write_bytes(b"\xef\xbb\xbfclient.id=x\n")
    assert read_properties(file) == {"client.id": "x"}
    file.write_bytes(b"client.id=\xff\n")
    with pytest.raises(OptionError, match=r"client\.properties: byte 10 is not UTF-8"):
        read_properties(file)
    file.write_text("client.id=x\nhunter2\n")
    with pytest.raises(OptionError, match=r"client\.properties, line 2: expected NAME=VALUE") as caught:
        read_properties(file)
    assert "hunter2" not in str(caught.value)
    with pytest.raises(OptionError, match="No such file"):
        read_properties(tmp_path / "none")


def test_positions_of_a_partition_without_a_leader_are_an_error_and_not_left_out() -> None:
    """Without it a batch would lack all groups of that partition, and say nothing."""
    partitions = [("t", 0), ("t", 1), ("t", 2)]
    cluster: Any = SimpleNamespace(offsets=lambda asked, which: {one: len(which) for one in asked if one != ("t", 1)})
    for positions in (EARLIEST, LATEST, dict(zip(partitions, (EARLIEST, LATEST, 7), strict=True))):
        with pytest.raises(SourceError, match=r"^t: partition 1 has no leader, so its records cannot be read; try again"):
            resolve(cluster, partitions, positions, "stable", "startingOffsets")
    assert resolve(cluster, partitions, dict.fromkeys(partitions, 7) | {("t", 2): LATEST}, "stable", "endingOffsets") == {
        ("t", 0): 7,
        ("t", 1): 7,
        ("t", 2): 6,
    }


def test_positions_as_json() -> None:
    places = {("t", 0): 23, ("t", 10): 5, ("t", 2): -2}
    assert to_json(places) == {"t": {"0": 23, "2": -2, "10": 5}}
    assert from_json(to_json(places)) == places
    assert parse_positions("startingOffsets", '{"t":{"0":23,"10":5,"2":-2}}') == places
    for option, text in (("startingOffsets", "soon"), ("startingOffsets", '["t"]'), ("endingOffsets", "earliest")):
        with pytest.raises(OptionError, match=option):
            parse_positions(option, text)
    with pytest.raises(OptionError, match="an offset, -1"):
        parse_positions("endingOffsets", '{"t":{"0":-2}}')


@pytest.mark.parametrize("limit", [1, 2, 7, 30, 10_000])
def test_a_limit_is_shared_in_proportion(limit: int) -> None:
    start = {("t", n): 100 * n for n in range(5)}
    end = {("t", n): 100 * n + size for n, size in enumerate((0, 1, 60, 3, 40))}
    shared = share_out(start, end, limit)
    assert sum(shared[p] - start[p] for p in start) == min(limit, 104)
    assert all(start[p] <= shared[p] <= end[p] for p in start)


def test_a_leader_that_goes_away_while_the_ends_of_its_log_are_asked_for_is_one_line() -> None:
    """Offsets are gone, and so is the broker that knows which ones are left."""

    class Gone:
        def get_watermark_offsets(self, *_: object, **__: object) -> tuple[int, int]:
            raise KafkaException(KafkaError(KafkaError._ALL_BROKERS_DOWN))

    class Event:
        def error(self) -> KafkaError:
            return KafkaError(KafkaError._AUTO_OFFSET_RESET)

    with pytest.raises(SourceError, match="nowhere:9092"):
        fetch._at_end(Gone(), [Event()], ("t", 0), 9, Settings({"bootstrap.servers": "nowhere:9092"}), lenient=True)
