// The two SDKs for TypeScript as clients, made alike for client.mjs.
import * as v1 from '@modelcontextprotocol/sdk/client/index.js';
import * as v1http from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import * as v1sse from '@modelcontextprotocol/sdk/client/sse.js';
import * as v1stdio from '@modelcontextprotocol/sdk/client/stdio.js';
import * as v1types from '@modelcontextprotocol/sdk/types.js';
import * as v2 from '@modelcontextprotocol/client';
import * as v2stdio from '@modelcontextprotocol/client/stdio';

const info = { name: 'a client of the tests', version: '1.0.0' };
const everything = { roots: {}, sampling: { tools: {} }, elicitation: { form: {}, url: {} } };

// The transport that the command line names.
function open({ transport, target, token }, { Stdio, Http, Sse }) {
  switch (transport) {
    case 'stdio': return new Stdio({ command: target[0], args: target.slice(1), stderr: 'inherit' });
    case 'sse': return new Sse(new URL(target[0]));
    default: return new Http(new URL(target[0]), token && { requestInit: { headers: { Authorization: `Bearer ${token}` } } });
  }
}

// What client.mjs needs beside the methods that both SDKs have.
const facade = (client, own) => Object.assign(client, { server: () => client.getServerVersion().name }, own);

// Version 1 knows requests and notifications by their schemas.
const schemas = {
  'elicitation/create': v1types.ElicitRequestSchema,
  'sampling/createMessage': v1types.CreateMessageRequestSchema,
  'roots/list': v1types.ListRootsRequestSchema,
  'notifications/message': v1types.LoggingMessageNotificationSchema,
  'notifications/resources/updated': v1types.ResourceUpdatedNotificationSchema,
  'notifications/tools/list_changed': v1types.ToolListChangedNotificationSchema,
};

export const adapters = {
  v1: {
    async connect(where, requests, notifications, capabilities = everything) {
      const client = new v1.Client(info, { capabilities });
      for (const [method, f] of Object.entries(requests)) client.setRequestHandler(schemas[method], f);
      for (const [method, f] of Object.entries(notifications)) client.setNotificationHandler(schemas[method], f);
      const transport = open(where, {
        Stdio: v1stdio.StdioClientTransport, Http: v1http.StreamableHTTPClientTransport, Sse: v1sse.SSEClientTransport,
      });
      let revision;
      transport.setProtocolVersion = wrap(transport, transport.setProtocolVersion, (v) => { revision = v; });
      await client.connect(transport);
      const callTool = client.callTool.bind(client);
      return facade(client, {
        revision: () => revision, watch: (uri) => client.subscribeResource({ uri }),
        callTool: (params, options) => callTool(params, undefined, options),
        task: (params, tell) => asTask(client, params, tell),
      });
    },
  },
  v2: {
    async connect(where, requests, notifications, capabilities = everything) {
      const modern = where.revision >= '2026';
      const client = new v2.Client(info, {
        capabilities, supportedProtocolVersions: [where.revision],
        versionNegotiation: { mode: modern ? { pin: where.revision } : 'legacy' },
      });
      for (const [method, f] of Object.entries(requests)) client.setRequestHandler(method, f);
      for (const [method, f] of Object.entries(notifications)) client.setNotificationHandler(method, f);
      await client.connect(open(where, {
        Stdio: v2stdio.StdioClientTransport, Http: v2.StreamableHTTPClientTransport, Sse: v2.SSEClientTransport,
      }));
      if (modern) await client.listen({ toolsListChanged: true });
      return facade(client, {
        revision: () => client.getNegotiatedProtocolVersion(),
        watch: (uri) => (modern ? client.listen({ resourceSubscriptions: [uri] }) : client.subscribeResource({ uri })),
      });
    },
  },
};

// Calls a tool as a task and follows it to its result; tell gets the kind of each message.
async function asTask(client, params, tell) {
  for await (const message of client.experimental.tasks.callToolStream(params, undefined, { task: { ttl: 60_000 } })) {
    tell(message.type);
    if (message.type === 'result') return message.result;
    if (message.type === 'error') throw message.error;
  }
  throw new Error('the task has no result');
}

// A method that tells what it is called with.
function wrap(object, method, tell) {
  return (...args) => {
    tell(...args);
    return method?.apply(object, args);
  };
}
