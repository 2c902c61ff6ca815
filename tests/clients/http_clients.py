"""Asks the HTTP port as real clients do, and as raw sockets can. Argument: the service's address.

The rules allow `ten` ten times a year for each value, so that every check has a value of its own. Prints what was skipped, and `ok`.
"""

import http.client
import json
import shutil
import socket
import subprocess
import sys
import tempfile

PATIENCE_SECONDS = 120
host, port = sys.argv[1].rsplit(":", 1)
port = int(port)
url = f"http://{host}:{port}"


def body(value):
    return json.dumps({"domain": "test", "descriptors": [{"entries": [{"key": "ten", "value": value}]}]})


def expect(what, got, wanted):
    assert got == wanted, f"{what}: {got!r} instead of {wanted!r}"


def raw(request, half_close=False):
    """Everything that is answered until the service closes."""
    with socket.create_connection((host, port), PATIENCE_SECONDS) as connection:
        connection.sendall(request)
        if half_close:
            connection.shutdown(socket.SHUT_WR)
        answer = b""
        while chunk := connection.recv(65536):
            answer += chunk
        return answer.decode()


def post(value, headers="", version="1.1"):
    text = body(value)
    return f"POST /json HTTP/{version}\r\nhost: x\r\n{headers}content-length: {len(text)}\r\n\r\n{text}".encode()


def python_client():
    client = http.client.HTTPConnection(host, port, timeout=PATIENCE_SECONDS)
    client.request("GET", "/healthcheck")
    reply = client.getresponse()
    expect("GET", (reply.status, reply.read()), (200, b"OK"))
    first = client.sock
    for count in range(12):
        client.request("POST", "/json", body("keep-alive"), {"content-type": "application/json"})
        reply = client.getresponse()
        expect("keep-alive", (reply.status, reply.read()[:2]), (200 if count < 10 else 429, b'{"'))
    expect("one connection", client.sock is first, True)
    # A body whose length is not known beforehand goes in chunks.
    client.request("POST", "/json", iter([body("chunks")[:20].encode(), body("chunks")[20:].encode()]), encode_chunked=True,
                   headers={"transfer-encoding": "chunked"})
    reply = client.getresponse()
    expect("chunks", (reply.status, json.loads(reply.read())["overallCode"]), (200, "OK"))
    client.request("HEAD", "/healthcheck")
    reply = client.getresponse()
    expect("HEAD", (reply.status, reply.getheader("content-length"), reply.read()), (200, "2", b""))
    client.request("GET", "/healthcheck")
    expect("after HEAD", client.getresponse().read(), b"OK")
    client.close()


def sockets():
    expect("HTTP/1.0 closes", raw(post("old", version="1.0"))[:12], "HTTP/1.0 200")
    answers = raw(post("pipelined") * 12 + b"GET /healthcheck HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")
    expect("pipelined", [answers.count(f"HTTP/1.1 {status}") for status in (200, 429)], [11, 2])
    for request, status in [
        (b"GET / HTTP/1.1\r\nhost: x\r\nlong: " + b"x" * (1 << 20) + b"\r\n\r\n", 431),
        (b"GET /" + b"x" * (1 << 20) + b" HTTP/1.1\r\nhost: x\r\n\r\n", 414),
        (b"POST /json HTTP/1.1\r\nhost: x\r\ncontent-length: 1x\r\n\r\n", 400),
        (b"POST /json HTTP/1.1\r\nhost: x\r\ncontent-length: 3\r\ntransfer-encoding: chunked\r\n\r\n", 400),
        (b"POST /json HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\nzz\r\n", 400),
        (b"GET / HTTP/3.0\r\nhost: x\r\n\r\n", 505),
    ]:
        try:
            answer = raw(request)
        except (BrokenPipeError, ConnectionResetError):
            # The service closes on what it does not read, which may take the answer from who still sends.
            assert len(request) > 1 << 16, request[:60]
            continue
        expect(request[:60], answer[:12], f"HTTP/1.1 {status}")
    answer = raw(post("half")[:-10], half_close=True)
    expect("a body that ends early", (answer[:12], "the body ends early" in answer), ("HTTP/1.1 400", True))
    whole = raw(post("half"), half_close=True)
    expect("an end after the request", whole[:12], "HTTP/1.1 200")


def curl(program):
    def run(*arguments):
        done = subprocess.run([program, "-sS", "--max-time", str(PATIENCE_SECONDS), *arguments], capture_output=True, check=True)
        return done.stdout.decode()

    status = ["-o", "/dev/null", "-w", "%{http_code}"]
    expect("curl", run(*status, "-d", body("curl"), f"{url}/json"), "200")
    expect("curl, HTTP/1.0", run("-0", *status, "-d", body("curl"), f"{url}/json"), "200")
    expect("curl -I", run("-I", f"{url}/healthcheck").split("\r\n")[0], "HTTP/1.1 200 OK")
    chunked = ["-H", "transfer-encoding: chunked"]
    expect("curl, chunks", run(*chunked, *status, "-d", body("curl"), f"{url}/json"), "200")
    # It waits for the service's word before it sends the body.
    waits = ["-H", "expect: 100-continue", "--expect100-timeout", str(PATIENCE_SECONDS)]
    expect("curl, Expect", run(*waits, *status, "-d", body("curl"), f"{url}/json"), "200")
    own = ["-w", "%{http_code} %{num_connects}\n", "-o", "/dev/null"]
    twice = run(*own, f"{url}/healthcheck", *own, f"{url}/healthcheck")
    expect("curl, one connection", twice.split("\n")[:2], ["200 1", "200 0"])
    refused = run("-w", "\n%{http_code}", "-d", body("curl"), f"{url}/v1/decide")
    expect("curl without a type", ("content-type: application/json" in refused, refused[-3:]), (True, "415"))


def ab(program):
    with tempfile.NamedTemporaryFile("w") as file:
        file.write(body("ab"))
        file.flush()
        # Without -k it speaks HTTP/1.0, with it the Keep-Alive of those days.
        for keep in [[], ["-k"]]:
            asked = [program, "-q", "-l", *keep, "-n", "40", "-c", "4", "-p", file.name, "-T", "application/json", f"{url}/json"]
            done = subprocess.run(asked, capture_output=True, check=True, timeout=PATIENCE_SECONDS)
            text = done.stdout.decode()
            assert "Complete requests:      40\n" in text and "Failed requests:        0\n" in text, text
            assert not keep or "Keep-Alive requests:    40\n" in text, text


def wrk(program):
    done = subprocess.run([program, "-t1", "-c4", "-d1s", f"{url}/healthcheck"], capture_output=True, check=True, timeout=PATIENCE_SECONDS)
    text = done.stdout.decode()
    assert " 0 requests in" not in text and "Socket errors" not in text and "Non-2xx" not in text, text


python_client()
sockets()
for program, check in [("curl", curl), ("ab", ab), ("wrk", wrk)]:
    found = shutil.which(program)
    if found:
        check(found)
    else:
        print(f"without {program}")
print("ok")
