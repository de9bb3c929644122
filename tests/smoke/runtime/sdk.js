// The calls of the AWS SDK that the CDK's provider framework makes, against the endpoint.
"use strict";
const http = require("http");

function post(service, path, headers, body) {
  const scope = `${process.env.AWS_REGION}/${service}/aws4_request`;
  const credential = `Credential=${process.env.AWS_ACCESS_KEY_ID}/20270101/${scope}`;
  const signed = { authorization: `AWS4-HMAC-SHA256 ${credential}`, "content-length": Buffer.byteLength(body) };
  const options = { method: "POST", headers: { ...signed, ...headers } };
  return new Promise((resolve, reject) => {
    const request = http.request(new URL(path, process.env.AWS_ENDPOINT_URL), options, (response) => {
      const parts = [];
      response.on("data", (part) => parts.push(part));
      response.on("end", () => {
        const answer = { body: Buffer.concat(parts), headers: response.headers };
        response.statusCode < 300 ? resolve(answer) : reject(new Error(answer.body.toString()));
      });
    });
    request.on("error", reject);
    request.end(body);
  });
}

class Lambda {
  async invoke(request) {
    const path = `/2015-03-31/functions/${encodeURIComponent(request.FunctionName)}/invocations`;
    const answer = await post("lambda", path, {}, request.Payload);
    return { Payload: answer.body, FunctionError: answer.headers["x-amz-function-error"] };
  }
}

class SFN {
  async startExecution(request) {
    const headers = { "x-amz-target": "AWSStepFunctions.StartExecution" };
    return JSON.parse((await post("states", "/", headers, JSON.stringify(request))).body);
  }
}

async function waitUntilFunctionActiveV2() {}

module.exports = { Lambda, SFN, waitUntilFunctionActiveV2 };
