// What an application does with valkey-glide. Usage: glide.js PORT PASSWORD [reference]
const assert = require("node:assert");
const { GlideClient, Batch, Script, ProtocolVersion, TimeUnit, Decoder } = require("@valkey/valkey-glide");

const [port, password] = [Number(process.argv[2]), process.argv[3]];
// Redis 7.0, with which this program is checked, has no `server` table in scripts.
const reference = process.argv[4] === "reference";

async function connect(protocol, more = {}) {
  return GlideClient.createClient({
    addresses: [{ host: "127.0.0.1", port }],
    credentials: { password },
    clientName: "glide",
    requestTimeout: 60000,
    protocol,
    ...more,
  });
}

async function listen(client, protocol) {
  let heard;
  const message = new Promise((resolve) => (heard = resolve));
  const subscriber = await connect(protocol, {
    pubsubSubscriptions: {
      channelsAndPatterns: { 0: new Set(["news"]) },
      callback: (received) => heard(received),
    },
  });
  let receivers = 0;
  for (let i = 0; receivers === 0; i++) {
    assert.ok(i < 3000, "waited for too long");
    receivers = Number(await client.publish("hello", "news"));
    if (receivers === 0) await new Promise((resolve) => setTimeout(resolve, 10));
  }
  const received = await message;
  assert.deepStrictEqual([received.channel, received.message], ["news", "hello"]);
  subscriber.close();
}

async function use(protocol) {
  const client = await connect(protocol);
  await client.flushall();
  assert.strictEqual(await client.ping(), "PONG");
  assert.strictEqual(await client.set("key", "value", { expiry: { type: TimeUnit.Seconds, count: 10000 } }), "OK");
  assert.strictEqual(await client.get("key"), "value");
  assert.deepStrictEqual(await client.mget(["key", "none"]), ["value", null]);
  assert.strictEqual(await client.hset("h", { a: "1", b: "2" }), 2);
  const fields = await client.hgetall("h");
  assert.deepStrictEqual(fields.map(({ field, value }) => [field, value]).sort(), [["a", "1"], ["b", "2"]]);
  assert.strictEqual(await client.zadd("z", { one: 1, half: 0.5 }), 2);
  assert.deepStrictEqual(await client.zrange("z", { start: 0, end: -1 }), ["half", "one"]);
  assert.strictEqual(await client.zscore("z", "half"), 0.5);
  assert.strictEqual(await client.sadd("s", ["a", "b"]), 2);
  assert.deepStrictEqual(await client.smembers("s"), new Set(["a", "b"]));
  assert.strictEqual(await client.xadd("x", [["f", "v"]], { id: "1-1" }), "1-1");
  assert.deepStrictEqual(await client.xrange("x", { value: "0-0" }, { value: "9-9" }), { "1-1": [["f", "v"]] });

  const batch = new Batch(true).set("n", "1").incr("n").get("n");
  assert.deepStrictEqual(await client.exec(batch, true), ["OK", 2, "2"]);
  const many = new Batch(false);
  for (let i = 0; i < 5000; i++) many.incr("piped");
  assert.strictEqual((await client.exec(many, true))[4999], 5000);

  const script = new Script("return {KEYS[1], ARGV[1], redis.call('INCR', KEYS[1])}");
  assert.deepStrictEqual(await client.invokeScript(script, { keys: ["scripted"], args: ["arg"] }), ["scripted", "arg", 1]);
  const library = `#!lua name=mylib
server.register_function('bump', function(keys, args) return server.call('INCRBY', keys[1], args[1]) end)`;
  if (!reference) {
    assert.strictEqual(await client.functionLoad(library, { replace: true }), "mylib");
    assert.strictEqual(await client.fcall("bump", ["counter"], ["5"]), 5);
  }

  const consumer = await connect(protocol);
  const popped = consumer.blpop(["queue"], 0);
  await client.rpush("queue", ["job"]);
  assert.deepStrictEqual(await popped, ["queue", "job"]);

  if (protocol === ProtocolVersion.RESP3) await listen(client, protocol);
  await assert.rejects(client.incr("key"), /not an integer/);
  for (const open of [client, consumer]) open.close();
}

async function main() {
  await use(ProtocolVersion.RESP2);
  await use(ProtocolVersion.RESP3);
  console.log("ok");
  process.exit(0);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
