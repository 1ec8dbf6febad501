"""Stands before the server of the official package (its arguments are that server's command) and refuses the handshake, as a
server does that speaks only revisions without one. Everything else passes as it is; the package then serves such a revision."""

import json
import os
import subprocess
import sys
import threading

server = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
lock = threading.Lock()


def write(bytes):
    with lock:
        os.write(1, bytes)


def answers():
    while piece := server.stdout.read1(65536):
        write(piece)
    os._exit(server.wait())  # The main thread waits for the client.


reader = threading.Thread(target=answers)
reader.start()
for line in sys.stdin.buffer:
    message = json.loads(line)
    if message.get("method") == "initialize":
        error = {"code": -32601, "message": "Method not found"}
        write(json.dumps({"jsonrpc": "2.0", "id": message["id"], "error": error}).encode() + b"\n")
        continue
    try:
        server.stdin.write(line)
        server.stdin.flush()
    except BrokenPipeError:
        break
try:
    server.stdin.close()
except BrokenPipeError:
    pass
reader.join()
