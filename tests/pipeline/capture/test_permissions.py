"""A broker with ACLs: what is missing is named, what is named is enough, and a hidden topic leads to --poll."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import admin as _admin

from counterpoise.pipeline.capture.cluster import OFFSETS_TOPIC
from tests.java import java_home
from tests.kafka_broker import Broker
from tests.pipeline.capture.test_capture import command, recorded
from tests.pipeline.capture.traffic import commit

pytestmark = pytest.mark.kafka
PASSWORD = "not-to-be-shown"
admin: Any = _admin  # its stubs lack the names of ACLs
KINDS = {"topic": admin.ResourceType.TOPIC, "group": admin.ResourceType.GROUP}


SUPER = "User:ANONYMOUS"


ANYTHING = (admin.AclOperation.ANY, admin.AclPermissionType.ANY)


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
            f"listener.name.users.sasl.enabled.mechanisms=PLAIN\nlistener.name.users.plain.sasl.jaas.config={plain}\n"
        )
        self.config = folder / "client.properties"
        login = f'org.apache.kafka.common.security.plain.PlainLoginModule required username="auditor" password="{PASSWORD}";'
        self.config.write_text(f"security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\nsasl.jaas.config={login}\n")

    def capture(self, out: Path, *more: str) -> subprocess.CompletedProcess[str]:
        """`counterpoise capture` as `auditor`."""
        given = command(self, out, "--command-config", str(self.config), *more)
        given[given.index(self.bootstrap)] = self.users
        return subprocess.run(given, capture_output=True, text=True, check=False, timeout=180)

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
        every = admin.AclBindingFilter(admin.ResourceType.ANY, None, admin.ResourcePatternType.ANY, None, None, *ANYTHING)
        deadline = time.monotonic() + 60
        while not {str(acl) for acl in acls} <= {str(acl) for acl in mine.describe_acls(every).result(30)}:
            assert time.monotonic() < deadline
            time.sleep(0.2)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    """The broker, with a commit on it."""
    node = Guarded(tmp_path_factory.mktemp("guarded"))
    try:
        node.start()
        node.create_topic("kept")
        commit(node, "keeper", "kept", [1, 2])
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
