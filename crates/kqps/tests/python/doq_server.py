"""A server of DNS over QUIC (RFC 9250) by aioquic: each query is its own reply, with QR set.

Arguments: the files of the certificate and of its key, and perhaps --retry. Prints its port as JSON. When standard
input ends, prints its counts as JSON.
"""

import asyncio
import json
import sys

from aioquic.asyncio import QuicConnectionProtocol, serve
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import HandshakeCompleted, StreamDataReceived

COUNTS = {"connections": 0, "resumed": 0, "early": 0, "queries": 0, "broken": 0}


class Server(QuicConnectionProtocol):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.streams = {}

    def quic_event_received(self, event):
        if isinstance(event, HandshakeCompleted):
            COUNTS["connections"] += 1
            COUNTS["resumed"] += event.session_resumed
            COUNTS["early"] += event.early_data_accepted
        if not isinstance(event, StreamDataReceived):
            return
        frame = self.streams.pop(event.stream_id, b"") + event.data
        if not event.end_stream:
            self.streams[event.stream_id] = frame
            return
        # A length, and a message with the ID 0.
        if int.from_bytes(frame[:2], "big") != len(frame) - 2 or frame[2:4] != b"\0\0":
            COUNTS["broken"] += 1
            return
        COUNTS["queries"] += 1
        reply = frame[:4] + bytes([frame[4] | 0x80]) + frame[5:]
        self._quic.send_stream_data(event.stream_id, reply, end_stream=True)
        self.transmit()


async def main():
    configuration = QuicConfiguration(alpn_protocols=["doq"], is_client=False)
    configuration.load_cert_chain(sys.argv[1], sys.argv[2])
    tickets = {}
    server = await serve(
        "127.0.0.1",
        0,
        configuration=configuration,
        create_protocol=Server,
        retry="--retry" in sys.argv[3:],
        session_ticket_fetcher=lambda label: tickets.pop(label, None),
        session_ticket_handler=lambda ticket: tickets.__setitem__(ticket.ticket, ticket),
    )
    port = server._transport.get_extra_info("sockname")[1]
    print(json.dumps({"port": port}), flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)
    print(json.dumps(COUNTS), flush=True)
    server.close()


asyncio.run(main())
