import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import redis.clients.jedis.DefaultJedisClientConfig;
import redis.clients.jedis.HostAndPort;
import redis.clients.jedis.Jedis;
import redis.clients.jedis.JedisPool;
import redis.clients.jedis.JedisPubSub;
import redis.clients.jedis.Pipeline;
import redis.clients.jedis.RedisProtocol;
import redis.clients.jedis.Response;
import redis.clients.jedis.StreamEntryID;
import redis.clients.jedis.Transaction;
import redis.clients.jedis.exceptions.JedisDataException;
import redis.clients.jedis.exceptions.JedisNoScriptException;
import redis.clients.jedis.params.SetParams;
import redis.clients.jedis.params.XAddParams;
import redis.clients.jedis.resps.Tuple;

/** What an application does with Jedis, in both protocols. Usage: JedisProgram PORT PASSWORD */
public class JedisProgram {
    static void check(boolean holds, String what) {
        if (!holds) {
            throw new AssertionError(what);
        }
    }

    static void same(Object got, Object wanted) {
        check(wanted.equals(got), "got " + got + ", wanted " + wanted);
    }

    public static void main(String[] args) throws Exception {
        HostAndPort address = new HostAndPort("127.0.0.1", Integer.parseInt(args[0]));
        for (RedisProtocol protocol : List.of(RedisProtocol.RESP2, RedisProtocol.RESP3)) {
            DefaultJedisClientConfig config = DefaultJedisClientConfig.builder()
                .protocol(protocol).password(args[1]).clientName("jedis").socketTimeoutMillis(60000).build();
            try (Jedis jedis = new Jedis(address, config); Jedis other = new Jedis(address, config)) {
                jedis.flushAll();
                data(jedis);
                together(jedis, other);
                scripts(jedis);
                messages(jedis, address, config);
            }
            pooled(address, config);
        }
        System.out.println("ok");
    }

    static void data(Jedis jedis) {
        same(jedis.set("key", "value", SetParams.setParams().nx().ex(10_000)), "OK");
        check(jedis.set("key", "other", SetParams.setParams().nx()) == null, "NX on a present key");
        same(jedis.get("key"), "value");
        same(jedis.incrBy("counter", 5), 5L);
        same(jedis.hset("h", Map.of("a", "1", "b", "2")), 2L);
        same(jedis.hgetAll("h"), Map.of("a", "1", "b", "2"));
        same(jedis.zadd("z", Map.of("one", 1.0, "half", 0.5)), 2L);
        same(jedis.zrangeWithScores("z", 0, -1), List.of(new Tuple("half", 0.5), new Tuple("one", 1.0)));
        same(jedis.sadd("s", "a", "b"), 2L);
        same(jedis.sismember("s", "a"), true);
        same(jedis.geoadd("g", 13.361389, 38.115556, "Palermo"), 1L);
        same(jedis.pfadd("hll", "a", "b", "c"), 1L);
        same(jedis.pfcount("hll"), 3L);
        StreamEntryID id = jedis.xadd("x", Map.of("f", "v"), XAddParams.xAddParams().id(1, 1));
        same(id.toString(), "1-1");
        same(jedis.xrange("x", "-", "+").get(0).getFields(), Map.of("f", "v"));
        try {
            jedis.incr("key");
            check(false, "INCR of a text must fail");
        } catch (JedisDataException error) {
            same(error.getMessage(), "ERR value is not an integer or out of range");
        }
    }

    static void together(Jedis jedis, Jedis other) throws Exception {
        Pipeline pipeline = jedis.pipelined();
        List<Response<Long>> piped = new ArrayList<>();
        for (int i = 0; i < 5000; i++) {
            piped.add(pipeline.incr("piped"));
        }
        pipeline.sync();
        same(piped.get(4999).get(), 5000L);
        jedis.watch("key");
        other.set("key", "changed");
        Transaction spoilt = jedis.multi();
        spoilt.set("key", "mine");
        check(spoilt.exec() == null, "a spoilt transaction must fail");
        Transaction transaction = jedis.multi();
        Response<Long> pushed = transaction.rpush("l", "a", "b");
        transaction.exec();
        same(pushed.get(), 2L);
        List<List<String>> popped = new ArrayList<>();
        Thread waiting = new Thread(() -> popped.add(other.blpop(0, "queue")));
        waiting.start();
        jedis.rpush("queue", "job");
        waiting.join(60000);
        same(popped, List.of(List.of("queue", "job")));
    }

    static void scripts(Jedis jedis) {
        same(jedis.eval("return {KEYS[1], ARGV[1]}", 1, "k", "a"), List.of("k", "a"));
        String sha = jedis.scriptLoad("return redis.call('INCR', KEYS[1])");
        same(jedis.evalsha(sha, 1, "scripted"), 1L);
        jedis.scriptFlush();
        try {
            jedis.evalsha(sha, 1, "scripted");
            check(false, "a flushed script must be gone");
        } catch (JedisNoScriptException expected) {
            check(expected.getMessage().startsWith("NOSCRIPT"), expected.getMessage());
        }
    }

    static void messages(Jedis jedis, HostAndPort address, DefaultJedisClientConfig config) throws Exception {
        CountDownLatch ready = new CountDownLatch(1);
        List<String> heard = new ArrayList<>();
        JedisPubSub listener = new JedisPubSub() {
            @Override
            public void onSubscribe(String channel, int count) {
                ready.countDown();
            }

            @Override
            public void onMessage(String channel, String message) {
                heard.add(channel + ":" + message);
                unsubscribe();
            }
        };
        Thread thread = new Thread(() -> {
            try (Jedis subscriber = new Jedis(address, config)) {
                subscriber.subscribe(listener, "news");
            }
        });
        thread.start();
        check(ready.await(60, TimeUnit.SECONDS), "subscribed");
        same(jedis.publish("news", "hello"), 1L);
        thread.join(60000);
        same(heard, List.of("news:hello"));
    }

    static void pooled(HostAndPort address, DefaultJedisClientConfig config) throws Exception {
        try (JedisPool pool = new JedisPool(address, config)) {
            List<Thread> threads = new ArrayList<>();
            for (int i = 0; i < 4; i++) {
                Thread thread = new Thread(() -> {
                    for (int n = 0; n < 250; n++) {
                        try (Jedis jedis = pool.getResource()) {
                            jedis.incr("pooled");
                        }
                    }
                });
                thread.start();
                threads.add(thread);
            }
            for (Thread thread : threads) {
                thread.join(60000);
            }
            try (Jedis jedis = pool.getResource()) {
                same(jedis.get("pooled"), "1000");
                jedis.del("pooled");
            }
        }
    }
}
