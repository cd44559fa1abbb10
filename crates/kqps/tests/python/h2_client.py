"""Asks requests over one connection by HTTP/2 in TLS, with the package h2.

Arguments: host, port, the file with the issuer of the server's certificate. Reads a JSON list of requests from standard
input, each with `method`, `path`, `headers` (pairs) and `body` (hex). All of them are under way together. Prints a JSON
list of responses in the same order, each with `status`, `headers` and `body`; `reset` instead if the server reset the
stream. """

import json
import socket
import ssl
import sys

import h2.config
import h2.connection
import h2.events


class Client:
    def __init__(self, host, port, ca):
        context = ssl.create_default_context(cafile=ca)
        context.set_alpn_protocols(["h2"])
        plain = socket.create_connection((host, port), timeout=20)
        self.socket = context.wrap_socket(plain, server_hostname=host)
        assert self.socket.selected_alpn_protocol() == "h2"
        config = h2.config.H2Configuration(client_side=True, header_encoding="utf-8")
        self.connection = h2.connection.H2Connection(config=config)
        self.connection.initiate_connection()
        self.authority = f"{host}:{port}"
        self.responses = {}
        self.ended = set()
        self.send()

    def send(self):
        self.socket.sendall(self.connection.data_to_send())

    def read(self):
        data = self.socket.recv(65536)
        assert data, "the server closed the connection"
        for event in self.connection.receive_data(data):
            if isinstance(event, h2.events.ResponseReceived):
                self.responses[event.stream_id] = {"headers": event.headers, "body": b""}
            elif isinstance(event, h2.events.DataReceived):
                self.responses[event.stream_id]["body"] += event.data
                self.connection.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
            elif isinstance(event, h2.events.StreamEnded):
                self.ended.add(event.stream_id)
            elif isinstance(event, h2.events.StreamReset):
                # A response may end before its request has been sent whole.
                if event.stream_id not in self.ended:
                    self.responses[event.stream_id] = {"reset": event.error_code}
                    self.ended.add(event.stream_id)
            elif isinstance(event, h2.events.ConnectionTerminated):
                raise AssertionError(f"the server goes away: {event.error_code}")
        self.send()

    def ask(self, request):
        stream = self.connection.get_next_available_stream_id()
        body = bytes.fromhex(request["body"])
        headers = [
            (":method", request["method"]),
            (":scheme", "https"),
            (":authority", self.authority),
            (":path", request["path"]),
        ]
        headers += [tuple(pair) for pair in request["headers"]]
        self.connection.send_headers(stream, headers, end_stream=not body)
        self.send()
        while body and stream not in self.ended:
            room = self.connection.local_flow_control_window(stream)
            part = min(len(body), room, self.connection.max_outbound_frame_size)
            if part == 0:
                self.read()
                continue
            self.connection.send_data(stream, body[:part], end_stream=part == len(body))
            body = body[part:]
            self.send()
        return stream

    def response(self, stream):
        while stream not in self.ended:
            self.read()
        response = self.responses[stream]
        if "reset" in response:
            return {"reset": int(response["reset"])}
        headers = dict(response["headers"])
        status = int(headers.pop(":status"))
        return {"status": status, "headers": headers, "body": response["body"].hex()}


def main():
    host, port, ca = sys.argv[1:]
    client = Client(host, int(port), ca)
    streams = [client.ask(request) for request in json.load(sys.stdin)]
    json.dump([client.response(stream) for stream in streams], sys.stdout)
    client.connection.close_connection()
    client.send()


main()
