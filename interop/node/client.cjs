// node `soap` against us: node client.cjs ARITHMETIC_WSDL ECHO_WSDL MATRIX_WSDL PAYLOADS
"use strict";

const assert = require("node:assert");
const fs = require("node:fs");
const path = require("node:path");
const { setTimeout: sleep } = require("node:timers/promises");
const soap = require("soap");
const logins = require("./logins.cjs");

const SIZES = [0, 1, 8191, 8192, 8193, 1 << 20];
const LARGE = 100_000_000; // goes through `call` only

// Subnormal, largest, not a binary fraction, negative zero.
const ROWS = [[0.1, -0.0, 1e-45], [3.4028235e38, 16777216, -1.1754944e-38]];

async function main(arithmeticWsdl, echoWsdl, matrixWsdl, payloads) {
  const arithmetic = await soap.createClientAsync(arithmeticWsdl);
  const echo = await soap.createClientAsync(echoWsdl);
  const matrix = await soap.createClientAsync(matrixWsdl);
  let failed = 0;

  async function check(name, body) {
    try {
      await body();
      console.log(`ok ${name}`);
    } catch (problem) {
      failed += 1;
      console.log(`not ok ${name}: ${String(problem.message).split("\n")[0]}`);
      console.error(problem);
    }
  }

  await check("call", async () => {
    assert.strictEqual((await ask(arithmetic, "call", { x: 1, y: 2 })).result, 3);
  });
  for (const size of [...SIZES, LARGE]) {
    const data = fs.readFileSync(path.join(payloads, `${size}.bin`));
    const sent = { data: data.toString("base64") };
    const same = (found) => assert.ok(data.equals(Buffer.from(found.copy ?? "", "base64")), "other bytes");
    await check(`call-file ${size}`, async () => same(await ask(echo, "call", sent)));
    if (size === LARGE) continue;
    await check(`spawn-file ${size}`, async () => {
      const { job } = await ask(echo, "spawn", sent);
      while ((await ask(echo, "running", { job })).running) await sleep(20);
      same(await ask(echo, "results", { job }));
    });
  }
  await check("array", async () => {
    // String(-0) is 0.
    const sent = { item: ROWS.map((row) => ({ item: row.map((x) => (Object.is(x, -0) ? "-0" : x)) })) };
    assert.deepStrictEqual(rows((await ask(matrix, "echo", { matrix: sent })).matrix), ROWS);
  });
  await check("array-get", async () => {
    const found = rows((await ask(matrix, "getMatrix", { n: 50 })).matrix);
    assert.deepStrictEqual(found.map((row) => row.length), Array(50).fill(50));
    const bytes = Buffer.from(Float32Array.from(found.flat()).buffer);
    assert.ok(bytes.equals(fs.readFileSync(path.join(payloads, "matrix.bin"))), "other numbers");
  });
  await check("missing-job", async () => {
    const job = "0".repeat(32);
    assert.deepStrictEqual(await fault(ask(echo, "results", { job })), { code: "NoSuchJob", job });
  });
  await check("soap12", async () => {
    // Without the cache, which would make the other client speak SOAP 1.2 too.
    const options = { forceSoap12Headers: true, disableCache: true };
    const client = await soap.createClientAsync(arithmeticWsdl, options);
    assert.strictEqual((await ask(client, "call", { x: 1, y: 2 })).result, 3);
  });
  await check("bad-value", async () => {
    const found = await fault(ask(arithmetic, "call", { x: "abc", y: 2 }));
    assert.deepStrictEqual(found, { code: "InvalidValue", parameter: "x" });
  });
  for (const [name, body] of Object.entries(logins.checks)) await check(name, body);
  return failed ? 1 : 0;
}

function rows(found) {
  return found.item.map((row) => row.item);
}

async function ask(client, operation, args) {
  const [result] = await client[`${operation}Async`](args);
  return result ?? {};
}

// The fields of a fault's detail but its sentence, which must be there as the faultstring.
async function fault(answer) {
  let error;
  try {
    await answer;
  } catch (problem) {
    error = problem;
  }
  assert.ok(error?.root, `no fault: ${error}`);
  const { faultstring, detail } = error.root.Envelope.Body.Fault;
  assert.ok(faultstring, "the fault has no sentence");
  const [[, fields]] = Object.entries(detail);
  const { attributes, message, ...rest } = fields;
  return rest;
}

main(...process.argv.slice(2)).then(
  (code) => process.exit(code),
  (problem) => {
    console.error(problem);
    process.exit(1);
  },
);
