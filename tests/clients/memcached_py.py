"""pymemcache on the store's Memcached port: values, flags, cas, numbers, many keys, expiry, and the same keys by redis-py."""

import sys

import redis
from pymemcache.client.base import Client
from pymemcache.exceptions import MemcacheIllegalInputError
from pymemcache.serde import pickle_serde

host, port, resp_port = "127.0.0.1", int(sys.argv[1]), int(sys.argv[2])
cache = Client((host, port), serde=pickle_serde, connect_timeout=180, timeout=180)
store = redis.Redis(host=host, port=resp_port)

assert cache.version().startswith(b"1.6")
assert cache.set("text", "a value", noreply=False)
assert cache.get("text") == "a value"
assert cache.set("object", {"a": [1, 2.5, None]}, expire=10_000, noreply=False)
assert cache.get("object") == {"a": [1, 2.5, None]}
assert 9_000 <= store.ttl("object") <= 10_000
assert cache.set("int", 7, noreply=False)
assert cache.get("int") == 7
assert store.get("int") == b"7"

assert cache.add("text", "other", noreply=False) is False
assert cache.replace("none", "other", noreply=False) is False
assert cache.append("text", "!", noreply=False)
assert store.get("text") == b"a value!"

value, cas = cache.gets("text")
assert cache.cas("text", "first", cas, noreply=False)
assert cache.cas("text", "second", cas, noreply=False) is False
value, cas = cache.gets("text")
store.set("text", "by another protocol")
assert cache.cas("text", "third", cas, noreply=False) is False
assert cache.cas("none", "x", cas, noreply=False) is None

assert cache.set("count", "10", noreply=False)
assert cache.incr("count", 5, noreply=False) == 15
assert cache.decr("count", 100, noreply=False) == 0
assert cache.incr("none", 1, noreply=False) is None

names = ["many:%d" % i for i in range(500)]
assert cache.set_many({name: name for name in names}, noreply=False) == []
found = cache.get_many(names + ["none"])
assert found == {name: name for name in names}
assert len(cache.gets_many(names[:10])) == 10
assert cache.delete_many(names, noreply=False)
assert cache.get_many(names) == {}

assert cache.touch("text", 5_000, noreply=False)
assert 4_000 <= store.ttl("text") <= 5_000
assert cache.touch("text", 0, noreply=False)
assert cache.get("text") in ("by another protocol", b"by another protocol")
assert store.ttl("text") == -1
assert cache.delete("text", noreply=False)
assert cache.get("text") is None

large = "x" * 500_000
assert cache.set("large", large, noreply=False)
assert cache.get("large") == large
try:
    cache.set("two words", "x", noreply=False)
    raise AssertionError("a key with a blank is refused")
except MemcacheIllegalInputError:
    pass

for i in range(100):
    cache.set("quiet", i, noreply=True)
assert cache.get("quiet") == 99
stats = cache.stats()
assert stats[b"curr_items"] > 0 and stats[b"get_hits"] > 0, stats
assert cache.flush_all(noreply=False)
assert cache.get("large") is None
assert store.dbsize() == 0
print("ok")
