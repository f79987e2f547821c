// Drives an official TypeScript MCP client for the tests. One JSON command a line on stdin, one JSON answer a line on
// stdout. The first argument is JSON: package ("v1" or "v2"), mode ("legacy" or "auto", v2 only), url, headers.
import { createInterface } from 'node:readline';

const { package: generation, mode, url, headers } = JSON.parse(process.argv[2]);
const say = (message) => process.stdout.write(JSON.stringify(message) + '\n');

async function connect() {
  const info = { name: 'test-client', version: '1' };
  if (generation === 'v1') {
    const { Client } = await import('@modelcontextprotocol/sdk/client/index.js');
    const { StreamableHTTPClientTransport } = await import('@modelcontextprotocol/sdk/client/streamableHttp.js');
    const client = new Client(info, { capabilities: {} });
    const transport = new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } });
    await client.connect(transport);
    const call = (params, options) => client.callTool(params, undefined, options);
    return { client, call, version: () => transport.protocolVersion };
  }
  const { Client, StreamableHTTPClientTransport } = await import('@modelcontextprotocol/client');
  const client = new Client(info, { capabilities: {}, versionNegotiation: { mode } });
  const transport = new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers } });
  await client.connect(transport);
  return { client, call: (params, options) => client.callTool(params, options), version: () => client.getNegotiatedProtocolVersion() };
}

const { client, call, version } = await connect();
client.onerror = (error) => say({ error: String(error?.message ?? error) });
const running = new Map();

async function answer({ key, op, name, arguments: args, timeout }) {
  if (op === 'list') return (await client.listTools()).tools;
  if (op === 'version') return version();
  const controller = new AbortController();
  running.set(key, controller);
  try {
    return await call({ name, arguments: args }, { signal: controller.signal, timeout: timeout ?? 30_000 });
  } finally {
    running.delete(key);
  }
}

say({ ready: true });
for await (const line of createInterface({ input: process.stdin })) {
  const command = JSON.parse(line);
  if (command.op === 'abort') running.get(command.key)?.abort();
  else
    answer(command).then(
      (result) => say({ key: command.key, result }),
      (error) => say({ key: command.key, failed: String(error?.message ?? error) }),
    );
}
await client.close();
process.exit(0);
