"""A broker with ACLs and logins: what is missing is named, what is named is enough, and no secret of a login is anywhere."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import admin as _admin

from counterpoise.pipeline.capture.cluster import OFFSETS_TOPIC
from tests.cli.commands import command as run_command
from tests.cli.commands import family, started, wait
from tests.java import java_home
from tests.kafka_broker import Broker
from tests.pipeline.capture.test_capture import command, recorded
from tests.pipeline.capture.traffic import commit
from tests.pipeline.conftest import rows_of
from tests.pipeline.source.test_scope import every_byte

pytestmark = pytest.mark.kafka
PASSWORD = "not-to-be-shown"
admin: Any = _admin  # its stubs lack the names of ACLs
KINDS = {"topic": admin.ResourceType.TOPIC, "group": admin.ResourceType.GROUP}


SUPER = "User:ANONYMOUS"


ANYTHING = (admin.AclOperation.ANY, admin.AclPermissionType.ANY)
EVERY = admin.AclBindingFilter(admin.ResourceType.ANY, None, admin.ResourcePatternType.ANY, None, None, *ANYTHING)


class Guarded(Broker):
    """A broker with an authorizer: its own listener may do everything, `auditor` on another one nothing until it is allowed."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, Path(java_home()) / "bin" / "java")
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            self.users = f"127.0.0.1:{taken.getsockname()[1]}"
        file = folder / "server.properties"
        text = re.sub(r"^((?:advertised\.)?listeners=\S+)", rf"\1,USERS://{self.users}", file.read_text(), flags=re.MULTILINE)
        text = text.replace("PLAINTEXT:PLAINTEXT", "PLAINTEXT:PLAINTEXT,USERS:SASL_PLAINTEXT")
        plain = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_auditor="{PASSWORD}";'
        file.write_text(
            f"{text}\nauthorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer\nsuper.users={SUPER}\n"
            "broker.rack=room-1\n"
            # Tokens without a signature: what Kafka has for tests.
            "listener.name.users.oauthbearer.sasl.jaas.config="
            "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule "
            'required unsecuredLoginStringClaim_sub="broker";\n'
            f"listener.name.users.sasl.enabled.mechanisms=PLAIN,OAUTHBEARER\nlistener.name.users.plain.sasl.jaas.config={plain}\n"
        )
        self.config = folder / "client.properties"
        self.secured = _secured(folder, file)
        login = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="auditor" password="{PASSWORD}";'
        self.config.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={login}\n")

    def log_in(self, out: Path, properties: str, trusted: str | None = None) -> subprocess.CompletedProcess[str]:
        """`counterpoise capture` over TLS, with these properties; `args` is what the list of processes shows of it."""
        config = out.with_suffix(".properties")
        config.write_text(
            f"security.protocol=SASL_SSL\nssl.truststore.location={trusted or f'{self.folder}/ca.pem'}\n{properties}"
        )
        given = command(self, out, "--command-config", str(config))
        given[given.index(self.bootstrap)] = self.secured
        with subprocess.Popen(given, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
            seen = [Path(f"/proc/{process.pid}/{name}").read_text(errors="replace") for name in ("cmdline", "environ")]
            shown, errors = process.communicate(timeout=180)
        return subprocess.CompletedProcess(seen, process.returncode, shown, errors)

    def capture(self, out: Path, *more: str) -> subprocess.CompletedProcess[str]:
        """`counterpoise capture` as `auditor`."""
        given = command(self, out, "--command-config", str(self.config), *more)
        given[given.index(self.bootstrap)] = self.users
        return subprocess.run(given, capture_output=True, text=True, check=False, timeout=180)

    def forbid(self) -> None:
        """Take all rights from `auditor`."""
        mine = self.admin()
        mine.delete_acls([EVERY])[EVERY].result(30)
        deadline = time.monotonic() + 60
        while mine.describe_acls(EVERY).result(30):
            assert time.monotonic() < deadline
            time.sleep(0.2)

    def allow(self, message: str) -> None:
        """Do what a message says: the operations and resources behind ``kafka-acls --add``."""
        words = message.partition("kafka-acls --add ")[2].partition(")")[0].split()
        options = list(zip(words[::2], (word.strip("'") for word in words[1::2]), strict=True))
        operations = [admin.AclOperation[value.upper()] for name, value in options if name == "--operation"]
        wanted = [(KINDS[name[2:]], value) for name, value in options if name[2:] in KINDS]
        assert operations
        assert wanted
        literal, allow = admin.ResourcePatternType.LITERAL, admin.AclPermissionType.ALLOW
        acls = [
            admin.AclBinding(kind, of, literal, "User:auditor", "*", what, allow) for kind, of in wanted for what in operations
        ]
        mine = self.admin()
        for future in mine.create_acls(acls).values():
            future.result(30)
        deadline = time.monotonic() + 60
        while not {str(acl) for acl in acls} <= {str(acl) for acl in mine.describe_acls(EVERY).result(30)}:
            assert time.monotonic() < deadline
            time.sleep(0.2)


def _secured(folder: Path, file: Path) -> str:
    """Add a listener with TLS that takes SCRAM-SHA-512, and asks for a certificate that only `ssl.keystore` has; its address."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        address = f"127.0.0.1:{taken.getsockname()[1]}"
    store = ["-keystore", str(folder / "node.p12"), "-storetype", "PKCS12", "-storepass", PASSWORD, "-alias", "node"]
    names = ["-dname", "CN=node", "-ext", "SAN=ip:127.0.0.1", "-keyalg", "EC", "-validity", "2"]
    for words in (
        ["-genkeypair", *store, *names],
        ["-exportcert", "-rfc", *store, "-file", str(folder / "ca.pem")],
    ):
        subprocess.run([str(Path(java_home()) / "bin" / "keytool"), *words], check=True, capture_output=True)
    text = re.sub(r"^((?:advertised\.)?listeners=\S+)", rf"\1,SECURED://{address}", file.read_text(), flags=re.MULTILINE)
    text = text.replace("USERS:SASL_PLAINTEXT", "USERS:SASL_PLAINTEXT,SECURED:SASL_SSL")
    scram = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
    prefix = "listener.name.secured"
    file.write_text(
        f"{text}\n{prefix}.sasl.enabled.mechanisms=SCRAM-SHA-512\n{prefix}.scram-sha-512.sasl.jaas.config={scram}\n"
        f"{prefix}.ssl.keystore.location={folder / 'node.p12'}\n{prefix}.ssl.keystore.type=PKCS12\n"
        f"{prefix}.ssl.keystore.password={PASSWORD}\n{prefix}.ssl.key.password={PASSWORD}\n"
        f"{prefix}.ssl.truststore.location={folder / 'ca.pem'}\n{prefix}.ssl.truststore.type=PEM\n"
        f"{prefix}.ssl.client.auth=required\n"
    )
    return address


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """The broker, with a commit on it."""
    node = Guarded(tmp_path_factory.mktemp("guarded"))
    try:
        node.start()
        node.create_topic("kept")
        commit(node, "keeper", "kept", [1, 2])
        scram = admin.ScramCredentialInfo(admin.ScramMechanism.SCRAM_SHA_512, 4096)
        upsert = admin.UserScramCredentialUpsertion("auditor", scram, PASSWORD.encode())
        mine = node.admin()
        mine.alter_user_scram_credentials([upsert])["auditor"].result(30)
        yield node
    finally:
        node.stop()


def test_what_is_missing_is_named_and_what_is_named_is_enough(guarded: Guarded, tmp_path: Path) -> None:
    """First nothing may be read: one line with the ACLs and with --poll. Polls see no group without theirs. Then both work."""
    refused = guarded.capture(tmp_path / "topic")
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    assert f"{OFFSETS_TOPIC}: not allowed" in refused.stderr
    assert "can be recorded with --poll" in refused.stderr
    blind = guarded.capture(tmp_path / "polls", "--poll")
    assert (blind.returncode, blind.stderr.count("\n")) == (2, 1)
    assert "shows no group" in blind.stderr
    assert PASSWORD not in refused.stderr + blind.stderr
    guarded.allow(refused.stderr)
    done = guarded.capture(tmp_path / "topic", "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["records"] == len(recorded(tmp_path / "topic")) > 0
    assert json.loads((tmp_path / "topic" / "topics.json").read_text()).keys() == {OFFSETS_TOPIC}
    guarded.allow(blind.stderr)
    polled = guarded.capture(tmp_path / "polls", "--poll", "--json")
    assert polled.returncode == 0, polled.stderr
    assert json.loads(polled.stdout)["groups"] == 1
    assert len(recorded(tmp_path / "polls")) == 1
    kept = json.loads((tmp_path / "polls" / "topics.json").read_text())["kept"]
    assert (kept["partitions"], kept["internal"], kept["racks"]) == (1, False, [["room-1"]])


def test_doctor_names_what_is_missing_and_what_is_named_is_enough(guarded: Guarded) -> None:
    def doctor() -> tuple[int, dict[str, dict[str, Any]], str]:
        done = run_command("doctor", "--json", "--bootstrap-server", guarded.users, "--command-config", str(guarded.config))
        return done.returncode, {one["what"]: one for one in map(json.loads, done.stdout.splitlines())}, done.stdout + done.stderr

    guarded.forbid()
    code, checks, shown = doctor()
    assert (code, checks["cluster"]["ok"], checks[OFFSETS_TOPIC]["ok"], checks["topics"]["ok"]) == (1, True, False, None)
    guarded.allow(checks[OFFSETS_TOPIC]["found"])
    guarded.allow(f"{checks['topics']['to_do'].replace('NAME', 'auditor')})")
    code, checks, again = doctor()
    assert [checks[name]["ok"] for name in ("cluster", OFFSETS_TOPIC, "topics")] == [True] * 3, again
    assert (checks[OFFSETS_TOPIC]["found"], checks["topics"]["found"]) == ("can be read", "1 can be described")
    assert PASSWORD not in shown + again


def test_a_login_by_scram_and_certificate_over_tls_works_and_leaves_no_secret(guarded: Guarded, tmp_path: Path) -> None:
    """A wrong password, no certificate, a key that is not there and one that is none: one line each, without a secret.

    The secrets are looked for in what is printed, in every byte written, and in the words and environment of the processes.
    """
    guarded.allow(f"kafka-acls --add --operation Read --operation Describe --topic {OFFSETS_TOPIC})")
    key = f"{guarded.folder}/node.p12"
    login = f'required username="auditor" password="{PASSWORD}";'
    scram = f"sasl.mechanism=SCRAM-SHA-512\nsasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule {login}\n"
    store = f"ssl.keystore.location={key}\nssl.keystore.type=PKCS12\nssl.keystore.password={PASSWORD}\n"
    done = guarded.log_in(tmp_path / "fine", scram + store)
    assert (done.returncode, len(recorded(tmp_path / "fine")) > 0) == (0, True), done.stderr
    wrong = [
        (scram.replace(PASSWORD, f"{PASSWORD}-") + store, "refuses the login"),
        (scram, "SSL alert number 42"),
        (scram.replace("SCRAM-SHA-512", "PLAIN").replace("Scram", "Plain") + store, "refuses the login"),
        (scram + store.replace("node.p12", "none.p12"), "the connection settings do not work"),
        (scram + store + f"ssl.key.pem={PASSWORD}\n", "the connection settings do not work"),
    ]
    with ThreadPoolExecutor(2) as pool:
        refused = list(pool.map(guarded.log_in, [tmp_path / f"{at}" for at in range(len(wrong))], [given for given, _ in wrong]))
    for each, (_, message) in zip(refused, wrong, strict=True):
        assert (each.returncode, each.stderr.count("\n"), message in each.stderr) == (2, 1, True), each.stderr
    shown = "".join(each.stdout + each.stderr + "".join(each.args) for each in (done, *refused))
    written = b"".join(path.read_bytes() for path in tmp_path.rglob("*") if path.is_file() and path.suffix != ".properties")
    for secret in (PASSWORD, key, key.replace("node", "none"), login):
        assert secret not in shown
        assert secret.encode() not in written


TOKENS = """
import base64, json, time
def token(config):
    now = time.time()
    claims = {"sub": config, "iat": now - 5, "exp": now + 300}
    parts = (base64.urlsafe_b64encode(json.dumps(one).encode()).decode().rstrip("=") for one in ({"alg": "none"}, claims))
    return ".".join([*parts, ""]), now + 300
"""


def test_a_login_with_tokens_of_a_function_works_and_a_refused_one_is_one_line(
    guarded: Guarded, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second file has Java's settings of Amazon MSK: this broker does not know such tokens."""
    guarded.allow(f"kafka-acls --add --operation Read --operation Describe --topic {OFFSETS_TOPIC})")
    (tmp_path / "tokens_here.py").write_text(TOKENS)
    for name, value in {"PYTHONPATH": str(tmp_path), "AWS_ACCESS_KEY_ID": "AKIA", "AWS_SECRET_ACCESS_KEY": PASSWORD}.items():
        monkeypatch.setenv(name, value)
    function = "sasl.mechanism=OAUTHBEARER\nsasl.oauthbearer.config=auditor\ncounterpoise.token.function=tokens_here:token\n"
    msk = "sasl.mechanism=AWS_MSK_IAM\nsasl.jaas.config=software.amazon.msk.auth.iam.IAMLoginModule required;\n"
    monkeypatch.setenv("AWS_REGION", "eu-west-1")
    done = []
    for name, text in (("function", function), ("msk", msk)):
        config = tmp_path / f"{name}.properties"
        config.write_text(f"security.protocol=SASL_PLAINTEXT\n{text}")
        words = ["--bootstrap-server", guarded.users, "--command-config", str(config), "--out", str(tmp_path / name)]
        done.append(run_command("capture", *words))
    assert (done[0].returncode, len(recorded(tmp_path / "function")) > 0) == (0, True), done[0].stderr
    assert (done[1].returncode, done[1].stderr.count("\n"), "refuses the login" in done[1].stderr) == (2, 1, True), done[1].stderr
    assert PASSWORD not in done[1].stderr


def test_java_key_stores_are_converted_by_the_commands_that_the_messages_name(guarded: Guarded, tmp_path: Path) -> None:
    guarded.allow(f"kafka-acls --add --operation Read --operation Describe --topic {OFFSETS_TOPIC})")
    keytool, trust, key = str(Path(java_home()) / "bin" / "keytool"), tmp_path / "trust.jks", tmp_path / "me.jks"
    own = ["-storepass", PASSWORD, "-noprompt", "-storetype", "JKS", "-keystore", str(trust)]
    source = ["-srckeystore", f"{guarded.folder}/node.p12", "-srcstorepass", PASSWORD]
    for words in (
        ["-importcert", *own, "-alias", "ca", "-file", f"{guarded.folder}/ca.pem"],
        ["-importkeystore", *source, "-destkeystore", str(key), "-deststoretype", "JKS", "-deststorepass", PASSWORD],
    ):
        subprocess.run([keytool, *words], check=True, capture_output=True)
    login = f'required username="auditor" password="{PASSWORD}";'
    scram = f"sasl.mechanism=SCRAM-SHA-512\nsasl.jaas.config=org.apache.kafka.common.security.scram.ScramLoginModule {login}\n"
    store = f"ssl.keystore.location={key}\nssl.keystore.password={PASSWORD}\n"
    refused = guarded.log_in(tmp_path / "trust", scram + store, trusted=str(trust))
    assert (refused.returncode, f"{trust}.pem" in refused.stderr) == (2, True), refused.stderr
    _convert(refused.stderr, keytool, f"{PASSWORD}\n")
    refused = guarded.log_in(tmp_path / "key", scram + store, trusted=f"{trust}.pem")
    assert (refused.returncode, str(key) in refused.stderr) == (2, False), refused.stderr
    _convert(refused.stderr.replace("FILE", str(key)), keytool, 3 * f"{PASSWORD}\n")
    done = guarded.log_in(tmp_path / "fine", scram + store.replace("me.jks", "me.jks.p12"), trusted=f"{trust}.pem")
    assert (done.returncode, len(recorded(tmp_path / "fine")) > 0) == (0, True), done.stderr


def _convert(message: str, keytool: str, answers: str) -> None:
    """Run the command in the message, as a user does who has no newline there."""
    shown = message.partition("`")[2].partition("`")[0]
    assert shown.startswith("keytool ")
    done = subprocess.run(
        shown.replace("keytool", keytool, 1), shell=True, input=answers, text=True, capture_output=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_lag_needs_what_its_error_names_and_shows_no_secret(guarded: Guarded, tmp_path: Path) -> None:
    """First nothing may be described; then the group, but not its topics, which is said; then both. A wrong login is refused."""

    def lag(config: Path) -> subprocess.CompletedProcess[str]:
        words = ["--bootstrap-server", guarded.users, "--group", "keeper", "--command-config", str(config), "--json"]
        return run_command("lag", *words)

    guarded.forbid()
    refused = lag(guarded.config)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    named = "kafka-acls --add --allow-principal User:NAME --operation Describe --group keeper --topic '*')"
    assert named in refused.stderr
    guarded.allow("kafka-acls --add --operation Describe --group keeper)")
    blind = lag(guarded.config)
    assert (blind.returncode, "none is visible" in json.loads(blind.stdout)["not_read"][0]) == (1, True)
    guarded.allow("kafka-acls --add --operation Describe --topic kept)")
    seen = lag(guarded.config)
    assert (seen.returncode, seen.stderr) == (0, "")
    assert [each["topic"] for each in json.loads(seen.stdout)["partitions"]] == ["kept"]
    wrong = tmp_path / "wrong.properties"
    wrong.write_text(guarded.config.read_text().replace(PASSWORD, f"{PASSWORD}-"))
    failed = lag(wrong)
    assert (failed.returncode, failed.stderr.count("\n"), "refuses the login" in failed.stderr) == (2, 1, True)
    token = f"sasl.mechanism=OAUTHBEARER\nsasl.oauthbearer.config=principal=auditor token={PASSWORD}\n"
    wrong.write_text(f"security.protocol=SASL_PLAINTEXT\nenable.sasl.oauthbearer.unsecure.jwt=true\n{token}")
    odd = lag(wrong)
    assert (odd.returncode, odd.stderr.count("\n"), "beginning at: ***)" in odd.stderr) == (2, 1, True), odd.stderr
    for each in (refused, blind, seen, failed, odd):
        assert PASSWORD not in each.stdout + each.stderr


def test_following_needs_what_its_error_names_and_leaves_no_secret(guarded: Guarded, tmp_path: Path) -> None:
    """A password, a JAAS line and the path of a private key, over TLS.

    They are looked for in the log, in every file written (packed and unpacked), in Spark's event log, which has its whole
    configuration, and in the words and environment of all processes.
    """
    key, out, log = f"{guarded.folder}/node.p12", tmp_path / "out", tmp_path / "log"
    login = f'org.apache.kafka.common.security.scram.ScramLoginModule required username="auditor" password="{PASSWORD}";'
    config, spark, events = (tmp_path / name for name in ("client.properties", "spark", "events"))
    config.write_text(
        f"security.protocol=SASL_SSL\nssl.truststore.location={guarded.folder}/ca.pem\nsasl.mechanism=SCRAM-SHA-512\n"
        f"sasl.jaas.config={login}\nssl.keystore.location={key}\nssl.keystore.type=PKCS12\nssl.keystore.password={PASSWORD}\n"
    )
    spark.mkdir()
    events.mkdir()
    recorded_by_spark = {"enabled": "true", "dir": events.as_uri(), "compress": "false"}
    (spark / "spark-defaults.conf").write_text("".join(f"spark.eventLog.{at} {is_}\n" for at, is_ in recorded_by_spark.items()))
    words = ["audit", "--follow", "--bootstrap-server", guarded.secured, "--command-config", str(config), "--out", str(out)]
    guarded.forbid()
    refused = run_command(*words)
    assert (refused.returncode, refused.stderr.count("\n")) == (2, 1)
    guarded.allow(refused.stderr)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPARK_CONF_DIR", str(spark))
        patch.setenv("JAVA_HOME", java_home())
        with started(log, *words, "--strategies", "sticky") as process:
            wait(lambda: "following: " in log.read_text(), process)
            shown = [*map(process_words, family(process.pid))]
            process.terminate()
            assert process.wait(60) == 0, log.read_text()
    assert sum(b"SparkSubmit" in each for each in shown) == 1
    assert rows_of(out, "offset_commits")
    files = [path for root in (out, events, log) for path in (root.rglob("*") if root.is_dir() else [root]) if path.is_file()]
    assert any(b"spark.driver.memory" in path.read_bytes() for path in files if events in path.parents)
    assert {path.suffix for path in files} >= {".parquet", ".json", ".html"}
    written = b"\n".join([refused.stderr.encode(), *shown, *map(every_byte, files)])
    assert [secret for secret in (PASSWORD, key, login) if secret.encode() in written] == []


def process_words(pid: int) -> bytes:
    """The words and the environment of a process; nothing if it has ended."""
    with suppress(FileNotFoundError, ProcessLookupError):
        return b"".join(Path(f"/proc/{pid}/{name}").read_bytes() for name in ("cmdline", "environ"))
    return b""
