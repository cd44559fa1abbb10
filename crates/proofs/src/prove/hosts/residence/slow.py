"""A DNS server that answers each query with an empty answer, after a fixed time.

Arguments: address, port and milliseconds. It ends by SIGTERM.
"""

import collections
import select
import socket
import sys
import time

server = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
server.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 21)
server.bind((sys.argv[1], int(sys.argv[2])))
server.setblocking(False)
delay_s = float(sys.argv[3]) / 1000
held = collections.deque()
while True:
    wait_s = max(0.0, held[0][0] - time.monotonic()) if held else None
    if select.select([server], [], [], wait_s)[0]:
        while True:
            try:
                query, client = server.recvfrom(4096)
            except BlockingIOError:
                break
            reply = query[:2] + bytes([query[2] | 0x80]) + query[3:]
            held.append((time.monotonic() + delay_s, client, reply))
    while held and held[0][0] <= time.monotonic():
        _, client, reply = held.popleft()
        server.sendto(reply, client)
