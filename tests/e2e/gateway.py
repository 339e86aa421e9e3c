"""A private nginx with the weir module, for tests: own prefix, pid file, arena, temporary folders and ports, so
that it runs beside any other. Debian's binary, the module of the build in $WEIR_BUILD (default: build)."""

import http.client
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time

import pytest

from http_door import Fields
from serving import free_port

ROOT = pathlib.Path(__file__).resolve().parents[2]
BUILD = pathlib.Path(os.environ.get("WEIR_BUILD", ROOT / "build")).resolve()
MODULE = BUILD / "ngx_http_weir_module.so"
NGINX = shutil.which("nginx") or "/usr/sbin/nginx"


def late(text, *due):
    """|text| with each number that is up to a minute short of one of |due| replaced by that: what is due in 1200 s is
    due in 1198 s when the machine stood still for two."""
    def fix(match):
        return next((str(d) for d in due if d - 60 <= int(match.group()) <= d), match.group())
    return re.sub(r"\d+", fix, text)


class Answer(Fields):
    """Status, fields (as sent, in order) and body of a response."""

    def __init__(self, status, fields, body):
        self.status, self.fields, self.body = status, fields, body


class Gateway:
    """An nginx with one server on |port| and, behind it, a second one on |up| that stands for the API.

    |policy|  the YAML of the policy, without its arena
    |server|  directives of the server: locations and so on; %(up)d, %(dir)s are replaced
    |http|    directives of http besides weir_policy; None leaves weir_policy out too
    |api|     directives of the API's server
    """

    def __init__(self, policy, server="", http="", api="", workers=1, listen="", main="", arena="4MiB",
                 weir="on", errors="notice"):
        self.dir = pathlib.Path(tempfile.mkdtemp(prefix="weir-e2e-"))
        self.dir.chmod(0o711)  # workers are not root
        self.port, self.up = free_port(), free_port()
        self.arena, self.arena_size = self.dir / "arena", arena
        self.conf, self.policy_file = self.dir / "nginx.conf", self.dir / "policy.yaml"
        self.log = self.dir / "error.log"
        self.parts = dict(server=server, http=http, api=api, workers=workers, listen=listen, main=main, weir=weir,
                          errors=errors)
        self.master = None
        (self.dir / "html").mkdir()
        (self.dir / "html" / "file").write_text("file\n")
        self.set_policy(policy)
        self.configure()

    def set_policy(self, policy):
        arena = f"arena: {{path: {self.arena}, size: {self.arena_size}}}\n" if self.arena_size else ""
        self.policy_file.write_text(f"version: 1\n{arena}{policy}")

    def configure(self, **parts):
        self.parts.update(parts)
        names = dict(up=self.up, dir=self.dir, port=self.port)
        p = {k: v % names if isinstance(v, str) and "%(" in v else v for k, v in self.parts.items()}
        self.conf.write_text(f"""
load_module {MODULE};
worker_processes {p['workers']};
pid {self.dir}/nginx.pid;
error_log {self.log} {p['errors']};
daemon off;
{p['main']}
events {{ worker_connections 1000; }}
http {{
    log_format weir '$status "$request" verdict=$weir_verdict reason=$weir_reason limit=$weir_limit '
                    'remaining=$weir_remaining retry=$weir_retry_after delay=$weir_delay plan=$weir_plan '
                    'at=$msec took=$request_time';
    access_log {self.dir}/access.log weir;
    {self.temporary()}
    keepalive_requests 100000;
    {f'weir_policy {self.policy_file};' if p['http'] is not None else ''}
    {p['http'] or ''}
    server {{
        listen 127.0.0.1:{self.port} {p['listen']};
        root {self.dir}/html;
        weir {p['weir']};
        {p['server']}
        location / {{ proxy_pass http://127.0.0.1:{self.up}; }}
    }}
    server {{
        listen 127.0.0.1:{self.up};
        root {self.dir}/html;
        {p['api']}
        location / {{ return 200 "ok $request_method $request_uri\\n"; }}
    }}
}}
""")

    def temporary(self):
        """nginx's temporary folders: its own are root's."""
        return " ".join(f"{name}_temp_path {self.dir}/{name};"
                        for name in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"))

    # ---- the process ----------------------------------------------------------------------------------

    def test(self):
        """nginx -t: (exit code, what it says)."""
        done = subprocess.run([NGINX, "-t", "-q", "-p", self.dir, "-c", self.conf, "-e", self.log],
                              capture_output=True, text=True, timeout=60)
        return done.returncode, done.stderr

    def start(self, command=(), env=None):
        self.master = subprocess.Popen([*command, NGINX, "-p", self.dir, "-c", self.conf, "-e", self.log],
                                       env={**os.environ, **(env or {})}, stdout=subprocess.DEVNULL,
                                       stderr=subprocess.PIPE, text=True)
        self.wait_ready()
        if "master_process off" not in self.parts["main"]:
            self.wait_for(lambda: len(self.workers()) == self.parts["workers"])
        return self

    def wait_ready(self, seconds=60.0):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if self.master.poll() is not None:
                raise AssertionError(f"nginx ended: {self.master.stderr.read()}\n{self.errors()}")
            try:
                socket.create_connection(("127.0.0.1", self.port), timeout=10).close()
                return
            except OSError:
                time.sleep(0.02)
        raise AssertionError(f"nginx does not listen\n{self.errors()}")

    def workers(self):
        """Pids of the workers that serve, not of those that are shutting down."""
        pids = []
        for task in pathlib.Path(f"/proc/{self.master.pid}/task").iterdir():
            pids += [int(p) for p in (task / "children").read_text().split()]
        return [p for p in pids if self.title(p) == "nginx: worker process"]

    @staticmethod
    def title(pid):
        try:
            return pathlib.Path(f"/proc/{pid}/cmdline").read_text().strip("\0 ")
        except OSError:
            return ""

    def reload(self):
        """Reload, and wait until other workers serve."""
        old = set(self.workers())
        self.master.send_signal(signal.SIGHUP)
        self.wait_for(lambda: self.workers() and not old & set(self.workers()))

    @staticmethod
    def wait_for(condition, seconds=60.0):
        end = time.monotonic() + seconds
        while not condition():
            assert time.monotonic() < end, "did not happen in time"
            time.sleep(0.01)

    def stop(self, how=signal.SIGQUIT):
        end = time.monotonic() + 60
        while self.master is not None and self.master.poll() is None:
            self.master.send_signal(how)  # again, as nginx misses one that comes just before it waits for events
            try:
                self.master.wait(5)
            except subprocess.TimeoutExpired:
                if time.monotonic() > end:
                    self.master.kill()
                    self.master.wait()
                    raise
        if self.master is not None:
            self.master.stderr.close()
        self.master = None

    def errors(self):
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def access(self, count, seconds=60.0):
        """The last |count| lines of the access log, once there are as many."""
        path = self.dir / "access.log"
        self.wait_for(lambda: path.exists() and len(path.read_text(errors="replace").splitlines()) >= count, seconds)
        return path.read_text(errors="replace").splitlines()[-count:]

    def check_log(self):
        bad = [line for line in self.errors().splitlines()
               if any(w in line for w in ("[alert]", "[emerg]", "[crit]", "open socket", "exited on signal"))]
        assert not bad, "\n".join(bad)

    def __enter__(self):
        return self.start()

    def __exit__(self, kind, value, trace):
        try:
            self.stop()
            if kind is None:
                self.check_log()
        finally:
            self.cleanup()

    def cleanup(self):
        self.stop(signal.SIGKILL)
        shutil.rmtree(self.dir, ignore_errors=True)

    # ---- requests -------------------------------------------------------------------------------------

    def connect(self):
        return http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)

    def get(self, path="/", method="GET", headers=None, body=None, connection=None):
        c = connection or self.connect()
        try:
            c.request(method, path, body=body, headers=headers or {})
            r = c.getresponse()
            return Answer(r.status, r.getheaders(), r.read())
        finally:
            if connection is None:
                c.close()

    def raw(self, data, seconds=60.0):
        """Send bytes as they stand on a connection of their own; all that comes back until it is closed."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=seconds) as s:
            s.sendall(data)
            got = b""
            while True:
                piece = s.recv(65536)
                if not piece:
                    return got
                got += piece

    def statuses(self, count, path="/", **more):
        return [self.get(path, **more).status for _ in range(count)]


@pytest.fixture
def gateway():
    """Makes gateways: started unless start=False; in the end stopped, with a look at their error logs."""
    if not MODULE.exists():
        pytest.skip(f"no {MODULE}: nginx-dev was missing when weir was built")
    made = []

    def make(policy, start=True, **parts):
        gate = Gateway(policy, **parts)
        made.append(gate)
        return gate.start() if start else gate

    yield make
    try:
        for gate in made:
            running = gate.master is not None
            gate.stop()
            if running:
                gate.check_log()
    finally:
        for gate in made:
            gate.cleanup()
