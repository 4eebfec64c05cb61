// A server on version 2 of the TypeScript SDK that demands tokens, which it has the authorization
// server judge (RFC 7662):
//
//   node secured.mjs '{"issuer":"http://127.0.0.1:4711"}'
//
// Tool read wants the scope tools:read, write wants tools:write too, and grow adds a tool. Tests
// turn it by POST:
//
//   /test/set   {"issuer":"…","open":true}: another authorization server; handshakes pass without a token
//   /test/cut   ends all event streams
//   /test/grow  adds a tool, and notifies
//   /test/opened  answers how many event streams were opened
import http from 'node:http';
import {
  McpServer, OAuthError, OAuthErrorCode, createMcpHandler, fromJsonSchema, getOAuthProtectedResourceMetadataUrl, oauthMetadataResponse, requireBearerAuth, requireScopes,
} from '@modelcontextprotocol/server';

const config = { open: false, ...JSON.parse(process.argv[2] ?? '{}') };
const server = http.createServer();
await new Promise((listens) => server.listen(0, '127.0.0.1', listens));
const resource = new URL(`http://127.0.0.1:${server.address().port}/mcp`);

async function verifyAccessToken(token) {
  const resp = await fetch(`${config.issuer}/token/introspection`, {
    method: 'POST', body: new URLSearchParams({ token }),
    headers: { authorization: `Basic ${btoa(`${encodeURIComponent('resource-server')}:${'a+secret+of+the+tests'}`)}` },
  });
  const said = await resp.json();
  if (!said.active) throw new OAuthError(OAuthErrorCode.InvalidToken, 'the token is not active');
  return { token, clientId: said.client_id, scopes: (said.scope ?? '').split(' '), expiresAt: said.exp, resource: new URL(said.aud) };
}

let grown = false;
function make() {
  const mcp = new McpServer({ name: 'typescript-v2', version: '2.4.0' }, { capabilities: { tools: { listChanged: true } } });
  const tool = (name, more) => mcp.registerTool(name, { description: name, inputSchema: fromJsonSchema({ type: 'object' }), ...more }, () => ({ content: [{ type: 'text', text: `${name}: done` }] }));
  tool('read');
  tool('write', { scopeChallenge: requireScopes('tools:read', 'tools:write') });
  if (grown) tool('grown');
  return mcp;
}
const handler = createMcpHandler(make);
const gate = requireBearerAuth({
  verifier: { verifyAccessToken }, requiredScopes: ['tools:read'], resourceMetadataUrl: getOAuthProtectedResourceMetadataUrl(resource), expectedResource: resource,
});

const handshake = new Set(['initialize', 'notifications/initialized', 'server/discover']);
async function serve(request, body) {
  if (new URL(request.url).pathname !== '/mcp') {
    const oauthMetadata = await (await fetch(`${config.issuer}/.well-known/openid-configuration`)).json();
    return oauthMetadataResponse(request, { oauthMetadata, resourceServerUrl: resource, scopesSupported: ['tools:read'], dangerouslyAllowInsecureIssuerUrl: true })
      ?? new Response('not found', { status: 404 });
  }
  if (config.open && body && handshake.has(JSON.parse(body).method)) return handler.fetch(request);
  const auth = await gate(request);
  return auth instanceof Response ? auth : handler.fetch(request, { authInfo: auth });
}

const streams = new Set();
let opened = 0;
async function answer(req, res) {
  const chunks = [];
  for await (const chunk of req) chunks.push(chunk);
  const body = Buffer.concat(chunks).toString();
  if (req.url.startsWith('/test/')) {
    if (req.url === '/test/set') Object.assign(config, JSON.parse(body));
    if (req.url === '/test/cut') for (const stream of streams) stream.destroy();
    if (req.url === '/test/grow') { grown = true; handler.notify.toolsChanged(); }
    res.end(String(opened));
    return;
  }
  const gone = new AbortController();
  res.on('close', () => { gone.abort(); streams.delete(res); });
  const request = new Request(`http://${req.headers.host}${req.url}`, {
    method: req.method, headers: Object.entries(req.headers).map(([k, v]) => [k, String(v)]), body: body || undefined, signal: gone.signal,
  });
  const response = await serve(request, body);
  if (response.headers.get('content-type') === 'text/event-stream') {
    streams.add(res);
    if (body.includes('subscriptions/listen')) opened++;
  }
  res.writeHead(response.status, Object.fromEntries(response.headers));
  res.flushHeaders();
  for await (const chunk of response.body ?? []) res.write(chunk);
  res.end();
}
server.on('request', (req, res) => answer(req, res).catch((e) => { if (!res.destroyed) console.error(e); res.destroy(); }));
