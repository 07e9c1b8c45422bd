"""Connection settings: Java's names and librdkafka's, from options or a properties file, with secrets that are never shown.

Users have the settings of Kafka's own tools (`--command-config`, Spark's ``kafka.*``). Names that differ in librdkafka are
translated; for settings that it does not support (a JKS store) the error says what to do.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from counterpoise.errors import OptionError
from counterpoise.snapshot.json_text import text_of

__all__ = ["Settings", "read_properties"]

_SECRET = re.compile(
    r"password|secret|token|jaas|\.pem$|passphrase|oauthbearer\.config|assertion|keystore\.key$|key(store)?\.location",
    re.IGNORECASE,
)
_RENAMED = {
    "ssl.truststore.certificates": "ssl.ca.pem",
    "ssl.keystore.certificate.chain": "ssl.certificate.pem",
    "ssl.keystore.key": "ssl.key.pem",
}
"""Java's names of settings whose values librdkafka takes as they are."""
_JAAS = re.compile(
    r"\b(username|password|clientId|clientSecret|scope|extension_\w+|keyTab|principal|awsProfileName|awsRoleArn)\s*="
    r"\s*(?:\"((?:[^\"\\]|\\.)*)\"|'([^']*)'|([^\s;]+))"
)
_JAVA_ONLY = re.compile(
    r"^((key|value)\.(de)?serializer|max\.poll\.records|request\.timeout\.ms|default\.api\.timeout\.ms|acks|retries|linger\.ms"
    r"|ssl\.truststore\.(type|password)|ssl\.keystore\.type|ssl\.protocol|ssl\.enabled\.protocols"
    r"|sasl\.(login|client)\.callback\.handler\.class|bootstrap\.controllers|interceptor\.classes|exclude\.internal\.topics)$"
)
"""Settings of Java clients without an equivalent in a librdkafka consumer."""
_TOKEN, _TOKEN_CONFIG = "counterpoise.token.function", "sasl.oauthbearer.config"
_NO_SECRET = ("principal=", "region=", "profile=", "role=")
"""Words of the token's settings that messages may show."""
_AWS = ("awsProfileName", "awsRoleArn", "awsDebugCreds")
_REGION = re.compile(r"\.kafka(?:-serverless)?\.([a-z0-9-]+)\.amazonaws\.com")
_ESCAPE = re.compile(r"\\(?:u[0-9a-fA-F]{4}|.)")


class Settings(Mapping[str, str]):
    """librdkafka settings of one cluster; printing them, or an error about them, shows no secret.

    `token_function` is the ``module:function`` that returns tokens, if there is one; librdkafka has no such setting.

    `given` has Java's or librdkafka's names. Raises `OptionError` if it lacks ``bootstrap.servers``, has a setting that
    librdkafka does not support, or an unknown isolation level.
    """

    def __init__(self, given: Mapping[str, str]) -> None:
        self._values = _translated(given)
        self.token_function = self._values.pop(_TOKEN, None)
        secrets = {str(v) for k, v in (*given.items(), *self._values.items()) if _SECRET.search(k) and str(v).strip()}
        words = self._values.get(_TOKEN_CONFIG, "").split()  # librdkafka quotes parts of it
        secrets |= {*words, *(word.partition("=")[2] for word in words if not word.startswith(_NO_SECRET))} - {""}
        self._secrets = tuple(sorted(secrets | {" ".join(secret.split()) for secret in secrets}, key=len, reverse=True))
        if not self._values.get("bootstrap.servers"):
            raise OptionError("no bootstrap servers: give --bootstrap-server HOST:PORT, or the option kafka.bootstrap.servers")
        if self._values.get("isolation.level", "read_committed") not in ("read_committed", "read_uncommitted"):
            raise OptionError("isolation.level: expected read_committed or read_uncommitted")

    def __getitem__(self, name: str) -> str:
        return self._values[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)

    def __repr__(self) -> str:
        shown = {k: "***" if _SECRET.search(k) else self.redacted(v) for k, v in sorted(self._values.items())}
        return f"Settings({shown})"

    def redacted(self, text: object) -> str:
        """`text` in one line, with every secret replaced by ``***``."""
        shown = str(text)
        for secret in self._secrets:
            shown = shown.replace(secret, "***")
        return " ".join(shown.split())


def read_properties(file: Path) -> dict[str, str]:
    """The settings in a Java properties file, as for ``--command-config`` of Kafka's tools.

    Raises `OptionError` if the file cannot be read, or a line is no setting; the message has the line's number, not its content.
    """
    text = text_of(file.read_bytes, file, OptionError)
    properties: dict[str, str] = {}
    pending, began = "", 0
    for number, line in enumerate(re.split(r"\r\n?|\n", f"{text}\n"), 1):
        if not pending:
            began = number
            if line.lstrip()[:1] in ("", "#", "!"):
                continue
        pending += line.lstrip()
        if (len(pending) - len(pending.rstrip("\\"))) % 2:
            pending = pending[:-1]
            continue
        matched = re.fullmatch(r"((?:[^=:\s\\]|\\.)+)\s*[=:\s]\s*(.*)", pending)
        if matched is None:
            raise OptionError(f"{file}, line {began}: expected NAME=VALUE")
        try:
            name, value = (_ESCAPE.sub(_unescaped, part).encode("utf-16", "surrogatepass") for part in matched.groups())
            properties[name.decode("utf-16")] = value.decode("utf-16")
        except ValueError:
            raise OptionError(f"{file}, line {began}: expected four hexadecimal digits of a character after \\u") from None
        pending = ""
    return properties


def _unescaped(escape: re.Match[str]) -> str:
    """The character that Java reads for an escape sequence."""
    char, digits = escape[0][1], escape[0][2:]
    return chr(int(digits, 16)) if char == "u" else {"t": "\t", "n": "\n", "r": "\r", "f": "\f"}.get(char, char)


def _translated(given: Mapping[str, str]) -> dict[str, str]:
    values = {_RENAMED.get(name, name): str(value) for name, value in given.items() if not _JAVA_ONLY.match(name)}
    jaas = values.pop("sasl.jaas.config", None)
    if values.get("sasl.mechanism", values.get("sasl.mechanisms")) == "AWS_MSK_IAM":
        values |= _for_msk(values, jaas or "")
    elif jaas is not None:
        values.update(_from_jaas(jaas))
    if values.get("ssl.endpoint.identification.algorithm") == "":
        values["ssl.endpoint.identification.algorithm"] = "none"
    if (trusted := values.pop("ssl.truststore.location", None)) is not None:
        values["ssl.ca.location"] = _pem(trusted, given.get("ssl.truststore.type", ""))
    _keystore(values, given.get("ssl.keystore.type", ""))
    return values


def _for_msk(values: dict[str, str], jaas: str) -> dict[str, str]:
    """OAUTHBEARER with tokens of `tokens.msk_token`, for the settings of Amazon's library for Java."""
    values.pop("sasl.mechanisms", None)
    if unknown := [name for name in re.findall(r"\b(aws\w+)\s*=", jaas) if name not in _AWS]:
        raise OptionError(
            f"sasl.jaas.config: {', '.join(unknown)} is not supported; of Amazon's options, {' and '.join(_AWS[:2])} are"
        )
    options, region = _options(jaas), _REGION.search(values.get("bootstrap.servers", ""))
    words = {"region": region and region[1], "profile": options.get("awsProfileName"), "role": options.get("awsRoleArn")}
    config = " ".join(f"{name}={value}" for name, value in words.items() if value)
    function = "counterpoise.pipeline.capture.tokens:msk_token"
    return {"sasl.mechanism": "OAUTHBEARER", _TOKEN: function, _TOKEN_CONFIG: config}


def _options(jaas: str) -> dict[str, str]:
    return {m[1]: re.sub(r"\\(.)", r"\1", m[2]) if m[2] is not None else m[3] or m[4] or "" for m in _JAAS.finditer(jaas)}


def _from_jaas(jaas: str) -> dict[str, str]:
    options = _options(jaas)
    if "PlainLoginModule" in jaas or "ScramLoginModule" in jaas:
        if {"username", "password"} <= set(options):
            return {"sasl.username": options["username"], "sasl.password": options["password"]}
        raise OptionError("sasl.jaas.config: expected username and password")
    if "OAuthBearerLoginModule" in jaas and {"clientId", "clientSecret"} <= set(options):
        extensions = {name.removeprefix("extension_"): value for name, value in options.items() if name.startswith("extension_")}
        more = ",".join(f"{name}={value}" for name, value in extensions.items())
        given = {"method": "oidc", "client.id": options["clientId"], "client.secret": options["clientSecret"]}
        given |= {"scope": options.get("scope", ""), "extensions": more}
        return {f"sasl.oauthbearer.{name}": value for name, value in given.items() if value}
    if "Krb5LoginModule" in jaas and {"keyTab", "principal"} <= set(options):
        return {"sasl.kerberos.keytab": options["keyTab"], "sasl.kerberos.principal": options["principal"]}
    raise OptionError(
        "sasl.jaas.config: this login module is Java's own; PLAIN, SCRAM, OAUTHBEARER by client id, AWS_MSK_IAM, and Kerberos by "
        "keyTab and principal are understood; for other tokens give counterpoise.token.function=module:function"
    )


def _pem(file: str, kind: str) -> str:
    if kind.upper() != "PEM" and not file.lower().endswith((".pem", ".crt", ".cer")):
        raise OptionError(
            f"ssl.truststore.location: a Java key store cannot be read here; export it with `keytool -list -rfc -keystore {file} "
            f"> {file}.pem`, and give ssl.ca.location={file}.pem instead"
        )
    return file


def _keystore(values: dict[str, str], kind: str) -> None:
    if (file := values.get("ssl.keystore.location")) is None:
        return
    if kind.upper() == "PEM" or file.lower().endswith(".pem"):
        del values["ssl.keystore.location"]
        values["ssl.certificate.location"] = values["ssl.key.location"] = file
        values.pop("ssl.keystore.password", None)
    elif not (kind.upper() == "PKCS12" or file.lower().endswith((".p12", ".pfx"))):
        raise OptionError(
            "ssl.keystore.location: expected PKCS12 or PEM; convert the file with `keytool -importkeystore -srckeystore FILE "
            "-destkeystore FILE.p12 -deststoretype pkcs12`, and give FILE.p12 as ssl.keystore.location"
        )
