"""Answers DNS queries by HTTP/2 in TLS, with the package h2: each query is its own reply, with QR set.

Arguments: the files of the certificate and of its key, and how many streams a client may have open at once. Prints the
port as the first line. At the end of standard input prints the counts as JSON: connections, queries by POST and by GET,
the queries by the server's name in them (:authority), the most streams that were open at once, and what was wrong with
requests. """

import base64
import json
import socket
import ssl
import sys
import threading

import h2.config
import h2.connection
import h2.events
import h2.exceptions
import h2.settings

COUNTS = {"connections": 0, "POST": 0, "GET": 0, "authorities": {}, "open": 0, "wrong": []}
LOCK = threading.Lock()


def message_of(headers, body):
    """The DNS message of a request (RFC 8484, section 4.1)."""
    path, _, query = headers[":path"].partition("?")
    assert path == "/dns-query", path
    assert headers["accept"] == "application/dns-message", headers
    if headers[":method"] == "GET":
        assert query.startswith("dns=") and "=" not in query[4:], query
        return base64.urlsafe_b64decode(query[4:] + "=" * (-len(query[4:]) % 4))
    assert headers["content-type"] == "application/dns-message", headers
    assert int(headers["content-length"]) == len(body), headers
    return body


def answer(connection, stream, headers, body):
    try:
        message = message_of(headers, body)
        assert message[:2] == b"\0\0", "the ID is not 0"
    except (AssertionError, KeyError, ValueError) as error:
        with LOCK:
            COUNTS["wrong"].append(repr(error))
        connection.send_headers(stream, [(":status", "400")], end_stream=True)
        return
    with LOCK:
        COUNTS[headers[":method"]] += 1
        authorities, name = COUNTS["authorities"], headers[":authority"]
        authorities[name] = authorities.get(name, 0) + 1
    reply = message[:2] + bytes([message[2] | 0x80]) + message[3:]
    fields = [(":status", "200"), ("content-type", "application/dns-message"), ("content-length", str(len(reply)))]
    connection.send_headers(stream, fields)
    connection.send_data(stream, reply, end_stream=True)


def serve(plain, context, streams_most):
    try:
        secured = context.wrap_socket(plain, server_side=True)
        assert secured.selected_alpn_protocol() == "h2"
        config = h2.config.H2Configuration(client_side=False, header_encoding="utf-8")
        connection = h2.connection.H2Connection(config=config)
        limit = {h2.settings.SettingCodes.MAX_CONCURRENT_STREAMS: streams_most}
        connection.local_settings = h2.settings.Settings(client=False, initial_values=limit)
        connection.initiate_connection()
        secured.sendall(connection.data_to_send())
        requests = {}
        while data := secured.recv(65536):
            ended = []
            for event in connection.receive_data(data):
                if isinstance(event, h2.events.RequestReceived):
                    requests[event.stream_id] = (dict(event.headers), b"")
                elif isinstance(event, h2.events.DataReceived):
                    headers, body = requests[event.stream_id]
                    requests[event.stream_id] = (headers, body + event.data)
                    connection.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                elif isinstance(event, h2.events.StreamEnded):
                    ended.append(event.stream_id)
                elif isinstance(event, h2.events.StreamReset):
                    requests.pop(event.stream_id, None)
            with LOCK:
                COUNTS["open"] = max(COUNTS["open"], len(requests))
            # Later requests are answered first.
            for stream in reversed(ended):
                answer(connection, stream, *requests.pop(stream))
            secured.sendall(connection.data_to_send())
    except (OSError, h2.exceptions.ProtocolError, AssertionError) as error:
        with LOCK:
            COUNTS["wrong"].append(repr(error))


def main():
    chain, key, streams_most = sys.argv[1:]
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(chain, key)
    context.set_alpn_protocols(["h2"])
    listener = socket.create_server(("127.0.0.1", 0))
    print(listener.getsockname()[1], flush=True)

    def accept():
        while True:
            plain, _ = listener.accept()
            plain.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with LOCK:
                COUNTS["connections"] += 1
            threading.Thread(target=serve, args=(plain, context, int(streams_most)), daemon=True).start()

    threading.Thread(target=accept, daemon=True).start()
    sys.stdin.read()
    with LOCK:
        print(json.dumps(COUNTS), flush=True)


main()
