// A client of another's make, on one of the two SDKs for TypeScript, that tries what
// the fixture of the conformance suite offers and writes what it has seen to stdout,
// as one JSON object.
//
//   node client.mjs v1|v2 REVISION stdio COMMAND ARG...
//   node client.mjs v1|v2 REVISION http|sse URL
//
// v1 speaks what it likes best of the revisions with a handshake; v2 speaks REVISION.
import { adapters } from './sdks.mjs';

const [sdk, revision, transport, ...target] = process.argv.slice(2);
const modern = revision >= '2026';
const seen = { asked: [], logs: [], updated: [], toolsChanged: 0 };
let action = 'accept'; // what the user does with forms

const { connect } = adapters[sdk];
const client = await connect({ revision, transport, target }, {
  'elicitation/create': ({ params }) => {
    seen.asked.push(params.message);
    if (params.mode === 'url') visit(params.url);
    return action === 'accept' && params.mode !== 'url' ? { action, content: fill(params.requestedSchema) } : { action };
  },
  'sampling/createMessage': ({ params }) => {
    const content = params.messages.flatMap((m) => m.content);
    const results = content.filter((c) => c.type === 'tool_result').map((c) => c.content[0].text);
    if (params.tools && results.length === 0) { // calls each of them at once
      const calls = params.tools.map((t, i) => ({ type: 'tool_use', id: `call_${i}`, name: t.name, input: { place: 'Oslo' } }));
      return { role: 'assistant', model: 'scripted', stopReason: 'toolUse', content: calls };
    }
    if (results.length > 0) return { role: 'assistant', model: 'scripted', stopReason: 'endTurn', content: { type: 'text', text: results.join(', ') } };
    return { role: 'assistant', model: 'scripted', stopReason: 'endTurn', content: { type: 'text', text: `reply to ${content[0].text}` } };
  },
  'roots/list': () => ({ roots: [{ uri: 'file:///project', name: 'project' }] }),
}, {
  'notifications/message': ({ params }) => seen.logs.push(params.data),
  'notifications/resources/updated': ({ params }) => seen.updated.push(params.uri),
  'notifications/tools/list_changed': () => seen.toolsChanged++,
});

// Does what is to be done on a page, a while later.
let visits = 0;
function visit(url) {
  if (visits++ > 0) return; // a client without a connection is sent there until it is done
  setTimeout(() => call('test_url_visited', { id: new URL(url).searchParams.get('id') }).catch(console.error), 50);
}

// Fills a form: defaults where there are any, else something of the right type.
function fill(schema) {
  const value = (name, s) => {
    if (s.default !== undefined) return s.default;
    switch (s.type) {
      case 'boolean': return true;
      case 'integer': case 'number': return 7;
      case 'array': return [(s.items.enum ?? s.items.anyOf.map((o) => o.const))[0]];
      default: return (s.enum ?? s.oneOf?.map((o) => o.const) ?? [`my ${name}`])[0];
    }
  };
  return Object.fromEntries(Object.entries(schema.properties).map(([name, s]) => [name, value(name, s)]));
}

const wanted = modern ? { _meta: { 'io.modelcontextprotocol/logLevel': 'info' } } : {};
const call = async (name, args = {}, options) => (await client.callTool({ name, arguments: args, ...wanted }, options)).content.map((c) => c.text).join(' ');
const refused = async (promise) => promise.then(() => 'no error', (e) => e.code);
const until = async (what) => {
  for (const end = Date.now() + 20_000; !what();) {
    if (Date.now() > end) throw new Error(`not seen: ${what}`);
    await new Promise((r) => setTimeout(r, 10));
  }
  return true;
};

// What is tried, in order; each result is what the test compares.
const steps = {
  revision: () => client.revision(),
  server: () => client.server(),
  tools: async () => (await client.listTools()).tools.some((t) => t.name === 'test_simple_text'),
  text: () => call('test_simple_text'),
  contents: async () => (await client.callTool({ name: 'test_multiple_content_types', arguments: {} })).content.map((c) => c.type).join(' '),
  failure: async () => (await client.callTool({ name: 'test_error_handling', arguments: {} })).isError,
  arguments: async () => client.callTool({ name: 'greet', arguments: { name: 7 } }).then((r) => r.isError === true, (e) => e.code === -32602),
  unknown: () => refused(client.callTool({ name: 'no_such_tool', arguments: {} })),
  many: async () => (await Promise.all(Array.from({ length: 50 }, (_, i) => call('greet', { name: `no ${i}` })))).every((t, i) => t === `Hello, no ${i}!`),
  progress: async () => { // the SDKs drop what they read together with the result, on a busy machine all of it
    const steps = [];
    for (let tries = 0; tries < 5 && steps.length === 0; tries++) {
      await call('test_tool_with_progress', {}, { onprogress: (p) => steps.push(p.progress) });
    }
    return steps.length > 0 && '0 50 100'.startsWith(steps.join(' '));
  },
  logs: async () => {
    if (!modern) await client.setLoggingLevel('debug');
    await call('test_tool_with_logging');
    await until(() => seen.logs.length >= 3);
    return seen.logs.join('; ');
  },
  form: () => call('test_elicitation', { message: 'Who are you?' }),
  defaults: () => call('test_elicitation_sep1034_defaults'),
  enums: () => call('test_elicitation_sep1330_enums'),
  page: () => call('test_url_elicitation'),
  sample: () => call('test_sampling', { prompt: 'a question' }),
  loop: () => call('test_sample_loop'),
  roots: () => call('test_input_required_result_list_roots'),
  several: () => call('test_input_required_result_multiple_inputs'),
  rounds: () => call('test_input_required_result_multi_round'),
  state: () => call('test_input_required_result_request_state'),
  declined: async () => {
    action = 'decline';
    const text = await call('test_elicitation', { message: 'And now?' });
    action = 'accept';
    return text;
  },
  asked: () => seen.asked.join('; '),
  resources: async () => (await client.listResources()).resources.map((r) => r.uri).sort().join(' '),
  read: async () => (await client.readResource({ uri: 'test://static-text' })).contents[0].text,
  blob: async () => (await client.readResource({ uri: 'test://static-binary' })).contents[0].blob.length > 50,
  template: async () => (await client.readResource({ uri: 'test://template/42/data' })).contents[0].text,
  missing: () => refused(client.readResource({ uri: 'test://no-such-resource' })),
  watch: async () => {
    await client.watch('test://watched-resource');
    await call('test_trigger_resource_update');
    return until(() => seen.updated.includes('test://watched-resource'));
  },
  change: async () => {
    await call('test_trigger_tool_change');
    await until(() => seen.toolsChanged > 0);
    await call('test_trigger_tool_change'); // as it was before
    return true;
  },
  prompts: async () => (await client.listPrompts()).prompts.length,
  prompt: async () => (await client.getPrompt({ name: 'test_prompt_with_arguments', arguments: { arg1: 'a', arg2: 'b' } })).messages[0].content.text,
  asking: async () => (await client.getPrompt({ name: 'test_input_required_result_prompt' })).messages[0].content.text,
  complete: async () => (await client.complete({ ref: { type: 'ref/prompt', name: 'test_prompt_with_arguments' }, argument: { name: 'arg1', value: 'par' } })).completion.values.join(' '),
  cancel: async () => {
    const gone = new AbortController();
    const calling = call('slow_compute', { seconds: 60, label: 'never' }, { signal: gone.signal, onprogress: () => {} });
    setTimeout(() => gone.abort(), 100);
    return calling.then(() => 'no error', () => 'cancelled');
  },
  afterwards: () => call('greet', { name: 'once more' }),
};

const report = {};
let failed = false;
for (const [name, step] of Object.entries(steps)) {
  try {
    report[name] = await step();
  } catch (e) {
    failed = true;
    report[name] = `failed: ${e.message} ${e.code ?? ''}`;
  }
}
await client.close();
process.stdout.write(`${JSON.stringify(report)}\n`);
process.exitCode = failed ? 1 : 0;
