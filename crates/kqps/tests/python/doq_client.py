"""A client of DNS over QUIC (RFC 9250) by aioquic, at a server that returns queries as replies, or that has a zone.

Arguments: the server's port, the file of the issuer that it trusts, the number of queries, and `zone` if the server
has an address for each name below `test`. Asks the queries on a connection, and as many on a second one that resumes
the first and sends early data. Prints what happened as JSON.
"""

import asyncio
import json
import sys

from aioquic.asyncio import QuicConnectionProtocol, connect
from aioquic.quic.configuration import QuicConfiguration
from aioquic.quic.events import HandshakeCompleted, StreamDataReceived


class Client(QuicConnectionProtocol):
    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.streams = {}
        self.waiting = {}
        self.handshake = None

    def quic_event_received(self, event):
        if isinstance(event, HandshakeCompleted):
            self.handshake = event
        if not isinstance(event, StreamDataReceived) or event.stream_id not in self.waiting:
            return
        frame = self.streams.pop(event.stream_id, b"") + event.data
        if event.end_stream:
            self.waiting.pop(event.stream_id).set_result(frame)
        else:
            self.streams[event.stream_id] = frame

    async def ask(self, message):
        stream = self._quic.get_next_available_stream_id()
        reply = asyncio.get_running_loop().create_future()
        self.waiting[stream] = reply
        self._quic.send_stream_data(stream, len(message).to_bytes(2, "big") + message, end_stream=True)
        self.transmit()
        return await asyncio.wait_for(reply, 20)


def query(number):
    name = f"q{number}".encode()
    question = bytes([len(name)]) + name + b"\x04test\x00\x00\x01\x00\x01"
    return b"\0\0\1\0\0\1\0\0\0\0\0\0" + question


def expected(number):
    message = query(number)
    message = message[:2] + b"\x81" + message[3:]
    return len(message).to_bytes(2, "big") + message


def is_answer(number, frame):
    # An authoritative reply without an error, with the question and one answer.
    message, asked = frame[2:], query(number)
    is_whole = int.from_bytes(frame[:2], "big") == len(message)
    header = message[:4] == b"\0\0\x85\0" and message[4:8] == b"\0\1\0\1"
    return is_whole and header and message[12 : len(asked)] == asked[12:]


async def main():
    port, ca, count = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    has_zone = sys.argv[4:] == ["zone"]
    tickets = []

    async def played(configuration, wait_connected):
        async with connect(
            "127.0.0.1",
            port,
            configuration=configuration,
            create_protocol=Client,
            session_ticket_handler=tickets.append,
            wait_connected=wait_connected,
        ) as client:
            replies = await asyncio.gather(*(client.ask(query(number)) for number in range(count)))
            # The ticket follows the handshake.
            for _ in range(100):
                if client.handshake and tickets:
                    break
                await asyncio.sleep(0.05)
            is_right = is_answer if has_zone else lambda number, reply: reply == expected(number)
            right = sum(is_right(number, reply) for number, reply in enumerate(replies))
            return {
                "right": right,
                "alpn": client.handshake.alpn_protocol,
                "resumed": client.handshake.session_resumed,
                "early": client.handshake.early_data_accepted,
            }

    def configuration(ticket):
        made = QuicConfiguration(alpn_protocols=["doq"], is_client=True, server_name="localhost")
        made.load_verify_locations(ca)
        made.session_ticket = ticket
        return made

    first = await played(configuration(None), True)
    second = await played(configuration(tickets[-1] if tickets else None), False)
    print(json.dumps([first, second]))


asyncio.run(main())
