// The ways in which node `soap` logs in: docs/guides/logins.md shows them.
"use strict";

const assert = require("node:assert");
const soap = require("soap");

const [url, password, token, digestToken] = ["URL", "PASSWORD", "TOKEN", "DIGEST_TOKEN"].map(
  (name) => process.env[`INTEROP_LOGIN_${name}`],
);

const ways = {
  basic: (client) => {
    client.setSecurity(new soap.BasicAuthSecurity("alice", password));
  },
  bearer: (client) => {
    client.setSecurity(new soap.BearerSecurity(token));
  },
  text: (client) => {
    client.setSecurity(new soap.WSSecurity("alice", password, { mustUnderstand: true }));
  },
  digest: (client) => {
    client.setSecurity(new soap.WSSecurity("alice", digestToken, { passwordType: "PasswordDigest" }));
  },
};

exports.checks = Object.fromEntries(
  Object.entries(ways).map(([name, logIn]) => [
    `login-${name}`,
    async () => {
      const client = await soap.createClientAsync(url);
      logIn(client);
      // Twice: each message has a token of its own.
      for (const x of [1, 2]) {
        const [{ result }] = await client.callAsync({ x, y: 2 });
        assert.strictEqual(result, x + 2);
      }
    },
  ]),
);

exports.checks["login-refused"] = async () => {
  for (const security of [undefined, new soap.WSSecurity("alice", "wrong")]) {
    const client = await soap.createClientAsync(url);
    if (security) client.setSecurity(security);
    const refused = await client.callAsync({ x: 1, y: 2 }).then(() => undefined, (problem) => problem);
    const { faultcode, faultstring } = refused.root.Envelope.Body.Fault;
    assert.strictEqual(faultcode.split(":").at(-1), security ? "FailedAuthentication" : "Client");
    assert.ok(faultstring);
  }
};
