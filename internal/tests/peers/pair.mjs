// A client on one of the SDKs for TypeScript that lets a tool ask it, again and again,
// and writes what it was asked and answered to stdout, as one JSON object.
//
//   node pair.mjs v1|v2 REVISION NAME COUNT http URL
//
// It waits for a line of stdin before it begins, so that several of them begin at once.
import readline from 'node:readline';
import { adapters } from './sdks.mjs';

const [sdk, revision, name, count, transport, ...target] = process.argv.slice(2);
const asked = new Set();
const client = await adapters[sdk].connect({ revision, transport, target }, {
  'elicitation/create': ({ params }) => {
    asked.add(params.message);
    return { action: 'accept', content: { username: name, email: `${name}@example.com` } };
  },
  'sampling/createMessage': () => ({ role: 'assistant', model: 'the client\'s', stopReason: 'endTurn', content: { type: 'text', text: `I am ${name}` } }),
  'roots/list': () => ({ roots: [{ uri: `file:///${name}`, name }] }),
}, {
  'notifications/message': () => {},
  'notifications/resources/updated': () => {},
  'notifications/tools/list_changed': () => {},
});

const text = async (tool, args = {}) => (await client.callTool({ name: `fixture__${tool}`, arguments: args })).content.map((c) => c.text).join(' ');
process.stdout.write('ready\n');
for await (const _ of readline.createInterface({ input: process.stdin })) break;

const answers = await Promise.all(Array.from({ length: Number(count) }, async (_, i) => [
  await text('test_elicitation', { message: `${name} ${i}?` }),
  await text('test_sampling', { prompt: 'Who are you?' }),
  await text('test_input_required_result_list_roots'),
]));
const unique = (all) => [...new Set(all)].sort().join('; ');
const report = { asked: unique(asked), forms: unique(answers.map((a) => a[0])), samples: unique(answers.map((a) => a[1])), roots: unique(answers.map((a) => a[2])) };
process.stdout.write(`${JSON.stringify(report)}\n`);
await client.close();
