"""client.py SOCKET KIND ARGS…: give the server streams, folder, environment and arguments, end as its process does.

KIND is "knoll" for a command line, with warnings as errors, "python" for code, and "interpreter" for code after which
the interpreter is finalised as usual; the others end at once.
"""

import json
import os
import signal
import socket
import sys


def is_open(descriptor: int) -> bool:
    try:
        os.fstat(descriptor)
    except OSError:
        return False
    return True


streams = [descriptor for descriptor in range(3) if is_open(descriptor)]
with socket.socket(socket.AF_UNIX) as server:
    server.connect(sys.argv[1])
    request = {
        "streams": streams,
        "kind": sys.argv[2],
        "args": sys.argv[3:],
        "folder": os.getcwd(),
        "environment": dict(os.environ),
    }
    data = json.dumps(request).encode()
    length = len(data).to_bytes(8, "little")
    if streams:
        socket.send_fds(server, [length], streams)
    else:
        server.sendall(length)
    server.sendall(data)
    answer = server.recv(64)
code = int(answer or b"1")
if code < 0:
    signal.signal(-code, signal.SIG_DFL)
    os.kill(os.getpid(), -code)
sys.exit(code)
