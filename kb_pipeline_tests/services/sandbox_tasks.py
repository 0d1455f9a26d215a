"""Functions that the sandbox tests run in a child process; they must be importable there by name."""

import ctypes
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

from kb_pipeline.errors import Corrupt, Gone
from kb_pipeline.records import RawItem


def double(number):
    print("noise on stdout")
    print("noise on stderr", file=sys.stderr)
    return 2 * number


def echo(raw: RawItem):
    return raw


def sleep(seconds):
    time.sleep(seconds)


def exit_at_once(raw=None):
    os._exit(3)


def crash():
    ctypes.string_at(0)


def eat_memory():
    kept = []
    while True:
        kept.append(bytearray(8_000_000))


def fail(message):
    raise Gone(message, 3.5)


def index_error():
    return [][1]


def forbidden_result():
    return Path("/")


def open_socket():
    socket.create_connection(("127.0.0.1", 9), timeout=1)


def open_socket_in_grandchild():
    code = "import socket; socket.create_connection(('192.0.2.1', 9), timeout=2)"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stderr


def environment():
    return dict(os.environ)


def process_id(_=None):
    return os.getpid()


def odd_ones_fail(number):
    if number == 4:
        os._exit(1)
    if number % 2:
        raise Corrupt(f"unit {number} is odd")
    return number
