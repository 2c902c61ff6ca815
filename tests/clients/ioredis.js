// What an application does with ioredis, or with iovalkey, which has the same interface. Usage: ioredis.js PORT PASSWORD MODULE
const assert = require("node:assert");
const Redis = require(process.argv[4]);

const [port, password] = [Number(process.argv[2]), process.argv[3]];

async function main() {
  // The ready check reads INFO and waits while it says that the server is loading.
  const redis = new Redis({ port, password, connectionName: "io", db: 2, enableReadyCheck: true });
  assert.strictEqual(await redis.ping(), "PONG");
  await redis.flushall();
  assert.strictEqual(await redis.client("GETNAME"), "io");
  assert.strictEqual(await redis.set("key", "value", "EX", 10000, "NX"), "OK");
  assert.strictEqual(await redis.get("key"), "value");
  assert.deepStrictEqual(await redis.getBuffer("key"), Buffer.from("value"));
  assert.strictEqual(await redis.incr("counter"), 1);
  assert.deepStrictEqual(await redis.mget("key", "none"), ["value", null]);
  assert.deepStrictEqual(await redis.config("GET", "appendonly"), ["appendonly", "no"]);

  const pipeline = redis.pipeline();
  for (let i = 0; i < 10000; i++) pipeline.incr("piped");
  const results = await pipeline.exec();
  assert.deepStrictEqual(results[9999], [null, 10000]);

  // Runs EVALSHA, and EVAL after NOSCRIPT.
  redis.defineCommand("limit", {
    numberOfKeys: 1,
    lua: "local n = redis.call('INCR', KEYS[1]) if n == 1 then redis.call('EXPIRE', KEYS[1], ARGV[1]) end return n",
  });
  assert.strictEqual(await redis.limit("limited", 10000), 1);
  assert.strictEqual(await redis.limit("limited", 10000), 2);

  const keys = [];
  for await (const page of redis.scanStream({ match: "*ed" })) keys.push(...page);
  assert.deepStrictEqual(keys.sort(), ["limited", "piped"]);

  const decision = await redis.call("RL.TAKE", "rl", "FIXED", "2", "60000");
  assert.deepStrictEqual(decision.slice(0, 3), [1, 2, 1]);
  await assert.rejects(redis.incr("key"), /^ReplyError: ERR value is not an integer or out of range$/);

  // A transaction that another client spoils, and one that goes through.
  const other = new Redis({ port, password, db: 2 });
  await redis.watch("key");
  await other.set("key", "changed");
  assert.strictEqual(await redis.multi().set("key", "mine").exec(), null);
  const done = await redis.multi().hset("h", "f", "v").rpush("l", "a", "b").zadd("z", 1.5, "m").exec();
  assert.deepStrictEqual(done, [[null, 1], [null, 2], [null, 1]]);
  assert.deepStrictEqual(await redis.hgetall("h"), { f: "v" });
  assert.deepStrictEqual(await redis.zrange("z", 0, -1, "WITHSCORES"), ["m", "1.5"]);
  await redis.set("key", "value");

  // A consumer that waits, and what wakes it.
  const waiting = redis.duplicate();
  const popped = waiting.blpop("queue", 0);
  await until(async () => (await other.client("LIST")).includes("cmd=blpop"));
  await other.rpush("queue", "job");
  assert.deepStrictEqual(await popped, ["queue", "job"]);
  await redis.xadd("stream", "1-1", "f", "v");
  assert.deepStrictEqual(await waiting.xread("BLOCK", 10, "STREAMS", "stream", "0"), [["stream", [["1-1", ["f", "v"]]]]]);

  // Messages by channel and by pattern.
  const messages = [];
  const subscriber = redis.duplicate();
  subscriber.on("message", (channel, message) => messages.push([channel, message]));
  subscriber.on("pmessage", (pattern, channel, message) => messages.push([pattern, channel, message]));
  assert.strictEqual(await subscriber.subscribe("news"), 1);
  assert.strictEqual(await subscriber.psubscribe("n*"), 2);
  assert.strictEqual(await other.publish("news", "hello"), 2);
  await until(() => messages.length === 2);
  assert.deepStrictEqual(messages, [["news", "hello"], ["n*", "news", "hello"]]);
  for (const client of [waiting, subscriber]) client.disconnect();

  // A connection that is killed comes back by itself, on its database.
  const id = await redis.client("ID");
  assert.strictEqual(await other.client("KILL", "ID", id), 1);
  assert.strictEqual(await redis.get("key"), "value");
  assert.notStrictEqual(await redis.client("ID"), id);
  await other.quit();
  await redis.quit();
  console.log("ok");
}

async function until(holds) {
  for (let i = 0; !(await holds()); i++) {
    assert.ok(i < 3000, "waited for too long");
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
