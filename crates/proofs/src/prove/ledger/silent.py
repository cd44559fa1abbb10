"""A subject that turns queries round, except for one in a hundred, drawn from a seed, which it ignores.

ADDRESS PORT SEED; it prints a line when it can answer, and its counts when it is asked to end."""

import json
import random
import signal
import socket
import sys

# linux/asm-generic/socket.h; Python has no name for it.
SO_RCVBUFFORCE = 33

address, port, seed = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
draw = random.Random(seed).random
received = answered = 0
server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 64 << 20)
server.bind((address, port))


def end(_signal, _frame):
    print(json.dumps({"received": received, "answered": answered}), flush=True)
    sys.exit(0)


signal.signal(signal.SIGTERM, end)
print(json.dumps({"addresses": [f"{address}:{port}"]}), flush=True)
while True:
    query, player = server.recvfrom(512)
    received += 1
    if draw() >= 0.01:
        reply = bytearray(query)
        reply[2] |= 0x80  # QR
        server.sendto(reply, player)
        answered += 1
