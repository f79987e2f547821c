// One conversation with a real process: order, back-pressure, and what breaks it.
import assert from 'node:assert/strict'
import { once } from 'node:events'
import { test } from 'node:test'
import { Connection } from '../../../dsh/connection.js'
import { PEER, start } from './process.mjs'

const MiB = 1024 * 1024

/** A connection that ends with its test. */
function connect(t, ...argv) {
  const handle = start([...PEER, ...argv])
  const told = []
  let hear = () => {}
  const heard = new Promise((resolve) => { hear = resolve })
  const connection = new Connection(handle, (method, params) => {
    told.push({ method, params })
    hear()
  })
  t.after(() => connection.close(1_000))
  return { connection, handle, told, heard }
}

/** A process that does not read, behind a pipe that is full. */
async function stalled(t) {
  const made = connect(t, 'deaf')
  await made.heard
  const first = made.connection.request('diagnostics', { padding: 'x'.repeat(2 * MiB) })
  return { ...made, first, listen: () => made.handle.child.kill('SIGUSR2') }
}

test('a cancel does not overtake the start that still waits for the pipe', async (t) => {
  const { connection, first, listen } = await stalled(t)
  const stream = connection.stream({})
  const other = connection.stream({ chunks: 1 })
  stream.cancel()
  // At once: nobody waits for the pipe to learn that what was never sent is over.
  await assert.rejects(stream.next(), { code: 'ABORTED' })
  listen()
  await first
  assert.equal((await other.next()).length, 1)
  const history = await connection.request('models/resolve', { model: 'history' })
  assert.deepEqual(history, ['diagnostics', 'stream/start s3', 'models/resolve'])
})

test('requests that waited for the pipe leave in their order', async (t) => {
  const { connection, listen } = await stalled(t)
  const asked = ['a', 'b', 'c', 'd'].map((model) => connection.request('models/resolve', { model }))
  const stream = connection.stream({ chunks: 2 })
  const last = connection.request('models/resolve', { model: 'history' })
  listen()
  assert.deepEqual(await Promise.all(asked), ['a', 'b', 'c', 'd'])
  assert.equal((await stream.next()).length, 2)
  const resolve = 'models/resolve'
  assert.deepEqual(await last, ['diagnostics', resolve, resolve, resolve, resolve, 'stream/start s6', resolve])
})

test('a request that is given up while it waits is never sent', async (t) => {
  const { connection, first, listen } = await stalled(t)
  const control = new AbortController()
  const cancelled = connection.request('models/resolve', { model: 'x' }, { signal: control.signal })
  const late = connection.request('models/list', {}, { timeoutMs: 1 })
  control.abort()
  await assert.rejects(cancelled, { code: 'ABORTED' })
  await assert.rejects(late, { code: 'ACP_TIMEOUT' })
  listen()
  await first
  assert.deepEqual(await connection.request('models/resolve', { model: 'history' }), ['diagnostics', 'models/resolve'])
})

test('a cancel of a stream that runs goes past requests that wait', async (t) => {
  const { connection, handle } = connect(t)
  const stream = connection.stream({})
  assert.deepEqual(await connection.request('models/resolve', { model: 'history' }), ['stream/start s1', 'models/resolve'])
  handle.child.kill('SIGSTOP')
  const big = [1, 2, 3].map(() => connection.request('diagnostics', { padding: 'x'.repeat(2 * MiB) }))
  stream.cancel()
  await assert.rejects(stream.next(), { code: 'ABORTED' })
  handle.child.kill('SIGCONT')
  await Promise.all(big)
  const history = await connection.request('models/resolve', { model: 'history' })
  assert.deepEqual(history.slice(2, 5), ['diagnostics', 'stream/cancel s1', 'diagnostics'])
})

test('a request that was sent and is given up is cancelled by its id', async (t) => {
  const { connection } = connect(t)
  await assert.rejects(connection.request('diagnostics', { silent: true }, { timeoutMs: 50 }), { code: 'ACP_TIMEOUT' })
  assert.deepEqual(await connection.request('models/resolve', { model: 'history' }), ['diagnostics', '$/cancel', 'models/resolve'])
})

test('chunks are acknowledged as they are consumed, not as they come', async (t) => {
  const { connection } = connect(t)
  const stream = connection.stream({})
  stream.push(Array.from({ length: 200 }, () => ({ type: 'text-delta', index: 0, text: 'x' })))
  const history = () => connection.request('models/resolve', { model: 'history' })
  await stream.next()
  assert.ok(!(await history()).includes('stream/ack s1'))
  for (let at = 0; at < 130; at += 1) stream.consumed(1)
  assert.equal((await history()).filter((method) => method === 'stream/ack s1').length, 2)
  stream.cancel()
})

test('a frame may be 32 MiB, both ways, and one that is larger is refused alone', async (t) => {
  const { connection } = connect(t)
  const room = 32 * MiB - 200
  await connection.request('diagnostics', { padding: 'x'.repeat(room) })
  assert.equal((await connection.request('diagnostics', { bytes: room })).padding.length, room)
  const refused = connection.request('diagnostics', { padding: 'x'.repeat(32 * MiB) })
  const other = connection.request('models/resolve', { model: 'still here' })
  await assert.rejects(refused, { code: 'INVALID_REQUEST' })
  assert.equal(await other, 'still here')
})

for (const [name, raw] of [
  ['no JSON', 'Hello\n'],
  ['no object', 'null\n'],
  ['chunks that are none', '{"method":"stream/chunk","params":{"stream":"s1","chunks":5}}\n'],
  ['parameters that are none', '{"method":"stream/chunk","params":null}\n'],
]) {
  test(`a program that sends ${name} is ended, and what runs fails typed`, async (t) => {
    const { connection, handle } = connect(t)
    const stream = connection.stream({})
    const request = connection.request('diagnostics', { raw })
    await assert.rejects(request, { code: 'SIDECAR_PROTOCOL' })
    await assert.rejects(stream.next(), { code: 'SIDECAR_PROTOCOL' })
    await handle.done
    await assert.rejects(connection.request('models/list', {}), { code: 'SIDECAR_PROTOCOL' })
  })
}

test('a line without an end is not collected without a bound', async (t) => {
  const { connection, handle } = connect(t)
  await assert.rejects(connection.request('diagnostics', { endless: 33 * MiB }), { code: 'SIDECAR_PROTOCOL' })
  await handle.done
})

test('an error without a body, an answer to nobody and blank lines break nothing', async (t) => {
  const { connection } = connect(t)
  const raw = '\n\n{"id":99,"result":{}}\n{"id":1,"error":null}\n'
  await assert.rejects(connection.request('diagnostics', { raw }), { code: 'UNKNOWN' })
  assert.equal(await connection.request('models/resolve', { model: 'x' }), 'x')
})

test('a process that is killed fails everything that runs or waits', async (t) => {
  const { connection, handle, first } = await stalled(t)
  const stream = connection.stream({})
  const request = connection.request('models/list', {})
  handle.child.kill('SIGKILL')
  await assert.rejects(first, { code: 'ACP_DISCONNECTED' })
  await assert.rejects(stream.next(), { code: 'ACP_DISCONNECTED' })
  await assert.rejects(request, { code: 'ACP_DISCONNECTED' })
  assert.equal((await connection.closed).code, 'ACP_DISCONNECTED')
  assert.equal(connection.alive, false)
})

test('a close ends a process that does not read, within its grace', async (t) => {
  const { connection, handle, first } = await stalled(t)
  const failed = assert.rejects(first, { code: 'ACP_DISPOSED' })
  await connection.close(20)
  await failed
  assert.notEqual(handle.child.exitCode ?? handle.child.signalCode, null)
})

test('what a process wrote before it ended is still delivered', async (t) => {
  const { connection, handle } = connect(t)
  const stream = connection.stream({ chunks: 1000 })
  await once(handle.stdout, 'data')
  handle.child.kill('SIGKILL')
  await connection.closed
  assert.equal((await stream.next()).length, 1000)
})
