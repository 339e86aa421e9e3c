"""A name server for tests: A records of names that may change at any time, and a file that makes a program ask it."""
import os
import socket
import struct
import threading

import pytest

ROOT = pytest.mark.skipif(os.geteuid() != 0, reason="not root: no mount namespaces, no port 53")
NOERROR, SERVFAIL, NXDOMAIN = 0, 2, 3
A = 1


class NameServer:
    """On port 53 of a loopback address of its own. |names|: {name: [address]}. |trouble|: None, a code to answer all
    by, or "silent". |delay|: seconds before an answer."""

    def __init__(self, directory):
        self.names = {}
        self.trouble = None
        self.delay = 0
        self.asked = 0
        self.socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self.address = self._bind()
        self.file = directory / "resolv.conf"
        self.file.write_text(f"nameserver {self.address}\noptions timeout:1 attempts:1\n")
        self.thread = threading.Thread(target=self._serve, daemon=True)
        self.thread.start()

    def _bind(self):
        """Others may be at it, in other tests at the same time."""
        for attempt in range(1000):
            number = (os.getpid() + attempt) % 62500
            address = f"127.53.{number // 250 + 1}.{number % 250 + 1}"
            try:
                self.socket.bind((address, 53))
                return address
            except OSError:
                continue
        raise AssertionError("no port 53 is free")

    def wrap(self):
        """In front of a program's arguments."""
        return "unshare", "--mount", "sh", "-ec", f'mount --bind "{self.file}" /etc/resolv.conf; exec "$@"', "sh"

    def _serve(self):
        while True:
            question, client = self.socket.recvfrom(4096)
            if not question:  # from close
                return
            self.asked += 1
            answer = self._answer(question)
            if answer is not None and self.delay:
                threading.Timer(self.delay, self._send, (answer, client)).start()
            elif answer is not None:
                self._send(answer, client)

    def _send(self, answer, client):
        try:
            self.socket.sendto(answer, client)
        except OSError:
            pass  # closed meanwhile

    def _answer(self, question):
        end, labels = 12, []
        while question[end]:
            labels.append(question[end + 1:end + 1 + question[end]].decode())
            end += 1 + question[end]
        kind, = struct.unpack_from(">H", question, end + 1)
        asked = question[12:end + 5]
        name = ".".join(labels).lower()
        code = self.trouble if self.trouble is not None else NOERROR if name in self.names else NXDOMAIN
        if code == "silent":
            return None
        found = self.names.get(name, []) if code == NOERROR and kind == A else []
        records = b"".join(b"\xc0\x0c" + struct.pack(">HHIH", A, 1, 0, 4) + socket.inet_aton(a) for a in found)
        return question[:2] + struct.pack(">HHHHH", 0x8180 | code, 1, len(found), 0, 0) + asked + records

    def close(self):
        self.socket.sendto(b"", (self.address, 53))
        self.thread.join()
        self.socket.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
