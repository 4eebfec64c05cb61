// A client of another's make, on one of the two SDKs for TypeScript, that drives agents
// behind "troupe serve", lets their servers ask it, and writes what it has seen to stdout,
// as one JSON object. It ends when stdin does.
//
//   node agent.mjs v1|v2 REVISION old|new stdio COMMAND ARG...
//   node agent.mjs v1|v2 REVISION old|new http|sse URL
//
// The word behind the revision says which servers the agents have: see servers below.
import { adapters } from './sdks.mjs';

const [sdk, revision, era, transport, ...target] = process.argv.slice(2);
const modern = revision >= '2026';
const shared = modern && transport === 'http'; // nobody in particular: no list of runs
const seen = { asked: [], pages: [], samplers: new Set(), updated: [] };
let action = 'accept'; // what the user does with forms

// The servers' tools, by what they do: each with the form, page, model, roots and steps.
const fixture = {
  form: 'test_elicitation {"message":"Who are you?"}', page: 'test_url_elicitation', model: 'test_sampling {"prompt":"a question"}',
  roots: 'test_input_required_result_list_roots', steps: 'test_tool_with_progress',
};
const servers = {
  old: { // one call of a run waits for that of another, where questions do not say whose they are: nobody could visit its page
    fixture: { ...fixture, page: undefined },
    everything: {
      form: 'trigger-elicitation-request', page: 'trigger-url-elicitation {"url":"https://example.com/page","message":"Please look."}',
      model: 'trigger-sampling-request {"prompt":"a question","maxTokens":20}', roots: 'get-roots-list',
      steps: 'trigger-long-running-operation {"duration":0.2,"steps":4}',
    },
  },
  new: {
    fixture,
    typescript: { form: 'ask_form', page: 'ask_url', model: 'ask_model', roots: 'ask_roots', steps: 'count {"to":3}' },
  },
}[era];

const client = await adapters[sdk].connect({ revision, transport, target }, {
  'elicitation/create': ({ params }) => {
    seen.asked.push(params.message);
    if (params.mode === 'url') {
      seen.pages.push(params.url);
      visit(params.url);
      return { action };
    }
    return action === 'accept' ? { action, content: fill(params.requestedSchema) } : { action };
  },
  'sampling/createMessage': ({ params }) => {
    seen.samplers.add(params._meta?.['dev.troupe/asker']);
    const asked = params.messages.flatMap((m) => m.content)[0].text;
    return { role: 'assistant', model: 'the client\'s', stopReason: 'endTurn', content: { type: 'text', text: `reply to ${asked}` } };
  },
  'roots/list': () => ({ roots: [{ uri: 'file:///project', name: 'project' }] }),
}, {
  'notifications/message': () => {},
  'notifications/resources/updated': ({ params }) => seen.updated.push(params.uri),
  'notifications/tools/list_changed': () => {},
});

// Does what is to be done on a page of the fixture, a while later, once.
const visited = new Set();
function visit(url) {
  const id = new URL(url).searchParams.get('id');
  if (!id || visited.has(url)) return;
  visited.add(url);
  setTimeout(() => run(`use fixture__test_url_visited ${JSON.stringify({ id })}`).catch(console.error), 50);
}

// Fills a form: all that it has to have, and more names.
function fill(schema) {
  const value = (name, s) => s.enum?.[0] ?? (s.type === 'string' ? `my ${name}` : undefined);
  const wanted = Object.entries(schema.properties).filter(([name]) => schema.required?.includes(name));
  return Object.fromEntries(wanted.map(([name, s]) => [name, value(name, s)]));
}

const text = (r) => r.content.map((c) => c.text).join(' ');
const call = (name, args, options) => client.callTool({ name, arguments: args }, options);
const run = async (prompt, options) => text(await call('helper', { prompt }, options));
// Lets an agent use one kind of tool of all servers at once; those that did as expected.
const each = async (what, expected) => (await Promise.all(Object.entries(servers).filter(([, tools]) => tools[what]).map(async ([name, tools]) => {
  const t = await run(`use ${name}__${tools[what]}`);
  return expected.test(t) ? name : `${name}: ${t}`;
}))).sort().join(' ');
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
  tools: async () => (await client.listTools()).tools.map((t) => t.name).sort().join(' '),
  text: () => run('hello'),
  structured: async () => {
    const r = await call('counter', { to: 7 });
    return `${text(r)} ${JSON.stringify(r.structuredContent)}`;
  },
  invalid: () => call('counter', { to: 'seven' }).then((r) => r.isError === true, (e) => e.code === -32602),
  progress: async () => { // the SDKs drop what they read together with the result: then the run is repeated
    const all = [];
    for (const [name, tools] of Object.entries(servers)) {
      const tool = `${name}__${tools.steps.split(' ')[0]}`;
      const came = () => all.flat().some((p) => p.message.includes(tool));
      for (const end = Date.now() + 20_000; !came() && Date.now() < end;) {
        const one = [];
        all.push(one);
        await run(`use ${name}__${tools.steps}`, { onprogress: (p) => p.message.startsWith('helper: ') && one.push(p) }); // else it is the SDK's own
      }
      if (!came()) return `nothing of ${tool}: ${JSON.stringify(all)}`;
    }
    const grows = all.every((one) => one.every((p, i) => i === 0 || p.progress > one[i - 1].progress));
    return grows || `not growing: ${JSON.stringify(all)}`;
  },
  form: () => each('form', /my name|my email/),
  page: () => each('page', /Signed in|accept|completed/),
  pages: () => [...new Set(seen.pages.map((p) => p.split('?')[0]))].sort().join(' '),
  model: () => each('model', /reply to /),
  samplers: () => [...seen.samplers].sort().join('; '),
  roots: () => each('roots', /file:...project/),
  asked: () => [...new Set(seen.asked)].sort().join('; '),
  declined: async () => {
    action = 'decline';
    const all = await each('form', /decline/);
    action = 'accept';
    return all;
  },
  allowed: async () => {
    seen.asked.length = 0;
    const r = await call('careful', { prompt: 'use fixture__greet {"name":"Ada"}' });
    return `${seen.asked.join('; ')} => ${text(r)}`;
  },
  denied: async () => {
    action = 'decline';
    const r = await call('careful', { prompt: 'use fixture__greet {"name":"Bob"}' });
    action = 'accept';
    return !text(r).includes('Hello, Bob');
  },
  task: async () => {
    if (!client.task) return 'none';
    const kinds = [];
    const result = await client.task({ name: 'helper', arguments: { prompt: 'use fixture__test_elicitation {"message":"In a task?"}' } }, (kind) => kinds.push(kind));
    return `${kinds[0]} ${kinds.at(-1)} ${text(result)}`;
  },
  transcript: async () => {
    const r = await call('helper', { prompt: 'for the record' });
    const uri = `troupe://runs/${r._meta['dev.troupe/run']}`;
    const { contents } = await client.readResource({ uri });
    const listed = (await client.listResources()).resources.some((o) => o.uri === uri);
    const state = JSON.parse(contents[1].text);
    return `${contents[0].mimeType} ${contents[0].text.includes('for the record')} ${state.state} ${state.runId === r._meta['dev.troupe/run']} ${listed}`;
  },
  prompts: async () => (await client.listPrompts()).prompts.map((p) => p.name).sort().join(' '),
  prompt: async () => (await client.getPrompt({ name: 'helper', arguments: { prompt: 'now' } })).messages.map((m) => m.content.text).join(' | '),
  cancel: async () => {
    const gone = new AbortController();
    let calls;
    const begun = new Promise((r) => { calls = r; });
    const calling = run('use fixture__slow_compute {"seconds":60,"label":"never"}', { signal: gone.signal, onprogress: (p) => /calls .*slow_compute/.test(p.message) && calls() });
    await Promise.race([begun, calling]);
    if (!shared) { // a run that is under way can be read and watched
      const { resources } = await client.listResources();
      for (const { uri } of resources) {
        const { contents } = await client.readResource({ uri });
        if (JSON.parse(contents[1].text).state === 'running') await client.watch(uri);
      }
    }
    gone.abort();
    return calling.then(() => 'no error', () => 'cancelled');
  },
  watched: () => shared || until(() => seen.updated.some((uri) => uri.startsWith('troupe://runs/'))),
  afterwards: () => run('once more'),
};

const report = {};
for (const [name, step] of Object.entries(steps)) {
  try {
    report[name] = await step();
  } catch (e) {
    report[name] = `failed: ${e.message} ${e.code ?? ''}`;
  }
}
process.stdout.write(`${JSON.stringify(report)}\n`);
for await (const _ of process.stdin);
await client.close();
