// OGC API - Processes with a client that openapi-generator made for TypeScript and axios of `/ogc/openapi.json`:
// node client.js WSDL... PAYLOADS. axios accepts anything, so `response` is told; else a file would come as its bytes.

import * as assert from "assert";
import { readFileSync } from "fs";
import axios from "axios";
import { ArithmeticTestResults, Configuration, EchoFileResults, FileContent, JobsApi, Link, ProcessesApi, StatusInfo } from "./processes";

const [wsdl, payloads] = [process.argv[2], process.argv[process.argv.length - 1]];
const configuration = new Configuration({ basePath: `${wsdl.split("?")[0].split("/").slice(0, -1).join("/")}/ogc` });
const [processes, jobs] = [new ProcessesApi(configuration), new JobsApi(configuration)];
const content = readFileSync(`${payloads}/8193.bin`);
const data: FileContent = { value: content.toString("base64"), encoding: "base64" };
const rows = [[0.5, -1], [3.5, 16777216]];

const bytesOf = (file?: FileContent | Link) => Buffer.from((file as FileContent).value, "base64");

async function ended(told: unknown): Promise<StatusInfo> {
    let job = told as StatusInfo; // of 201; the generator types the answer of 200 alone
    while (job.status === "accepted" || job.status === "running") {
        await new Promise((then) => setTimeout(then, 20));
        job = (await jobs.getStatus({ jobID: job.jobID })).data;
    }
    return job;
}

async function problemOf(call: Promise<unknown>, status: number) {
    try {
        await call;
    } catch (error) {
        if (!axios.isAxiosError(error)) throw error;
        assert.equal(error.response?.status, status);
        return error.response?.data;
    }
    assert.fail("it was answered");
}

const sum = (x: number, y: number) => ({ arithmeticTestRequest: { inputs: { x, y }, response: "document" as const } });
const echo = { echoFileRequest: { inputs: { data }, response: "document" as const } };
const gallery = (pause: number) => ({ galleryRequest: { inputs: { n: 8, pause } } });

const checks: Record<string, () => Promise<void>> = {
    "list": async () => {
        const listed = (await processes.getProcesses({ limit: 100 })).data.processes.map((each) => each.id);
        assert.ok(["arithmetic-test", "echo-file", "matrix:echo"].every((id) => listed.includes(id)));
    },
    "description": async () => {
        const described = (await processes.getProcessDescription({ processID: "arithmetic-test" })).data;
        assert.deepEqual(Object.keys(described.inputs ?? {}), ["x", "y"]);
    },
    "execute": async () => {
        const answer = await processes.executeArithmeticTest({ arithmeticTestRequest: { inputs: { x: 1, y: 2 } } });
        assert.equal(answer.data, 3);
    },
    "document": async () => assert.equal(((await processes.executeArithmeticTest(sum(1, 2))).data as ArithmeticTestResults).result, 3),
    "types": async () => {
        const inputs = { text: 'a "text" ä', number: 2.5, loud: true };
        assert.equal((await processes.executeSay({ sayRequest: { inputs } })).data, 'a "text" ä|2.5|true');
    },
    "file": async () => {
        const results: EchoFileResults = (await processes.executeEchoFile(echo)).data;
        assert.ok(bytesOf(results.copy).equals(content));
    },
    "array": async () => {
        assert.deepEqual((await processes.executeMatrixEcho({ matrixEchoRequest: { inputs: { matrix: rows } } })).data, rows);
    },
    "job": async () => {
        const job = await ended((await processes.executeEchoFile({ ...echo, prefer: "respond-async" })).data);
        assert.equal(job.status, "successful");
        const results = (await jobs.getResult({ jobID: job.jobID })).data as EchoFileResults;
        assert.ok(bytesOf(results.copy).equals(content));
    },
    "output": async () => {
        const job = await ended((await processes.executeEchoFile({ ...echo, prefer: "respond-async" })).data);
        const output = await jobs.getResultOutput({ jobID: job.jobID, outputID: "copy" }, { responseType: "arraybuffer" });
        assert.ok(Buffer.from(output.data as unknown as ArrayBuffer).equals(content));
    },
    "log": async () => {
        const job = await ended((await processes.executeGallery({ ...gallery(0), prefer: "respond-async" })).data);
        assert.match((await jobs.getLog({ jobID: job.jobID })).data.text, /step 1/);
    },
    "jobs-list": async () => {
        const job = await ended((await processes.executeArithmeticTest({ ...sum(1, 2), prefer: "respond-async" })).data);
        const listed = (await jobs.getJobs({ limit: 1, processID: ["arithmetic-test"], status: ["successful", "failed"] })).data.jobs;
        assert.deepEqual(listed.map((each) => each.jobID), [job.jobID]);
    },
    "dismiss": async () => {
        const job = (await processes.executeGallery({ ...gallery(10), prefer: "respond-async" })).data as StatusInfo;
        assert.equal((await jobs.dismiss({ jobID: job.jobID })).data.status, "dismissed");
        assert.equal((await ended(job)).status, "dismissed");
    },
    "failed": async () => {
        const job = await ended((await processes.executeArithmeticTest({ ...sum(2 ** 31 - 1, 1), prefer: "respond-async" })).data);
        assert.equal(job.status, "failed");
        assert.equal((await problemOf(jobs.getResult({ jobID: job.jobID }), 422)).job, job.jobID);
    },
    "mistake": async () => {
        const problem = await problemOf(processes.executeGallery({ galleryRequest: { inputs: { n: 1 } } }), 400);
        assert.deepEqual([problem.code, problem.parameter], ["InvalidValue", "n"]);
    },
    "missing": async () => assert.equal((await problemOf(jobs.getStatus({ jobID: "0" }), 404)).code, "NoSuchJob"),
};

async function main() {
    for (const [name, check] of Object.entries(checks)) {
        try {
            await check();
            console.log(`ok ${name}`);
        } catch (error) {
            process.exitCode = 1;
            console.log(`not ok ${name}: ${JSON.stringify(String(error).slice(0, 2000))}`);
        }
    }
}

main();
