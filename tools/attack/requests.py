"""Hostile requests to the lab: it answers each, or hangs up, and stays up; its memory is flat."""

from __future__ import annotations

import gc
import http.client
import json
import random
import socket
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import torch

from mpgd_lab.lab.server import Lab, make_server
from tests.mpgd_lab.lab.test_server import ask

COUNT = 2300
MANY = 10_000
GROWTH = 4 << 20  # bytes that memory may grow by, over all of them
WORDS = [
    "gamma",
    "beta",
    "force",
    "decay",
    "eta",
    "seed",
    "steps",
    "scheme",
    "landscape",
    "x" * 300,
    "",
    "%00",
]
VALUES = ["nan", "inf", "-1", "1e400", "9" * 400, "0.7", "plain", "'; --", "%ff", "\u0661", "1_0"]
PATHS = [
    "/",
    "/api/orbit",
    "/api/sums",
    "/api/descent",
    "/api/wells",
    "/../../etc/passwd",
    "/%2e%2e/",
    "*",
    "//",
]
METHODS = ["GET", "HEAD", "POST", "PUT", "get", "G" * 50, "CONNECT", "\x00"]
HEADERS = [
    "Host: evil.example",
    "Content-Length: -1",
    "Content-Length: 999999999",
    "Expect: 100-continue",
    "Transfer-Encoding: chunked",
    "Range: bytes=0-",
    "X: " + "y" * 9000,
    ": nothing",
    "Host:",
    "Sec-Fetch-Site: cross-site",
    "Connection: upgrade",
    "Cookie: \xff",
]


@contextmanager
def running() -> Iterator[Lab]:
    """Serve the lab on a free port."""
    torch.set_num_threads(1)
    with make_server(0) as lab:
        lab.patience = 0.2
        thread = threading.Thread(target=lab.serve_forever)
        thread.start()
        yield lab
        lab.shutdown()
        thread.join()


def attack(seed: int) -> Iterator[str | None]:
    """Send random bytes and half-right requests; every 100 ask for the page."""
    with running() as lab:
        for number in range(COUNT):
            dice = random.Random(f"{seed} {number}")
            sent = hostile(lab, dice)
            problem = answered(lab, sent, dice.random() < 0.1)
            if number % 100 == 99 and not is_up(lab):
                problem = "the lab is down"
            yield problem and f"number {number}, {sent[:80]!r}: {problem}"


def hostile(lab: Lab, dice: random.Random) -> bytes:
    """Return what is sent: noise, or a request with wrong parts."""
    if dice.random() < 0.2:
        return dice.randbytes(dice.randrange(1, 2000))
    pairs = [f"{dice.choice(WORDS)}={dice.choice(VALUES)}" for _ in range(dice.randrange(12))]
    query = "?" + "&".join([*pairs, "steps=10"])
    host = [f"Host: 127.0.0.1:{lab.server_address[1]}"] if dice.random() < 0.8 else []
    headers = host + dice.sample(HEADERS, dice.randrange(3))
    version = dice.choice(["1.1", "1.0", "9"])
    line = f"{dice.choice(METHODS)} {dice.choice(PATHS)}{query} HTTP/{version}"
    text = "\r\n".join([line, *headers]) + dice.choice(["\r\n\r\n", "\r\n\r\n", "\r\n", ""])
    return text.encode("utf-8", "replace")


def answered(lab: Lab, sent: bytes, hangs_up: bool) -> str | None:
    """Send it and read the answer; return what is wrong with that."""
    with socket.create_connection(lab.server_address[:2], timeout=60) as line:
        try:
            line.sendall(sent)
            if hangs_up:
                return None
            line.shutdown(socket.SHUT_WR)
            answer = b"".join(iter(lambda: line.recv(65536), b""))
        except TimeoutError:
            return "no answer"
        except OSError:
            return None  # it hung up
    head, _, body = answer.partition(b"\r\n\r\n")
    if head.startswith(b"HTTP/1.1 500"):
        return f"an internal error: {body[:200]!r}"
    if body.startswith(b"{"):
        json.JSONDecoder().raw_decode(body.decode())
    return None


def is_up(lab: Lab) -> bool:
    """Return whether the lab serves its page."""
    address = ("127.0.0.1", lab.server_address[1])
    with closing(http.client.HTTPConnection(*address, timeout=60)) as connection:
        connection.request("GET", "/")
        return connection.getresponse().status == 200


def flat(seed: int) -> Iterator[str | None]:
    """Ask ten thousand times; memory after the first thousand must stay."""
    with running() as lab:
        ask(lab, MANY // 10)
        gc.collect()
        before = resident()
        ask(lab, MANY - MANY // 10)
        gc.collect()
        grown = resident() - before
    problem = f"memory grew by {grown:,} bytes" if grown > GROWTH else None
    yield from [problem] + [None] * (MANY - 1)


def resident() -> int:
    """Return the bytes of memory this process has."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096
