// What an application does with ioredis. Usage: ioredis.js PORT PASSWORD
const assert = require("node:assert");
const Redis = require("ioredis");

const [port, password] = [Number(process.argv[2]), process.argv[3]];

async function main() {
  // The ready check reads INFO and waits while it says that the server is loading.
  const redis = new Redis({ port, password, connectionName: "io", db: 2, enableReadyCheck: true });
  assert.strictEqual(await redis.ping(), "PONG");
  await redis.flushall();
  assert.strictEqual(await redis.client("GETNAME"), "io");
  assert.strictEqual(await redis.set("key", "value", "EX", 100, "NX"), "OK");
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
  assert.strictEqual(await redis.limit("limited", 10), 1);
  assert.strictEqual(await redis.limit("limited", 10), 2);

  const keys = [];
  for await (const page of redis.scanStream({ match: "*ed" })) keys.push(...page);
  assert.deepStrictEqual(keys.sort(), ["limited", "piped"]);

  const decision = await redis.call("RL.TAKE", "rl", "FIXED", "2", "60000");
  assert.deepStrictEqual(decision.slice(0, 3), [1, 2, 1]);
  await assert.rejects(redis.incr("key"), /^ReplyError: ERR value is not an integer or out of range$/);

  // A connection that is killed comes back by itself, on its database.
  const other = new Redis({ port, password });
  const id = await redis.client("ID");
  assert.strictEqual(await other.client("KILL", "ID", id), 1);
  assert.strictEqual(await redis.get("key"), "value");
  assert.notStrictEqual(await redis.client("ID"), id);
  await other.quit();
  await redis.quit();
  console.log("ok");
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
