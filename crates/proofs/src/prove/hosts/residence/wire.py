"""A slow wire: passes the frames of two interfaces to each other, each after a fixed time.

Arguments: the two interfaces, and milliseconds. Prints a line when frames pass. Frames keep the header that says whether
their checksum is complete (packet(7), PACKET_VNET_HDR).
"""

import collections
import select
import socket
import sys
import time

SOL_PACKET, PACKET_VNET_HDR, ETH_P_ALL = 263, 15, 3
PACKET_OUTGOING = 4


def opened(interface):
    end = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    end.setsockopt(SOL_PACKET, PACKET_VNET_HDR, 1)
    end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 22)
    end.bind((interface, ETH_P_ALL))
    end.setblocking(False)
    return end


ends = [opened(interface) for interface in sys.argv[1:3]]
delay_s = float(sys.argv[3]) / 1000
under_way = collections.deque()
print("up", flush=True)
while True:
    wait_s = max(0.0, under_way[0][0] - time.monotonic()) if under_way else None
    for end in select.select(ends, [], [], wait_s)[0]:
        while True:
            try:
                frame, (_, _, kind, _, _) = end.recvfrom(1 << 17)
            except BlockingIOError:
                break
            if kind != PACKET_OUTGOING:
                other = ends[1] if end is ends[0] else ends[0]
                under_way.append((time.monotonic() + delay_s, other, frame))
    while under_way and under_way[0][0] <= time.monotonic():
        _, to, frame = under_way.popleft()
        to.send(frame)
