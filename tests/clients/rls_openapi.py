"""Holds the HTTP interface to its own OpenAPI document. Argument: the service's address."""

import copy
import json
import sys
import urllib.error
import urllib.request

from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator, validate

PATIENCE_SECONDS = 60
base = f"http://{sys.argv[1]}"


def call(method, path, body=None, content_type="application/json"):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(base + path, data, {"content-type": content_type}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=PATIENCE_SECONDS) as reply:
            return reply.status, reply.headers, reply.read().decode()
    except urllib.error.HTTPError as reply:
        return reply.status, reply.headers, reply.read().decode()


document = json.loads(call("GET", "/openapi.json")[2])
validate(document, cls=OpenAPIV31SpecValidator)


def resolved(node):
    """The document without references."""
    if isinstance(node, dict):
        if "$ref" in node:
            target = document
            for part in node["$ref"].removeprefix("#/").split("/"):
                target = target[part]
            return resolved(target)
        return {key: resolved(value) for key, value in node.items()}
    return [resolved(item) for item in node] if isinstance(node, list) else node


paths = resolved(document["paths"])


def answered(method, path, body=None, content_type="application/json"):
    """An answer that the document foresees, and its body."""
    status, headers, text = call(method.upper(), path, body, content_type)
    responses = paths[path][method]["responses"]
    assert str(status) in responses, (method, path, status, text)
    kind = headers["content-type"].split(";")[0]
    content = responses[str(status)]["content"]
    assert kind in content, (method, path, status, kind)
    value = json.loads(text) if kind.endswith("json") else text
    Draft202012Validator(content[kind]["schema"]).validate(value)
    return status, headers, value


for path, methods in paths.items():
    for method in methods:
        status, _, _ = answered(method, path, {} if method == "post" else None)
        assert status != 404, path


def check(*pairs, **more):
    entries = [{"key": key, "value": value} for key, value in pairs]
    return {"domain": "test", "descriptors": [{"entries": entries, **more}]}


for want in (200, 429):
    request = check(("one", "openapi"))
    Draft202012Validator(resolved(document["components"]["schemas"]["DecideRequest"])).validate(request)
    status, headers, verdict = answered("post", "/v1/decide", request)
    assert status == want, verdict
    assert headers["ratelimit-policy"] == '"one-per-year";q=1;w=31536000', headers
    assert ("retry-after" in headers) == (want == 429), headers
many = {"checks": [check(("ten", "openapi")), check(("one", "openapi")), {"domain": "", "descriptors": []}]}
status, _, results = answered("post", "/v1/decide", many)
assert status == 200 and [result.get("code") for result in results["results"]] == ["ok", "over_limit", None], results
for pairs in ([("ten", "x")], [("hundred", "x"), ("user", "bob")], [("no", "x")], [("open", "x")], [("shared", "files-1")]):
    status, _, explained = answered("post", "/v1/explain", check(*pairs))
    assert status == 200, explained
held = check(("ten", "held"), hitsAddend=6)
for path, more, want in (
    ("/v1/reserve", {"id": "a", "ttl_ms": 3600000}, 200),
    ("/v1/reserve", {"id": "b"}, 429),
    ("/v1/commit", {"id": "a", "actual": 2}, 200),
    ("/v1/commit", {"id": "a", "actual": 2}, 200),
    ("/v1/commit", {"id": "nobody", "actual": 2}, 404),
    ("/v1/reserve", {}, 200),
    ("/v1/cancel", {"id": "nobody"}, 404),
    ("/v1/cancel", {}, 400),
):
    status, _, value = answered("post", path, {**held, **more})
    assert status == want, (path, more, value)
_, _, reserved = answered("post", "/v1/reserve", check(("ten", "other")))
status, _, cancelled = answered("post", "/v1/cancel", {**check(("ten", "other")), "id": reserved["id"]})
assert status == 200 and cancelled["limits"][0]["released"] == 1, cancelled
_, _, placed = answered("post", "/v1/decide", check(("jobs", "x")))
for want in (200, 404):
    status, _, released = answered("post", "/v1/release", {**check(("jobs", "x")), "id": placed["lease"]})
    assert status == want, released
assert answered("post", "/v1/decide", check(("ten", "x")), "text/xml")[0] == 415
assert call("GET", "/v1/decide")[0] == 405

# Any value in the place of any other: what the document takes, the service takes.
VALUES = [None, 0, "05", -1, 1.5, 2**32, 2**64 - 1, 2**64, "4294967296", "9" * 19, "9" * 20, True, [], {}, "x" * 257]


def places(value, at=()):
    """The ways to all values within a value."""
    yield at
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in inner:
        yield from places(item, (*at, key))


def changed(body):
    """The body with one value put in the place of another, or left out."""
    for at in places(body):
        for value in VALUES if not at else [*VALUES, changed]:
            whole = {"": copy.deepcopy(body)}
            *way, last = ("", *at)
            place = whole
            for key in way:
                place = place[key]
            if value is changed:
                del place[last]
            else:
                place[last] = value
            yield whole[""]


override = {"requestsPerUnit": 5, "unit": "DAY"}
one = {**check(("ten", "any"), limit=override, hitsAddend=1, isNegativeHits=False), "hitsAddend": 1}
units = {**check(("ten", "any")), "id": "any", "hits_addend": 1}
# Names as in the messages of Envoy, which may take the place of those above.
named = {"requests_per_unit": 5, "unit": "DAY"}
snake = {**check(("ten", "any"), limit=named, hits_addend=1, is_negative_hits=False), "hits_addend": 1}
camel = {**check(("ten", "any")), "id": "any", "hitsAddend": 1}
for path, body in (
    ("/v1/decide", {**one, "headers": "none"}),
    ("/v1/decide", {"checks": [one]}),
    ("/v1/explain", one),
    ("/json", one),
    ("/v1/reserve", {**units, "ttl_ms": 1}),
    ("/v1/commit", {**units, "actual": 1}),
    ("/v1/release", units),
    ("/v1/decide", {**snake, "headers": "none"}),
    ("/v1/decide", {"checks": [snake]}),
    ("/v1/explain", snake),
    ("/json", snake),
    ("/v1/reserve", {**camel, "ttl_ms": 1}),
    ("/v1/commit", {**camel, "actual": 1}),
    ("/v1/release", camel),
):
    taken = Draft202012Validator(paths[path]["post"]["requestBody"]["content"]["application/json"]["schema"])
    assert taken.is_valid(body), (path, body)
    twice = {"hitsAddend": 1, "hits_addend": 1}
    assert not taken.is_valid({**body, **twice}) and answered("post", path, {**body, **twice})[0] == 400, path
    for request in changed(body):
        status, _, value = answered("post", path, request)
        assert status != 400 or not taken.is_valid(request), (path, request, value)
print("ok")
