// The adapter's calls and turns: what a signal reaches, and when. The process behind it is real.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { PEER, start } from './process.mjs'
import './host.mjs'

const { AntigravityAdapter } = await import('../../../dsh/adapter.js')
const { Sidecar } = await import('../../../dsh/sidecar.js')

const TEXT = [{ type: 'block-start', index: 0, blockType: 'text' }, { type: 'text-delta', index: 0, text: 'Hello' }]
const finish = (kind, failure) => ({ type: 'finish', reason: { kind, ...(failure && { failure }) } })

function mount(t, argv = PEER) {
  const warnings = []
  const sidecar = new Sidecar({
    launch: async () => start(argv),
    settings: () => ({}),
    needs: () => '',
    busy: () => adapter.busy,
    graceMs: () => 5_000,
    attended: () => false,
    client: { name: 'test', version: '1' },
    onNotification: () => {},
    warn: (message) => warnings.push(message),
  })
  const adapter = new AntigravityAdapter(sidecar, () => undefined, (message) => warnings.push(message))
  t.after(async () => {
    adapter.dispose()
    await sidecar.dispose()
  })
  const history = async () => {
    const methods = await sidecar.request('models/resolve', { model: 'history' })
    return methods.filter((method) => method.startsWith('stream/'))
  }
  return { adapter, sidecar, history, warnings }
}

const call = (more) => ({ provider: 'antigravity-acp', model: 'm', messages: [{ role: 'user', content: [{ type: 'text', text: 'x' }] }], ...more })

async function collect(stream) {
  const chunks = []
  for await (const chunk of stream) chunks.push(chunk)
  return chunks
}

/** The end of a call, and what came before it. */
async function outcome(stream) {
  const chunks = await collect(stream)
  return { reason: chunks.at(-1).reason, before: chunks.length - 1 }
}

test('a signal that fires between two calls of a turn cancels the turn at once', async (t) => {
  const { adapter, history } = mount(t)
  const control = new AbortController()
  const one = await outcome(adapter.stream(call({ sessionId: 'a', signal: control.signal, play: [...TEXT, finish('tool-calls')] })))
  assert.equal(one.reason.kind, 'tool-calls')
  assert.deepEqual(await history(), ['stream/start s2'])
  control.abort()
  assert.deepEqual(await history(), ['stream/start s2', 'stream/cancel s2'])
})

test('a call with a purpose beside a tool turn leaves the turn cancellable', async (t) => {
  const { adapter, history } = mount(t)
  const control = new AbortController()
  await collect(adapter.stream(call({ sessionId: 'a', signal: control.signal, play: [finish('tool-calls')] })))
  for (const purpose of ['session-title', 'compaction']) {
    await collect(adapter.stream(call({ sessionId: 'a', purpose, play: [...TEXT, finish('stop')] })))
  }
  control.abort()
  assert.ok((await history()).includes('stream/cancel s2'))
})

test('a signal does nothing once its turn went on, ended, or belongs to another session', async (t) => {
  const { adapter, history } = mount(t)
  const [old, other] = [new AbortController(), new AbortController()]
  await collect(adapter.stream(call({ sessionId: 'a', signal: old.signal, play: [finish('tool-calls')] })))
  await collect(adapter.stream(call({ sessionId: 'a', play: [finish('stop')] })))
  await collect(adapter.stream(call({ sessionId: 'b', signal: other.signal, play: [finish('stop')] })))
  old.abort()
  other.abort()
  assert.ok(!(await history()).some((method) => method.startsWith('stream/cancel')))
})

test('turns that nobody goes on with are forgotten, the oldest first', async (t) => {
  const { adapter, history } = mount(t)
  const controls = Array.from({ length: 66 }, () => new AbortController())
  for (const [at, { signal }] of controls.entries()) {
    await collect(adapter.stream(call({ sessionId: `s${at}`, signal, play: [finish('tool-calls')] })))
  }
  for (const control of controls) control.abort()
  const cancels = (await history()).filter((method) => method.startsWith('stream/cancel'))
  assert.equal(cancels.length, 64)
  assert.ok(!cancels.includes('stream/cancel s2'))
})

test('a turn is open between two calls, until it goes on to its end or is given up', async (t) => {
  const { adapter } = mount(t)
  const control = new AbortController()
  assert.equal(adapter.busy, false)
  await collect(adapter.stream(call({ sessionId: 'a', play: [finish('tool-calls')] })))
  assert.equal(adapter.busy, true)
  await collect(adapter.stream(call({ sessionId: 'a', play: [finish('stop')] })))
  assert.equal(adapter.busy, false)
  await collect(adapter.stream(call({ sessionId: 'b', signal: control.signal, play: [finish('tool-calls')] })))
  assert.equal(adapter.busy, true)
  control.abort()
  assert.equal(adapter.busy, false)
})

test('a plugin that is unmounted listens to no turn any more', async (t) => {
  const { adapter, history } = mount(t)
  const control = new AbortController()
  await collect(adapter.stream(call({ sessionId: 'a', signal: control.signal, play: [finish('tool-calls')] })))
  adapter.dispose()
  control.abort()
  assert.deepEqual(await history(), ['stream/start s2'])
})

test('a signal in the middle ends the call at once, once, and is sent on', async (t) => {
  const { adapter, history } = mount(t)
  const control = new AbortController()
  const ended = outcome(adapter.stream(call({ signal: control.signal })))
  while ((await history()).length === 0);
  control.abort()
  const { reason, before } = await ended
  assert.equal(reason.kind, 'aborted')
  assert.equal(before, 0)
  assert.equal((await history()).filter((method) => method.startsWith('stream/cancel')).length, 1)
})

test('a signal that had fired before starts nothing', async (t) => {
  const { adapter, history } = mount(t)
  assert.equal((await outcome(adapter.stream(call({ signal: AbortSignal.abort({ kind: 'user' }) })))).reason.kind, 'aborted')
  assert.deepEqual(await history(), [])
})

test('nothing is yielded after the signal, also of what has come already', async (t) => {
  const { adapter } = mount(t)
  const control = new AbortController()
  const stream = adapter.stream(call({ signal: control.signal, play: [...TEXT, ...TEXT, finish('stop')] }))
  assert.equal((await stream.next()).value.type, 'block-start')
  control.abort()
  assert.equal((await stream.next()).value.reason.kind, 'aborted')
  assert.equal((await stream.next()).done, true)
})

test('a consumer that leaves cancels what runs, and only that', async (t) => {
  const { adapter, history } = mount(t)
  const started = adapter.stream(call({ sessionId: 'a' }))
  const waiting = started.next()
  while ((await history()).length === 0);
  const left = adapter.stream(call({ sessionId: 'b', play: [...TEXT, finish('stop')] }))
  await left.next()
  await left.return()
  const methods = await history()
  assert.ok(!methods.includes('stream/cancel s2'))
  adapter.dispose()
  void waiting
})

for (const [code, begun, expected] of [
  ['ACP_DISCONNECTED', false, 'TRANSPORT'],
  ['ACP_TIMEOUT', false, 'TIMEOUT'],
  ['ACP_SESSION_BUSY', false, 'RATE_LIMIT'],
  ['ACP_AUTH_REQUIRED', false, 'ACP_AUTH_REQUIRED'],
  ['ACP_DISCONNECTED', true, 'ACP_DISCONNECTED'],
]) {
  test(`${code} ${begun ? 'after a part of the answer' : 'before the first chunk'} is the host's ${expected}`, async (t) => {
    const { adapter } = mount(t)
    const failure = { code, message: 'what happened' }
    const more = begun ? { play: [...TEXT, finish('error', failure)] } : { fail: code }
    const { reason } = await outcome(adapter.stream(call(more)))
    assert.equal(reason.kind, 'error')
    assert.equal(reason.failure.code, expected)
  })
}

test('an answer without its last chunk is an error, not an answer', async (t) => {
  const { adapter } = mount(t)
  const { reason, before } = await outcome(adapter.stream(call({ play: TEXT })))
  assert.equal(before, 2)
  assert.equal(reason.failure.code, 'ACP_PROTOCOL_ERROR')
})

test('a failed catalogue leaves the default, and a model that was never listed resolves to itself', async (t) => {
  const { adapter, warnings } = mount(t, [process.execPath, '-e', 'process.exit(1)'])
  assert.deepEqual((await adapter.listModels('p')).map(({ id, provider }) => [id, provider]), [['server-default', 'p']])
  assert.equal((await adapter.resolveModel('p', 'other')).id, 'other')
  assert.notDeepEqual(warnings, [])
})

// The real sidecar around an adapter that plays a script: windows are its doing.
const PYTHON = process.env.PYTHON
const SCRIPTED = [PYTHON, new URL('../../helpers/agents/scripted_sidecar.py', import.meta.url).pathname]
const script = (...steps) => ({ messages: [{ role: 'user', content: [{ type: 'text', text: JSON.stringify(steps) }] }] })

test('a consumer that does not read holds its own stream and no other, in bounded memory', async (t) => {
  assert.ok(PYTHON, 'PYTHON names the Python of the tests')
  const { adapter, sidecar } = mount(t, SCRIPTED)
  const slow = adapter.stream(call(script({ say: 'x', times: 100_000 }, { finish: 'stop' })))
  await slow.next()
  const quick = await collect(adapter.stream(call(script({ say: 'y', times: 1_000 }, { finish: 'stop' }))))
  assert.equal(quick.length, 1_003)
  const { pulled, sidecar_unacknowledged: open } = await sidecar.request('diagnostics', {})
  assert.ok(pulled < 1_003 + 400, `${pulled}`)
  assert.ok(open <= 256, `${open}`)
  let rest = 1
  for await (const chunk of slow) rest += chunk.type === 'finish' ? 0 : 1
  assert.equal(rest, 100_002)
})

test('a 32 MiB history goes through, and a larger one is refused for itself', async (t) => {
  const { adapter } = mount(t, SCRIPTED)
  const steps = script({ say: 'y' }, { finish: 'stop' }).messages
  const long = (bytes) => [{ role: 'user', content: [{ type: 'text', text: 'z'.repeat(bytes) }] }, ...steps]
  const MiB = 1024 * 1024
  assert.equal((await outcome(adapter.stream(call({ messages: long(31 * MiB) })))).reason.kind, 'stop')
  assert.equal((await outcome(adapter.stream(call({ messages: long(33 * MiB) })))).reason.failure.code, 'INVALID_REQUEST')
  assert.equal((await outcome(adapter.stream(call({ messages: steps })))).reason.kind, 'stop')
})
