#!/usr/bin/env python3
# SPDX-License-Identifier: BSL-1.0
"""Runs a server of examples/http/ and checks what clients of all kinds get.

check_http.py PROGRAM WAY
"""
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest

PROGRAM, WAY = sys.argv[1:3]
PATIENCE = 0.3  # seconds
MANY = 500
SECONDS = 20


class Server:
    """A server of its own, and connections to it."""

    def __enter__(self):
        self.process = subprocess.Popen(
            [PROGRAM, "--way", WAY, "--patience", str(int(PATIENCE * 1000))],
            stdout=subprocess.PIPE, text=True)
        self.port = int(self.process.stdout.readline().split()[1])
        return self

    def __exit__(self, *exception):
        if self.process.poll() is None:
            self.end()

    def end(self):
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(SECONDS)
        self.process.stdout.close()
        return status

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), SECONDS)


def receive_all(connection):
    """What comes until the server closes."""
    text = b""
    while more := connection.recv(65536):
        text += more
    return text


def receive_answer(connection):
    """One answer: its status and its body."""
    text = b""
    while b"\r\n\r\n" not in text:
        more = connection.recv(1)
        if not more:
            return None
        text += more
    length = int(text.split(b"Content-Length: ")[1].split(b"\r\n")[0])
    body = b""
    while len(body) < length:
        body += connection.recv(length - len(body))
    return int(text.split()[1]), body


def get(target, *fields):
    return "\r\n".join([f"GET {target} HTTP/1.1", "Host: here", *fields, "", ""]).encode()


def post(*fields, body=b""):
    """A request whose body is not what the server is to read as the next request."""
    return "\r\n".join(["POST / HTTP/1.1", "Host: here", *fields, "", ""]).encode() + body


CLOSES, STAYS = True, False
HEADS = [  # what a client sends, the status it gets, and whether the server closes
    # the first line
    (get("/"), 200, STAYS),
    (get("/nothing"), 404, STAYS),
    (get("/bytes/4096"), 200, STAYS),
    (get("/bytes/4097"), 404, STAYS),
    (get("/bytes/99999999999999999999"), 404, STAYS),
    (get("http://here/"), 404, STAYS),
    (b"OPTIONS * HTTP/1.1\r\nHost: here\r\n\r\n", 405, STAYS),
    (b"GET / HTTP/1.0\r\n\r\n", 200, CLOSES),
    (b"GET / HTTP/1.9\r\nHost: here\r\n\r\n", 200, STAYS),
    (b"GET / HTTP/2.0\r\n\r\n", 505, CLOSES),
    (b"GET / HTTP/1.x\r\nHost: here\r\n\r\n", 400, CLOSES),
    (b"GET / HTTP/1.10\r\nHost: here\r\n\r\n", 400, CLOSES),
    (b"GET / http/1.1\r\nHost: here\r\n\r\n", 400, CLOSES),
    (b"GET / HTTP/1.1 \r\nHost: here\r\n\r\n", 400, CLOSES),
    (b"GET  / HTTP/1.1\r\nHost: here\r\n\r\n", 400, CLOSES),
    (b"GET\t/ HTTP/1.1\r\nHost: here\r\n\r\n", 400, CLOSES),
    (b"GET /\t HTTP/1.1\r\nHost: here\r\n\r\n", 400, CLOSES),
    (b" GET / HTTP/1.1\r\nHost: here\r\n\r\n", 400, CLOSES),
    (b"get / HTTP/1.1\r\nHost: here\r\n\r\n", 400, CLOSES),
    (b"GET /\r\n\r\n", 400, CLOSES),
    (b"GET HTTP/1.1\r\nHost: here\r\n\r\n", 400, CLOSES),
    (b"nonsense\r\n\r\n", 400, CLOSES),
    (b"\r\n\r\n", 400, CLOSES),
    # characters
    (b"G\0T / HTTP/1.1\r\nHost: here\r\n\r\n", 400, CLOSES),
    (b"GET /\x01 HTTP/1.1\r\nHost: here\r\n\r\n", 400, CLOSES),
    (get("/", "A: b\0"), 400, CLOSES),
    (get("/", "A: b\x7f"), 400, CLOSES),
    (get("/", "A: b\rC: d"), 400, CLOSES),
    (get("/", "A: b\nC: d"), 400, CLOSES),
    (get("/", "A: b\r\r"), 400, CLOSES),
    (get("/", "A:\tb\t"), 200, STAYS),
    (get("/", "A: \u00e9"), 200, STAYS),
    (b"GET / HTTP/1.1\nHost: here\r\n\r\n", 400, CLOSES),
    (b"GET / HTTP/1.1\nHost: here\n\n", 408, CLOSES),  # no head has ended
    # fields
    (get("/", "no colon"), 400, CLOSES),
    (get("/", ": no name"), 400, CLOSES),
    (get("/", "A : b"), 400, CLOSES),
    (get("/", "A B: c"), 400, CLOSES),
    (get("/", "A\t: b"), 400, CLOSES),
    (get("/", "A(: b"), 400, CLOSES),
    (get("/", "A: b", " folded"), 400, CLOSES),
    (get("/", "A: b", "\tfolded"), 400, CLOSES),
    (get("/", "A:"), 200, STAYS),
    (get("/" + "x" * 4096)[:4096], 431, CLOSES),  # no more: what is left unread would reset
    (get("/", "A: " + "b" * 4096)[:4096], 431, CLOSES),
    # Host
    (b"GET / HTTP/1.1\r\n\r\n", 400, CLOSES),
    (b"GET / HTTP/1.1\r\nHostile: here\r\n\r\n", 400, CLOSES),
    (b"GET / HTTP/1.1\r\nHost : here\r\n\r\n", 400, CLOSES),
    (get("/", "HOST: there"), 400, CLOSES),
    # Connection
    (get("/", "Connection: close"), 200, CLOSES),
    (get("/", "connection:CLOSE"), 200, CLOSES),
    (get("/", "Connection: keep-alive, close"), 200, CLOSES),
    (get("/", "Connection: close", "Connection: x"), 200, CLOSES),
    (get("/", "Connection: closed"), 200, STAYS),
    (b"GET / HTTP/1.0\r\nConnection: x, keep-alive\r\n\r\n", 200, STAYS),
    # Content-Length
    (post("Content-Length: 0"), 405, STAYS),
    (post("content-length:5 \t", body=b"hello"), 405, STAYS),
    (post("Content-Length: 000005", body=b"hello"), 405, STAYS),
    (get("/", "Content-Length: 0"), 200, STAYS),
    (post("Content-Length:"), 400, CLOSES),
    (post("Content-Length: -1"), 400, CLOSES),
    (post("Content-Length: +5", body=b"hello"), 400, CLOSES),
    (post("Content-Length: 0x5", body=b"hello"), 400, CLOSES),
    (post("Content-Length: 5.", body=b"hello"), 400, CLOSES),
    (post("Content-Length: 0 zzz"), 400, CLOSES),
    (post("Content-Length: 0 0"), 400, CLOSES),
    (post("Content-Length: 5, 5", body=b"hello"), 400, CLOSES),
    (post("Content-Length : 5", body=b"hello"), 400, CLOSES),
    (post("Content-Length: 18446744073709551616"), 400, CLOSES),
    (post("Content-Length: 18446744073709551621", body=b"hello"), 400, CLOSES),
    (post("Content-Length: 99999999999999999999999999"), 400, CLOSES),
    (post("Content-Length: 5", "Content-Length: 0", body=b"hello"), 400, CLOSES),
    (post("Content-Length: 5", "Content-Length: 5", body=b"hello"), 400, CLOSES),
    (post("Content-Length: 5", "content-length: x", body=b"hello"), 400, CLOSES),
    # Transfer-Encoding
    (post("Transfer-Encoding: chunked", body=b"0\r\n\r\n"), 501, CLOSES),
    (post("transfer-encoding:chunked", body=b"0\r\n\r\n"), 501, CLOSES),
    (post("Transfer-Encoding: identity"), 501, CLOSES),
    (post("Transfer-Encoding: gzip, chunked", body=b"0\r\n\r\n"), 501, CLOSES),
    (post("Transfer-Encoding: xchunked"), 501, CLOSES),
    (post("Transfer-Encoding:"), 501, CLOSES),
    (post("Transfer-Encoding:\tchunked", body=b"0\r\n\r\n"), 501, CLOSES),
    (post("Content-Length: 5", "Transfer-Encoding: chunked", body=b"0\r\n\r\n"), 501, CLOSES),
    (post("Transfer-Encoding: chunked", "Content-Length: 5", body=b"0\r\n\r\n"), 501, CLOSES),
    (post("Transfer-Encoding : chunked", body=b"0\r\n\r\n"), 400, CLOSES),
    (post("Transfer-Encoding\t: chunked", body=b"0\r\n\r\n"), 400, CLOSES),
    (post("A: b", " Transfer-Encoding: chunked", body=b"0\r\n\r\n"), 400, CLOSES),
    (b"POST / HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 501, CLOSES),
]


class Http(unittest.TestCase):
    def ask(self, request):
        """The answer to a request after which the connection is closed."""
        with Server() as server, server.connect() as connection:
            connection.sendall(request)
            return receive_all(connection)

    def test_a_connection_is_kept_alive(self):
        with Server() as server, server.connect() as connection:
            for i in range(50):
                connection.sendall(get("/bytes/%d" % i))
                status, body = receive_answer(connection)
                self.assertEqual((status, len(body)), (200, i))

    def test_answers_come_in_order_whatever_the_pieces(self):
        asked = b"".join(get("/bytes/%d" % (i % 300)) for i in range(300))
        with Server() as server, server.connect() as connection:
            def send():
                for at in range(0, len(asked), 37):
                    connection.sendall(asked[at:at + 37])
            sender = threading.Thread(target=send)
            sender.start()
            for i in range(300):
                status, body = receive_answer(connection)
                self.assertEqual((status, len(body)), (200, i % 300))
            sender.join()

    def test_64_bytes_are_the_64_bytes(self):
        with Server() as server, server.connect() as connection:
            for _ in range(1000):
                connection.sendall(get("/bytes/64"))
                self.assertEqual(receive_answer(connection), (200, b"0123456789abcdef" * 4))

    def test_close_ends_the_connection(self):
        self.assertTrue(self.ask(get("/", "Connection: close")).endswith(b"Hello, world\n"))

    def test_head_has_no_body(self):
        answer = self.ask(b"HEAD / HTTP/1.0\r\n\r\n")
        self.assertIn(b"Content-Length: 13", answer)
        self.assertTrue(answer.endswith(b"\r\n\r\n"))

    def test_a_body_is_skipped(self):
        body = b"POST / HTTP/1.1\r\nHost: here\r\nContent-Length: 9000\r\n\r\n" + b"x" * 9000
        with Server() as server, server.connect() as connection:
            connection.sendall(body + get("/"))
            self.assertEqual(receive_answer(connection)[0], 405)
            self.assertEqual(receive_answer(connection)[0], 200)

    def test_each_head_gets_its_status(self):
        with Server() as server:
            for head, status, closes in HEADS:
                with self.subTest(head=head[:60]), server.connect() as connection:
                    connection.sendall(head)
                    self.assertEqual(receive_answer(connection)[0], status)
                    if closes:
                        self.assertEqual(receive_all(connection), b"")
                    else:
                        connection.sendall(get("/"))
                        self.assertEqual(receive_answer(connection)[0], 200)

    def test_a_slow_client_is_refused(self):
        with Server() as server, server.connect() as connection:
            connection.sendall(b"GET / HT")
            started = time.monotonic()
            self.assertEqual(int(receive_all(connection).split()[1]), 408)
            self.assertGreater(time.monotonic() - started, PATIENCE * 0.9)

    def test_an_idle_client_is_left(self):
        with Server() as server, server.connect() as connection:
            self.assertEqual(receive_all(connection), b"")

    def test_a_client_that_resets_disturbs_no_other(self):
        with Server() as server, server.connect() as connection:
            for _ in range(20):
                with server.connect() as other:
                    other.sendall(get("/bytes/4096") * 20)
                    other.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            connection.sendall(get("/"))
            self.assertEqual(receive_answer(connection)[0], 200)

    def test_many_clients_at_once(self):
        with Server() as server:
            clients = [server.connect() for _ in range(MANY)]
            for client in clients:
                client.sendall(get("/bytes/64", "Connection: close"))
            for client in clients:
                self.assertTrue(receive_all(client).endswith(b"0123456789abcdef" * 4))
                client.close()

    def test_the_end_is_graceful(self):
        with Server() as server, server.connect() as idle, server.connect() as busy:
            for connection in idle, busy:
                connection.sendall(get("/"))
                self.assertEqual(receive_answer(connection)[0], 200)
            busy.sendall(get("/"))
            self.assertEqual(server.end(), 0)
            self.assertTrue(receive_all(busy).endswith(b"Hello, world\n"))
            self.assertEqual(receive_all(idle), b"")
            with self.assertRaises(OSError):
                server.connect()


if __name__ == "__main__":
    del sys.argv[1:]
    unittest.main()
