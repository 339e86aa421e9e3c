"""A gRPC client in a process of its own, as grpcio lives in the tests' environment: a JSON line in for each call,
one out. Run by grpc_client.py."""
import json
import sys

import grpc


def main():
    target, files = sys.argv[1], sys.argv[2:]
    if files:
        authority, key, chain = [open(f, "rb").read() for f in files] + [None] * (3 - len(files))
        channel = grpc.secure_channel(target, grpc.ssl_channel_credentials(authority, key, chain))
    else:
        channel = grpc.insecure_channel(target)
    for line in sys.stdin:
        call = json.loads(line)
        method = channel.unary_unary(call["method"], request_serializer=bytes, response_deserializer=bytes)
        try:
            reply = method(bytes.fromhex(call["message"]), timeout=20, wait_for_ready=call.get("wait", False))
            answer = {"code": "OK", "message": reply.hex()}
        except grpc.RpcError as error:
            answer = {"code": error.code().name, "details": error.details()}
        print(json.dumps(answer), flush=True)


main()
