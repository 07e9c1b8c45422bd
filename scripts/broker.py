"""broker.py PORT: a Kafka broker on this machine, for the tutorials; Ctrl-C ends it and deletes its data."""

from __future__ import annotations

import os
import signal
import socket
import sys
import tempfile
from pathlib import Path

from tests.kafka_broker import Broker


def main(port: int) -> None:
    """Run it until a signal; end with one line if the port is in use."""
    with socket.socket() as free:
        free.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            free.bind(("127.0.0.1", port))
        except OSError as error:
            sys.exit(f"port {port}: {error.strerror}; end what uses it, or take another: make broker PORT={port + 100}")
    with tempfile.TemporaryDirectory(prefix="counterpoise-broker-") as folder:
        node = Broker(Path(folder), Path(os.environ["JAVA_HOME"]) / "bin" / "java", port=port)
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            node.start()
            print(f"a Kafka broker is running at localhost:{port}; Ctrl-C ends it and deletes its data", flush=True)
            signal.pause()
        except KeyboardInterrupt:
            pass
        finally:
            node.stop()


if __name__ == "__main__":
    main(int(sys.argv[1]))
