// A client of clusters of the ioredis family on a cluster of one node. Arguments: port, password, library.
"use strict";

const assert = require("node:assert");

const [port, password, library] = process.argv.slice(2);
const { Cluster } = require(library);

async function main() {
  const cluster = new Cluster([{ host: "127.0.0.1", port: Number(port) }], { redisOptions: { password } });
  assert.strictEqual(await cluster.set("key", "value"), "OK");
  assert.strictEqual(await cluster.get("key"), "value");
  assert.strictEqual(cluster.nodes("master").length, 1);
  await cluster.mset("{tag}a", 1, "{tag}b", 2);
  assert.deepStrictEqual(await cluster.mget("{tag}a", "{tag}b"), ["1", "2"]);
  await assert.rejects(() => cluster.mget("a", "b"), /CROSSSLOT/);

  const results = await cluster.pipeline().incr("{tag}a").incr("{tag}b").exec();
  assert.deepStrictEqual(results, [[null, 2], [null, 3]]);
  const answers = await Promise.all(Array.from({ length: 200 }, (_, i) => cluster.incr(`key:${i}`)));
  assert.ok(answers.every((answer) => answer === 1));
  assert.strictEqual(await cluster.eval("return redis.call('INCR', KEYS[1])", 1, "key:0"), 2);

  const subscriber = new Cluster([{ host: "127.0.0.1", port: Number(port) }], { redisOptions: { password } });
  const message = new Promise((resolve) => subscriber.on("message", (channel, text) => resolve([channel, text])));
  await subscriber.subscribe("news");
  await cluster.publish("news", "hello");
  assert.deepStrictEqual(await message, ["news", "hello"]);
  await subscriber.quit();
  await cluster.quit();
  console.log("ok");
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
