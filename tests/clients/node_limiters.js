// rate-limiter-flexible through the clients it supports. Usage: node_limiters.js PORT PASSWORD [reference]
const assert = require("node:assert");
const { RateLimiterRedis, RateLimiterValkey, RateLimiterValkeyGlide, BurstyRateLimiter } = require("rate-limiter-flexible");
const Ioredis = require("ioredis");
const Iovalkey = require("iovalkey");
const { createClient } = require("redis");
const { GlideClient } = require("@valkey/valkey-glide");

const [port, password] = [Number(process.argv[2]), process.argv[3]];
// Redis 7.0, with which this program is checked, has no `server` table in scripts.
const reference = process.argv[4] === "reference";

async function admitted(limiter, key, times) {
  const tries = Array.from({ length: times }, () =>
    limiter.consume(key).then(
      () => 1,
      (refusal) => {
        if (refusal instanceof Error) throw refusal;
        assert.ok(refusal.msBeforeNext > 0);
        return 0;
      },
    ),
  );
  return (await Promise.all(tries)).reduce((sum, n) => sum + n, 0);
}

async function check(limiter, name) {
  assert.strictEqual(await admitted(limiter, name, 50), 10, name);
  const state = await limiter.get(name);
  assert.strictEqual(state.remainingPoints, 0, name);
  assert.ok(state.msBeforeNext > 0 && state.msBeforeNext <= 3600000, name);
  await limiter.reward(name, 5);
  await limiter.block(`${name}:blocked`, 3600);
  await assert.rejects(limiter.consume(`${name}:blocked`), (refusal) => refusal.msBeforeNext > 3000000);
  assert.strictEqual(await limiter.delete(name), true, name);
  assert.strictEqual(await admitted(limiter, name, 3), 3, name);
}

async function main() {
  const options = { points: 10, duration: 3600 };
  const ioredis = new Ioredis({ port, password, enableOfflineQueue: false });
  await new Promise((resolve) => ioredis.once("ready", resolve));
  await check(new RateLimiterRedis({ storeClient: ioredis, keyPrefix: "io", ...options }), "ioredis");

  const node = createClient({ socket: { port, host: "127.0.0.1" }, password });
  await node.connect();
  await check(new RateLimiterRedis({ storeClient: node, useRedisPackage: true, keyPrefix: "node", ...options }), "node-redis");

  const bursty = new BurstyRateLimiter(
    new RateLimiterRedis({ storeClient: ioredis, keyPrefix: "steady", points: 2, duration: 3600 }),
    new RateLimiterRedis({ storeClient: ioredis, keyPrefix: "burst", points: 3, duration: 36000 }),
  );
  assert.strictEqual(await admitted(bursty, "both", 20), 5);

  if (!reference) {
    const iovalkey = new Iovalkey({ port, password });
    await check(new RateLimiterValkey({ storeClient: iovalkey, keyPrefix: "valkey", ...options }), "iovalkey");
    iovalkey.disconnect();

    const glide = await GlideClient.createClient({ addresses: [{ host: "127.0.0.1", port }], credentials: { password }, requestTimeout: 60000 });
    await check(new RateLimiterValkeyGlide({ storeClient: glide, keyPrefix: "glide", ...options }), "valkey-glide");
    glide.close();
  }
  ioredis.disconnect();
  node.destroy();
  console.log("ok");
  process.exit(0);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
