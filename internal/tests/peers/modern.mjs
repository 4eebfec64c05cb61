// A server on version 2 of the TypeScript SDK that has what is new in 2026-07-28:
// results that ask for input, of each kind and in several rounds, and changes that
// a listening client hears of.
//
//   node modern.mjs                  over stdio
//   node modern.mjs streamableHttp   over HTTP, on $PORT
//
// The tools have the same names as those of the Go SDK's server in package interop.
import http from 'node:http';
import { McpServer, createMcpHandler, createRequestStateCodec, fromJsonSchema, inputRequired, inputResponse } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';

const over = process.argv[2] ?? 'stdio';
const sealed = createRequestStateCodec({ key: 'a key of the tests, 32 bytes long' });
const watched = 'fixture://watched';
const text = (s) => ({ content: [{ type: 'text', text: s }] });
const form = (message, name) =>
  inputRequired.elicit({ message, requestedSchema: { type: 'object', properties: { [name]: { type: 'string' } }, required: [name] } });
const sample = (question) =>
  inputRequired.createMessage({ messages: [{ role: 'user', content: { type: 'text', text: question } }], maxTokens: 50 });

// What one answer says, in a line.
function said(ctx, key) {
  const view = inputResponse(ctx.mcpReq.inputResponses, key);
  switch (view.kind) {
    case 'elicit': return `${view.action} ${JSON.stringify(view.content ?? {})}`;
    case 'sampling': return [view.result.content].flat().map((c) => c.text).join('');
    case 'roots': return view.roots.map((r) => r.uri).join(' ');
    default: return undefined;
  }
}

// A tool that asks for the same inputs until all are answered.
const asks = (inputRequests, requestState) => async (_args, ctx) => {
  const answers = Object.keys(inputRequests).map((key) => said(ctx, key));
  if (answers.includes(undefined)) return inputRequired({ inputRequests, ...(requestState && { requestState: await sealed.mint(requestState) }) });
  const state = requestState ? `; state ${ctx.mcpReq.requestState()}` : '';
  return text(answers.join('; ') + state);
};

// Each round has a state of its own, which says what was answered before.
async function rounds(_args, ctx) {
  const done = ctx.mcpReq.requestState() ?? [];
  const key = `step${done.length}`;
  const answer = done.length > 0 ? said(ctx, key) : 'begun';
  const all = [...done, answer];
  if (all.length > 3) return text(all.join('; '));
  return inputRequired({ inputRequests: { [`step${all.length}`]: form(`Step ${all.length}?`, 'word') }, requestState: await sealed.mint(all) });
}

let grown = false; // whether new servers have one more tool
const notify = {};

function make() {
  const server = new McpServer({ name: 'typescript-v2', version: '2.4.0' }, {
    instructions: 'A server of the tests.',
    capabilities: { tools: { listChanged: true }, prompts: { listChanged: true }, resources: { listChanged: true, subscribe: true }, logging: {} },
    requestState: { verify: sealed.verify },
  });
  const tool = (name, run, properties = {}) =>
    server.registerTool(name, { description: name, inputSchema: fromJsonSchema({ type: 'object', properties }) }, run);

  tool('echo', ({ text: words }) => text(`Echo: ${words}`), { text: { type: 'string' } });
  tool('ask_form', asks({ name: form('What is your name?', 'name') }));
  tool('ask_url', asks({ page: inputRequired.elicitUrl({ message: 'Please sign in.', url: 'https://example.com/sign-in' }) }));
  tool('ask_model', asks({ question: sample('What is the capital of France?') }));
  tool('ask_roots', asks({ roots: inputRequired.listRoots() }));
  tool('ask_all', asks({ name: form('What is your name?', 'name'), question: sample('Greet me.'), roots: inputRequired.listRoots() }, 'sealed'));
  tool('ask_rounds', rounds);
  tool('count', async ({ to }, ctx) => {
    const progressToken = ctx.mcpReq._meta?.progressToken;
    for (let i = 1; i <= to; i++) {
      if (progressToken !== undefined) await ctx.mcpReq.notify({ method: 'notifications/progress', params: { progressToken, progress: i, total: to } });
      await ctx.mcpReq.log('info', `at ${i}`);
    }
    return text(`counted to ${to}`);
  }, { to: { type: 'integer' } });
  tool('touch', () => { notify.resourceUpdated(watched, server); return text('touched'); });
  const grow = () => tool('grown', () => text('I am new.'));
  tool('grow', () => { notify.toolsChanged(grow); return text('grown'); });
  if (grown) grow();

  server.registerPrompt('ask_prompt', { description: 'a prompt that asks first' }, async (ctx) => {
    const answer = said(ctx, 'topic');
    if (answer === undefined) return inputRequired({ inputRequests: { topic: form('About what?', 'topic') } });
    return { messages: [{ role: 'user', content: { type: 'text', text: `About ${answer}` } }] };
  });
  server.registerResource('watched', watched, { description: 'a resource that changes', mimeType: 'text/plain' },
    (uri) => ({ contents: [{ uri: uri.href, mimeType: 'text/plain', text: 'watched' }] }));
  server.registerResource('asking', 'fixture://asking', { description: 'a resource that asks first', mimeType: 'text/plain' }, async (uri, ctx) => {
    const answer = said(ctx, 'why');
    if (answer === undefined) return inputRequired({ inputRequests: { why: form('Why?', 'why') } });
    return { contents: [{ uri: uri.href, mimeType: 'text/plain', text: `Because ${answer}` }] };
  });
  return server;
}

if (over === 'stdio') {
  notify.toolsChanged = (grow) => grow(); // one server for the whole connection: it tells by itself
  notify.resourceUpdated = (uri, server) => server.server.sendResourceUpdated({ uri });
  serveStdio(make);
} else {
  const handler = createMcpHandler(make);
  notify.toolsChanged = () => { grown = true; handler.notify.toolsChanged(); }; // one server for each request
  notify.resourceUpdated = (uri) => handler.notify.resourceUpdated(uri);
  http.createServer((req, res) => answer(handler, req, res).catch((e) => { console.error(e); res.destroy(); })).listen(Number(process.env.PORT ?? 0));
}

// Gives one HTTP request to a handler of the fetch kind.
async function answer(handler, req, res) {
  const gone = new AbortController();
  res.on('close', () => gone.abort());
  const chunks = [];
  for await (const chunk of req) chunks.push(chunk);
  const request = new Request(`http://${req.headers.host}${req.url}`, {
    method: req.method, headers: Object.entries(req.headers).map(([k, v]) => [k, String(v)]),
    body: chunks.length > 0 ? Buffer.concat(chunks) : undefined, signal: gone.signal,
  });
  const response = await handler.fetch(request);
  res.writeHead(response.status, Object.fromEntries(response.headers));
  res.flushHeaders();
  for await (const chunk of response.body ?? []) res.write(chunk);
  res.end();
}
