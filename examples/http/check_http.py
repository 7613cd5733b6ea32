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


class Http(unittest.TestCase):
    def ask(self, request):
        """The answer to a request after which the connection is closed."""
        with Server() as server, server.connect() as connection:
            connection.sendall(request)
            return receive_all(connection)

    def status(self, request):
        return int(self.ask(request).split()[1])

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
        self.assertEqual(self.status(b"GET / HTTP/1.0\r\n\r\n"), 200)

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

    def test_bad_requests_are_refused(self):
        for request, status in {
            b"nonsense\r\n\r\n": 400,
            b"GET /\r\n\r\n": 400,
            b"GET / HTTP/1.1\r\n\r\n": 400,
            b"GET / HTTP/1.1\r\nHost: here\r\nno colon\r\n\r\n": 400,
            b"GET / HTTP/1.1\r\nHost: here\r\nContent-Length: -1\r\n\r\n": 400,
            b"GET / HTTP/1.1\r\nHost: here\r\nTransfer-Encoding: chunked\r\n\r\n": 501,
            b"GET / HTTP/2.0\r\n\r\n": 505,
            b"G\0T / HTTP/1.1\r\nHost: here\r\n\r\n": 400,
            get("/nothing", "Connection: close"): 404,
            get("/bytes/4097", "Connection: close"): 404,
            get("/" + "x" * 4096)[:4096]: 431,  # no more: what is left unread would reset
        }.items():
            with self.subTest(request=request[:40]):
                self.assertEqual(self.status(request), status)

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
