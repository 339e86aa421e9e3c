"""Many idle connections from one process: idle_clients.py KIND HOST PORT COUNT. Each speaks once (its greeting, or a
request that is answered), then all are silent until standard input ends. Prints "ready", and "kept N" at the end."""
import socket
import sys

kind, host, port, count = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
HELLO = {"http": b'POST /v1/check HTTP/1.1\r\nHost: x\r\nContent-Length: 18\r\n\r\n{"ip":"192.0.2.1"}',
         "resp": b"*4\r\n$5\r\nHELLO\r\n$1\r\n3\r\n$7\r\nSETNAME\r\n$4\r\nidle\r\n",
         "grpc": b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\4\0\0\0\0\0"}[kind]
connections = []
for _ in range(count):
    s = socket.create_connection((host, port), 60)
    s.sendall(HELLO)
    assert s.recv(4096)
    connections.append(s)
print("ready", flush=True)
sys.stdin.read()
kept = 0
for s in connections:
    s.setblocking(False)
    try:
        while data := s.recv(4096):
            pass
        kept += data != b""
    except BlockingIOError:
        kept += 1
print(f"kept {kept}", flush=True)
