"""A server over TCP that answers each query with itself as a response, so many milliseconds later, the length in one write and
the message in the next. With `nagle` its kernel may hold the second back. It prints its port, and ends when its input does."""

import asyncio
import socket
import sys

DELAY_S = int(sys.argv[1]) / 1000
IS_NAGLING = sys.argv[2:] == ["nagle"]


async def answer(reader, writer):
    writer.get_extra_info("socket").setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, not IS_NAGLING)
    try:
        while True:
            length = await reader.readexactly(2)
            message = bytearray(await reader.readexactly(int.from_bytes(length)))
            message[2] |= 0x80
            await asyncio.sleep(DELAY_S)
            writer.write(length)
            writer.write(message)
    except (asyncio.IncompleteReadError, ConnectionError):
        writer.close()


async def main():
    server = await asyncio.start_server(answer, "127.0.0.1", 0, backlog=1024)
    print(server.sockets[0].getsockname()[1], flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)


asyncio.run(main())
