"""redis-py as the client of a cluster of one node. Arguments: port, password."""

import sys

import redis
from redis.cluster import RedisCluster

port, password = int(sys.argv[1]), sys.argv[2]
client = RedisCluster(host="127.0.0.1", port=port, password=password)
assert len(client.get_nodes()) == 1, client.get_nodes()
assert client.set("key", "value") and client.get("key") == b"value"
assert client.keyslot("key") == client.cluster_keyslot("key") == 12539

# Keys of several slots: redis-py sends a command for each.
assert client.mset_nonatomic({f"key:{i}": i for i in range(100)})
assert client.mget_nonatomic([f"key:{i}" for i in range(100)]) == [str(i).encode() for i in range(100)]
assert client.mset({"{tag}a": 1, "{tag}b": 2}) and client.mget("{tag}a", "{tag}b") == [b"1", b"2"]

pipe = client.pipeline()
for i in range(100):
    pipe.incr(f"key:{i}")
assert pipe.execute() == list(range(1, 101))

take = client.register_script("return redis.call('INCRBY', KEYS[1], ARGV[1])")
assert take(keys=["{tag}a"], args=[5]) == 6
assert client.dbsize() == 103
assert len(list(client.scan_iter(match="key:*"))) == 100
assert client.cluster_countkeysinslot(client.keyslot("key")) == 1
assert client.cluster_get_keys_in_slot(client.keyslot("key"), 10) == ["key"]

for refused in (lambda: client.eval("return 1", 2, "a", "b"), lambda: client.execute_command("SUNION", "a", "b")):
    try:
        refused()
        raise AssertionError("keys of several slots must fail")
    except (redis.exceptions.RedisClusterException, redis.exceptions.ResponseError):
        pass
print("ok")
