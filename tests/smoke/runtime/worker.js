// A process that runs one Node function, as Lambda's runtime does; see worker.py.
"use strict";
const http = require("http");
const https = require("https");
const Module = require("module");
const path = require("path");
const readline = require("readline");

console.log = console.info = console.error;
const endpoint = new URL(process.env.AWS_ENDPOINT_URL);
// CloudFormation's answers go to https://host/path; the only host that there is, is the endpoint.
https.request = (options, answered) =>
  http.request({ ...options, protocol: "http:", hostname: endpoint.hostname, port: endpoint.port }, answered);
// Lambda's runtime has the AWS SDK.
const load = Module._load;
Module._load = (request, ...rest) =>
  request.startsWith("@aws-sdk/") ? require("./sdk.js") : load(request, ...rest);

const [file, name] = process.argv[2].split(".");
let handler;
readline.createInterface({ input: process.stdin }).on("line", async (line) => {
  const invocation = JSON.parse(line);
  let answer;
  try {
    handler = handler || require(path.join(process.env.LAMBDA_TASK_ROOT, file))[name];
    answer = { payload: JSON.stringify((await handler(invocation.event, {})) ?? null) };
  } catch (error) {
    const told = { errorMessage: error.message, errorType: error.name, trace: error.stack.split("\n") };
    answer = { payload: JSON.stringify(told), error: "Unhandled" };
  }
  process.stdout.write(JSON.stringify({ ...answer, now: invocation.now }) + "\n");
});
