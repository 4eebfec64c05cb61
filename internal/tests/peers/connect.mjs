// A client on one of the SDKs for TypeScript whose tool needs an account of the user.
//
//   node connect.mjs v1|v2 REVISION url|none http URL TOKEN
//
// url is a client that can send its user to a page, none is one that can ask nothing. For each
// line of stdin it calls the tool my_repos. It writes objects, one a line: the page that the user
// is to open, and what the tool says at the end.
import readline from 'node:readline';
import { adapters } from './sdks.mjs';

const [sdk, revision, kind, transport, address, token] = process.argv.slice(2);
const write = (value) => process.stdout.write(`${JSON.stringify(value)}\n`);
const pages = new Set();
const handlers = kind === 'none' ? {} : {
  'elicitation/create': ({ params }) => {
    if (!pages.has(params.url)) write({ page: params.url, message: params.message });
    pages.add(params.url);
    return { action: 'accept' };
  },
};
const client = await adapters[sdk].connect({ revision, transport, target: [address], token }, handlers, {}, kind === 'none' ? {} : { elicitation: { url: {} } });
for await (const _ of readline.createInterface({ input: process.stdin })) {
  const r = await client.callTool({ name: 'my_repos', arguments: {} }, { timeout: 60_000 }).catch((e) => ({ isError: true, content: [{ text: `${e.code} ${e.message} ${JSON.stringify(e.data)}` }] }));
  write({ text: r.content.map((c) => c.text).join('\n'), isError: r.isError === true });
}
await client.close();
