// Queues with BullMQ: plain, delayed, prioritised, retried and repeated jobs, flows, rate limits. Usage: bullmq.js PORT PASSWORD
const assert = require("node:assert");
const { Queue, Worker, QueueEvents, FlowProducer } = require("bullmq");

const connection = { host: "127.0.0.1", port: Number(process.argv[2]), password: process.argv[3], maxRetriesPerRequest: null };
const open = [];

function keep(thing) {
  // Errors of connections that are closed at the end are no failures.
  thing.on("error", (error) => console.error("bullmq:", error.message));
  open.push(thing);
  return thing;
}

async function until(what, holds) {
  for (let i = 0; !(await holds()); i++) {
    assert.ok(i < 6000, `waited for too long: ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 10));
  }
}

async function plain() {
  const queue = keep(new Queue("plain", { connection }));
  const events = keep(new QueueEvents("plain", { connection }));
  await events.waitUntilReady();
  const seen = new Map();
  await queue.addBulk(Array.from({ length: 300 }, (_, i) => ({ name: "job", data: { i } })));
  const worker = async (job) => {
    seen.set(job.data.i, (seen.get(job.data.i) ?? 0) + 1);
    return job.data.i * 2;
  };
  for (let n = 0; n < 2; n++) keep(new Worker("plain", worker, { connection, concurrency: 10 }));
  const last = await queue.add("job", { i: 300 });
  assert.strictEqual(await last.waitUntilFinished(events), 600);
  await until("all jobs", () => seen.size === 301);
  assert.ok([...seen.values()].every((times) => times === 1), "no job is done twice");
  await until("counts", async () => (await queue.getJobCounts("completed")).completed === 301);
}

async function ordered() {
  const queue = keep(new Queue("ordered", { connection }));
  const order = [];
  for (const priority of [5, 1, 3]) await queue.add("job", { priority }, { priority });
  await queue.add("job", { priority: "late" }, { delay: 300 });
  let waited = 0;
  const work = async (job) => {
    order.push(job.data.priority);
    if (job.data.priority === "late") waited = Date.now() - job.timestamp;
  };
  keep(new Worker("ordered", work, { connection, concurrency: 1 }));
  await until("ordered jobs", () => order.length === 4);
  // On a slow machine the delay may be over before the others are done.
  assert.deepStrictEqual(order.filter((job) => job !== "late"), [1, 3, 5]);
  assert.ok(waited >= 300, `the delayed job ran after ${waited} ms`);
}

async function retried() {
  const queue = keep(new Queue("retried", { connection }));
  let tries = 0;
  keep(
    new Worker(
      "retried",
      async () => {
        tries += 1;
        if (tries < 3) throw new Error("not yet");
        return "done";
      },
      { connection },
    ),
  );
  const job = await queue.add("job", {}, { attempts: 3, backoff: { type: "fixed", delay: 20 } });
  await until("the third try", () => job.isCompleted());
  assert.strictEqual(tries, 3);
}

async function flow() {
  const results = [];
  const handle = async (job) => {
    if (job.name === "parent") results.push(Object.values(await job.getChildrenValues()).sort());
    return job.name;
  };
  for (const name of ["flow", "children"]) keep(new Worker(name, handle, { connection }));
  const producer = keep(new FlowProducer({ connection }));
  await producer.add({
    name: "parent",
    queueName: "flow",
    children: ["a", "b", "c"].map((name) => ({ name, queueName: "children" })),
  });
  await until("the parent", () => results.length === 1);
  assert.deepStrictEqual(results[0], ["a", "b", "c"]);
}

async function repeated() {
  const queue = keep(new Queue("repeated", { connection }));
  let runs = 0;
  keep(new Worker("repeated", async () => (runs += 1), { connection }));
  await queue.upsertJobScheduler("often", { every: 50 });
  await until("repetitions", () => runs >= 3);
  assert.strictEqual(await queue.removeJobScheduler("often"), true);
}

async function limited() {
  const queue = keep(new Queue("limited", { connection }));
  let done = 0;
  await queue.addBulk(Array.from({ length: 20 }, () => ({ name: "job", data: {} })));
  keep(new Worker("limited", async () => (done += 1), { connection, limiter: { max: 5, duration: 100 } }));
  await until("limited jobs", () => done === 20);
  await queue.pause();
  assert.strictEqual(await queue.isPaused(), true);
  await queue.obliterate({ force: true });
}

async function main() {
  await Promise.all([plain(), ordered(), retried(), flow(), repeated(), limited()]);
  await Promise.all(open.map((thing) => thing.close()));
  console.log("ok");
  process.exit(0);
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});
