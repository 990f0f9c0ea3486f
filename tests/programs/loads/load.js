// Allocates as Node programs do: Buffers, typed arrays, compression, workers, JSON. Prints only what
// does not depend on time or addresses. Argument: a scale, 1 for the smallest.
const { Worker, isMainThread, parentPort, workerData } = require("worker_threads");
const crypto = require("crypto");
const zlib = require("zlib");

function buffers(seed, count) {
  let state = seed;
  const random = (limit) => {
    state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff;
    return (state >>> 8) % limit;
  };
  const hash = crypto.createHash("sha256");
  const live = [];
  for (let i = 0; i < count; i++) {
    const slot = random(100);
    if (live[slot]) hash.update(live[slot]);
    live[slot] = Buffer.alloc(random(i % 50 === 0 ? 2000000 : 20000), i & 255);
    if (i % 100 === 0) hash.update(zlib.inflateSync(zlib.deflateSync(live[slot])));
  }
  return hash.digest("hex");
}

if (isMainThread) {
  const scale = Number(process.argv[2]);
  const rows = Array.from({ length: 5000 * scale }, (_, i) => ({ id: i, name: "n".repeat(i % 100) }));
  console.log(JSON.stringify(JSON.parse(JSON.stringify(rows))).length);
  console.log(buffers(1, 1000 * scale));
  const workers = [2, 3, 4].map(
    (seed) =>
      new Promise((resolve, reject) => {
        const worker = new Worker(__filename, { workerData: { seed, count: 500 * scale } });
        worker.on("message", resolve);
        worker.on("error", reject);
      })
  );
  Promise.all(workers).then((digests) => digests.forEach((digest) => console.log(digest)));
} else {
  parentPort.postMessage(buffers(workerData.seed, workerData.count));
}
