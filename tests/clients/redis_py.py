"""What an application does with redis-py, in both protocols. Usage: redis_py.py PORT PASSWORD"""

import sys
import threading

import redis

port, password = int(sys.argv[1]), sys.argv[2]

for protocol in (2, 3):
    client = redis.Redis(port=port, password=password, protocol=protocol, client_name=f"py{protocol}", decode_responses=True)
    assert client.ping()
    client.flushall()
    assert client.client_getname() == f"py{protocol}"
    me = client.client_info()
    assert me["resp"] == str(protocol) and me["lib-name"].startswith("redis-py"), me
    assert client.set("key", "value", ex=10_000) is True
    assert client.get("key") == "value"
    assert 9_000 <= client.ttl("key") <= 10_000
    assert client.set("key", "other", nx=True) is None
    assert client.incrby("counter", 5) == 5
    assert client.mget("key", "none", "counter") == ["value", None, "5"]
    memory = client.config_get("maxmemory*")
    assert (memory["maxmemory"], memory["maxmemory-policy"]) == ("0", "noeviction"), memory
    assert client.config_set("timeout", 0) is True
    assert client.info()["redis_version"] == "7.0.15"
    assert client.info("keyspace")["db0"]["keys"] == 2
    assert client.command_count() > 50
    assert sorted(client.scan_iter()) == ["counter", "key"]

    # Far more in one pipeline than socket buffers hold; redis-py sends it all before it reads.
    pipeline = client.pipeline(transaction=False)
    for i in range(100_000):
        pipeline.set(f"pipe:{i % 1000}", "x" * 10)
    assert all(pipeline.execute())

    limiter = client.register_script("local n = redis.call('INCR', KEYS[1]) if n == 1 then redis.call('PEXPIRE', KEYS[1], ARGV[1]) end return n")
    assert [limiter(keys=["limit"], args=[3_600_000]) for _ in range(3)] == [1, 2, 3]
    client.script_flush()
    assert limiter(keys=["limit"], args=[3_600_000]) == 4, "redis-py loads the script again after NOSCRIPT"

    # Collections, and what a transaction does with a spoilt key.
    client.hset("h", mapping={"a": 1, "b": 2})
    assert client.hgetall("h") == {"a": "1", "b": "2"}
    client.zadd("z", {"one": 1, "half": 0.5})
    assert [tuple(pair) for pair in client.zrange("z", 0, -1, withscores=True)] == [("half", 0.5), ("one", 1.0)]
    client.sadd("s", "a", "b")
    assert client.smembers("s") == {"a", "b"}
    other = redis.Redis(port=port, password=password, protocol=protocol, decode_responses=True)
    with client.pipeline() as transaction:
        transaction.watch("h")
        other.hset("h", "a", 3)
        transaction.multi()
        transaction.hincrby("h", "b", 1)
        try:
            transaction.execute()
            raise AssertionError("a spoilt transaction must fail")
        except redis.WatchError:
            pass
    assert client.transaction(lambda t: (t.multi(), t.incr("counter")), "counter") == [6]

    # A consumer group, a waiting consumer, messages.
    client.xgroup_create("x", "group", id="0", mkstream=True)
    client.xadd("x", {"f": "v"}, id="1-1")
    got = client.xreadgroup("group", "consumer", {"x": ">"}, block=1000)
    assert got in ([["x", [("1-1", {"f": "v"})]]], {"x": [[("1-1", {"f": "v"})]]}), got
    assert client.xpending("x", "group")["pending"] == 1
    assert client.xack("x", "group", "1-1") == 1
    popped = []
    waiting = threading.Thread(target=lambda: popped.append(other.blpop("queue", 60)))
    waiting.start()
    client.rpush("queue", "job")
    waiting.join()
    assert [tuple(pair) for pair in popped] == [("queue", "job")], popped
    listener = client.pubsub(ignore_subscribe_messages=True)
    listener.subscribe("news")
    listener.psubscribe("n*")
    while client.publish("news", "hello") < 2:
        pass
    heard = set()
    while len(heard) < 2:
        message = listener.get_message(timeout=60)
        assert message is None or message["data"] == "hello", message
        heard |= {message["type"]} if message else set()
    assert heard == {"message", "pmessage"}
    listener.close()

    assert client.execute_command("RL.TAKE", "rl", "FIXED", 2, 60000)[:3] == [1, 2, 1]
    assert client.execute_command("CL.THROTTLE", "cell", 15, 30, 60)[:3] == [0, 16, 15]

    try:
        client.execute_command("INCR", "key")
        raise AssertionError("INCR of a text must fail")
    except redis.ResponseError as error:
        assert str(error) == "value is not an integer or out of range", error

admitted = []


def take():
    client = redis.Redis(port=port, password=password)
    admitted.append(sum(client.execute_command("RL.TAKE", "shared", "FIXED", 100, 3_600_000)[0] for _ in range(50)))


threads = [threading.Thread(target=take) for _ in range(20)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
assert sum(admitted) == 100, admitted

try:
    redis.Redis(port=port, password="wrong").ping()
    raise AssertionError("a wrong password must fail")
except redis.AuthenticationError:
    pass

print("ok")
