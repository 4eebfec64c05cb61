// An authorization server on oidc-provider, with what tests turn:
//
//   node as.mjs '{"format":"opaque","device":true}'
//
// scopes of the API, and whether access tokens are "jwt" or "opaque"; registration, cimd and device
// are features. Its people log in with any name on the pages of devInteractions and consent there.
//
//   POST /test/set     {"life":1,"ahead":-300}: lifetime of access tokens; seconds that its clock is ahead
//   POST /test/forget  {"models":["AccessToken"]}: what it has given out is unknown from now on
//   GET  /test/seen    the requests of clients so far
import http from 'node:http';
import { Provider } from 'oidc-provider';

const config = { scopes: ['tools:read', 'tools:write'], format: 'jwt', registration: true, cimd: false, device: false, ...JSON.parse(process.argv[2] ?? '{}') };
const knobs = { life: 600, ahead: 0 };
const now = Date.now;
Date.now = () => now() + knobs.ahead * 1000;

// The adapter of oidc-provider, in memory. That of the package forgets nothing on demand.
const stored = new Map(); // payloads by model and id
class Adapter {
  constructor(model) { this.model = model; }
  key(id) { return `${this.model} ${id}`; }
  async upsert(id, payload) { stored.set(this.key(id), { model: this.model, id, payload }); }
  async find(id) { return stored.get(this.key(id))?.payload; }
  async findBy(name, value) { return [...stored.values()].find((s) => s.model === this.model && s.payload[name] === value)?.payload; }
  async findByUid(uid) { return this.findBy('uid', uid); }
  async findByUserCode(code) { return this.findBy('userCode', code); }
  async consume(id) { (await this.find(id)).consumed = Math.floor(Date.now() / 1000); }
  async destroy(id) { stored.delete(this.key(id)); }
  async revokeByGrantId(grantId) { for (const [key, s] of stored) if (s.model !== 'Grant' && s.payload.grantId === grantId) stored.delete(key); }
}

// The document of a client that has an address for its id: there is no host of that name.
const document = 'https://client.example/troupe.json';
async function fetch(url, options) {
  if (String(url) !== document) throw new Error(`no request to ${url}`);
  return Response.json({
    client_id: document, client_name: 'Troupe', application_type: 'native', redirect_uris: ['http://127.0.0.1/callback'],
    grant_types: ['authorization_code', 'refresh_token'], response_types: ['code'], token_endpoint_auth_method: 'none',
  });
}

const seen = [];
const server = http.createServer();
await new Promise((listens) => server.listen(0, '127.0.0.1', listens));
const issuer = `http://127.0.0.1:${server.address().port}`;

const provider = new Provider(issuer, {
  adapter: Adapter, fetch,
  cookies: { keys: ['of the tests'] },
  pkce: { required: () => true },
  scopes: ['openid', 'offline_access', ...config.scopes],
  clientDefaults: { token_endpoint_auth_method: 'none', response_types: ['code'], grant_types: ['authorization_code', 'refresh_token'] },
  clientAuthMethods: ['none', 'client_secret_basic', 'client_secret_post'],
  clients: [{ client_id: 'resource-server', client_secret: 'a secret of the tests', redirect_uris: [], response_types: [], grant_types: [], token_endpoint_auth_method: 'client_secret_basic' }],
  rotateRefreshToken: true, // one that is used twice ends the grant
  ttl: { AccessToken: () => knobs.life, AuthorizationCode: 60, DeviceCode: 300, Grant: 86400, IdToken: 600, Interaction: 600, RefreshToken: 86400, Session: 86400 },
  features: {
    devInteractions: { enabled: true },
    registration: { enabled: config.registration },
    clientIdMetadataDocument: { enabled: config.cimd, ack: 'draft-02' },
    deviceFlow: { enabled: config.device },
    introspection: { enabled: true },
    revocation: { enabled: true },
    resourceIndicators: {
      enabled: true, useGrantedResource: () => true,
      getResourceServerInfo: (_ctx, resource) => ({
        scope: config.scopes.join(' '), audience: resource, accessTokenFormat: config.format, accessTokenTTL: knobs.life, jwt: { sign: { alg: 'RS256' } },
      }),
    },
  },
});

const told = ['client_id', 'grant_type', 'scope', 'resource', 'prompt', 'redirect_uri', 'redirect_uris', 'token_type_hint'];
provider.use(async (ctx, next) => {
  await next();
  const params = { ...ctx.query, ...ctx.oidc?.body, ...ctx.oidc?.params };
  const error = ctx.body?.error;
  seen.push({ route: ctx.oidc?.route, status: ctx.status, error, ...Object.fromEntries(told.filter((k) => params[k]).map((k) => [k, String(params[k])])) });
});

async function test(req, res) {
  let body = '';
  for await (const chunk of req) body += chunk;
  const said = body ? JSON.parse(body) : {};
  if (req.url === '/test/set') Object.assign(knobs, said);
  if (req.url === '/test/forget') for (const [key, s] of stored) if (said.models.includes(s.model)) stored.delete(key);
  res.end(JSON.stringify(seen));
}

const answer = provider.callback();
server.on('request', (req, res) => (req.url.startsWith('/test/') ? test(req, res) : answer(req, res)));
