"""Django's cache on its Redis backend. Usage: django_cache.py PORT PASSWORD"""

import sys
import time

import django
from django.conf import settings

location = f"redis://:{sys.argv[2]}@127.0.0.1:{sys.argv[1]}/4"
settings.configure(CACHES={"default": {"BACKEND": "django.core.cache.backends.redis.RedisCache", "LOCATION": location, "KEY_PREFIX": "app"}})
django.setup()

from django.core.cache import cache  # noqa: E402  (it reads the settings)

cache.clear()
cache.set("object", {"a": [1, 2, 3]}, 10_000)
assert cache.get("object") == {"a": [1, 2, 3]}
assert cache.get("none", "default") == "default"
assert cache.add("object", 1) is False and cache.add("new", 1) is True
assert cache.incr("new", 5) == 6 and cache.decr("new") == 5
try:
    cache.incr("none")
    raise AssertionError("incr of an absent key must fail")
except ValueError:
    pass
cache.set_many({f"k{i}": i for i in range(100)}, timeout=10_000)
assert cache.get_many([f"k{i}" for i in range(100)]) == {f"k{i}": i for i in range(100)}
cache.delete_many(["k0", "k1"])
assert cache.get("k0") is None and cache.has_key("k2")
assert cache.get_or_set("computed", lambda: 7) == 7
assert cache.touch("k2", 20_000) is True and cache.touch("none") is False
cache.set("short", 1, timeout=0.05)
deadline = time.monotonic() + 60
while cache.get("short") is not None:
    assert time.monotonic() < deadline
cache.set("version", 1, version=2)
assert cache.get("version") is None and cache.incr_version("version", version=2) == 3
cache.clear()
assert cache.get("object") is None
print("ok")
