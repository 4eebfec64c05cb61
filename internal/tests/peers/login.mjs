// A client on either SDK for TypeScript that logs in at a server, for tests that are its person:
//
//   node login.mjs v1|v2 REVISION URL REDIRECT
//
// Each line at stdin is a tool to call, as JSON: {"call":"read"}. The answer at stdout is
// {"text":…} or {"error":…}, with what it took: "revision", "logins", and "byHand", the logins that the
// SDK did not ask for by itself. Meanwhile it may write {"visit":URL}: the next line at stdin is
// then the query with which the browser came back to REDIRECT, {"came":"code=…&state=…"}.
//
// With DPOP in the environment its tokens are bound to a key; only version 2 can do that.
//
// What an application has to do is here: an UnauthorizedError leads to the address that the SDK has
// given to the provider, finishAuth takes the answer, and the call is made again.
import { createHash, randomBytes } from 'node:crypto';
import { createInterface } from 'node:readline';
import * as v1 from '@modelcontextprotocol/sdk/client/index.js';
import * as v1auth from '@modelcontextprotocol/sdk/client/auth.js';
import * as v1http from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import * as v2 from '@modelcontextprotocol/client';

const [sdk, revision, url, redirect] = process.argv.slice(2);
const lines = createInterface({ input: process.stdin })[Symbol.asyncIterator]();
const next = async () => { const { value, done } = await lines.next(); return done ? undefined : JSON.parse(value); };
const tell = (v) => process.stdout.write(`${JSON.stringify(v)}\n`);

// What is kept of logins, in memory. Several may begin at once, of a call and of an event stream: a
// verifier is found by its challenge.
const kept = { verifiers: [] };
let pending; // the newest address that a person is to visit
const challenge = (address) => new URL(address).searchParams.get('code_challenge');
const provider = {
  redirectUrl: redirect,
  clientMetadata: {
    client_name: 'a client of the tests', redirect_uris: [redirect], grant_types: ['authorization_code', 'refresh_token'], response_types: ['code'],
    token_endpoint_auth_method: 'none', application_type: 'native',
  },
  state: () => randomBytes(16).toString('base64url'),
  clientInformation: () => kept.client,
  saveClientInformation: (client) => { kept.client = client; },
  tokens: () => kept.tokens,
  saveTokens: (tokens) => { kept.tokens = tokens; },
  discoveryState: () => kept.discovery,
  saveDiscoveryState: (discovery) => { kept.discovery = discovery; },
  saveCodeVerifier: (verifier) => { kept.verifiers.push(verifier); },
  codeVerifier: () => kept.verifiers.find((v) => createHash('sha256').update(v).digest('base64url') === challenge(kept.visited)),
  redirectToAuthorization: (address) => { pending = String(address); },
  invalidateCredentials: (what) => {
    if (what === 'all' || what === 'tokens') kept.tokens = undefined;
    if (what === 'all' || what === 'client') kept.client = undefined;
  },
};
if (process.env.DPOP) {
  const session = v2.DpopSession.create();
  provider.dpop = () => session;
}

const info = { name: 'a client of the tests', version: '1.0.0' };
const modern = revision >= '2026';
const make = {
  v1: () => [new v1.Client(info), new v1http.StreamableHTTPClientTransport(new URL(url), { authProvider: provider })],
  v2: () => [
    new v2.Client(info, { supportedProtocolVersions: [revision], versionNegotiation: { mode: modern ? { pin: revision } : 'legacy' } }),
    new v2.StreamableHTTPClientTransport(new URL(url), { authProvider: provider }),
  ],
}[sdk];
const unauthorized = (e) => e instanceof v1auth.UnauthorizedError || e instanceof v2.UnauthorizedError;

let client, transport, negotiated;
const seen = { logins: 0, byHand: 0 };

const { auth } = { v1: v1auth, v2 }[sdk];

// The person visits the page that the SDK asks for.
async function logIn() {
  kept.visited = pending;
  tell({ visit: kept.visited });
  const { came } = await next();
  seen.logins++;
  const params = new URLSearchParams(came);
  if (params.get('error') !== 'invalid_scope') {
    await transport.finishAuth(sdk === 'v1' ? params.get('code') : params);
    return;
  }
  // Both SDKs register for the scopes of the first login, and where the authorization server heeds
  // that, wider ones need another registration, which they do not make.
  await byHand(new URL(kept.visited).searchParams.get('scope'), 'client');
  await logIn();
}

// Logs in for scopes, without what was kept, since the SDK does not.
async function byHand(scope, ...without) {
  seen.byHand++;
  for (const what of ['tokens', ...without]) delete kept[what];
  await auth(provider, { serverUrl: url, scope });
}

// Connects where that is not done, and does what it takes that f succeeds.
async function through(f) {
  for (let tries = 0; ; tries++) {
    try {
      if (!client) {
        const [c, over] = make();
        const told = over.setProtocolVersion?.bind(over);
        over.setProtocolVersion = (v) => { negotiated = v; told?.(v); };
        c.onerror = (e) => console.error(`${e}`); // of event streams, too
        transport = over;
        await c.connect(over);
        client = c;
        if (modern) { // what the other SDK does by itself
          negotiated = c.getNegotiatedProtocolVersion();
          for (let more = 2; ; more--) { // on a busy machine a connection may break before the stream has begun
            try {
              await c.listen({ toolsListChanged: true });
              break;
            } catch (e) {
              if (more === 0 || unauthorized(e)) throw e;
            }
          }
        }
      }
      return await f(client);
    } catch (e) {
      if (tries >= 4) throw e;
      if (unauthorized(e)) {
        await logIn();
      } else if (e.code === 403 && transport._scope) {
        // Version 1 has renewed its token, which widens nothing, and gives up.
        await byHand(transport._scope);
        await logIn();
      } else throw e;
    }
  }
}

for (let line = await next(); line; line = await next()) {
  try {
    const result = await through((c) => c.callTool({ name: line.call, arguments: {} }));
    tell({ text: result.content.map((c) => c.text).join(' '), revision: negotiated, ...seen });
  } catch (e) {
    tell({ error: `${e.name}: ${e.message}`, revision: negotiated, ...seen });
  }
}
await client?.close();
process.exit();
