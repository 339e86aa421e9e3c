#!/usr/bin/env python3
"""The API behind the gateway of `make run`: api.py PORT_FILE. Listens on a free port and writes it there."""

import json
import os
import sys
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


class Api(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def answer(self):
        self.rfile.read(int(self.headers.get("Content-Length") or 0))
        path = self.path.partition("?")[0]
        if path == "/hello":
            self.send(200, {"message": "hello"})
        elif path.startswith("/search/"):
            self.send(200, {"found": [path.removeprefix("/search/")]})
        elif path == "/reports" and self.command == "POST":
            self.send(201, {"report": "done"})
        elif path.startswith("/export/"):
            self.send(200, {"exported": path.removeprefix("/export/")})
        elif path == "/upload":
            time.sleep(1)  # uploads take their time: see the limit on how many run at once
            self.send(201, {"stored": True})
        else:
            self.send(404, {"error": "not_found"})

    do_GET = do_POST = do_PUT = do_HEAD = answer

    def send(self, status, value):
        body = json.dumps(value).encode() + b"\n"
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def log_message(self, *_):
        pass  # the gateway's log is the one to read


class Server(ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 128


def main():
    server = Server(("127.0.0.1", 0), Api)
    with open(sys.argv[1] + ".new", "w", encoding="ascii") as f:
        f.write(str(server.server_port))
    os.rename(sys.argv[1] + ".new", sys.argv[1])
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        pass


if __name__ == "__main__":
    main()
