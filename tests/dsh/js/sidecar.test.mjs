// When a sidecar is started, started again, and given up.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { Sidecar } from '../../../dsh/sidecar.js'
import { PEER, start } from './process.mjs'

const FAILS = [process.execPath, '-e', 'console.error("no such module"); process.exit(3)']
const PAUSE_MS = 300

/** A sidecar whose program, settings and pause a test sets. */
function mount(t, argv = PEER) {
  const state = { argv, settings: {}, starts: [], warnings: [], needs: '', busy: false, graceMs: 1_000 }
  const sidecar = new Sidecar({
    launch: async () => {
      const handle = start(state.argv)
      state.starts.push(handle)
      return handle
    },
    settings: () => state.settings,
    needs: () => state.needs,
    busy: () => state.busy,
    graceMs: () => state.graceMs,
    attended: () => false,
    client: { name: 'test', version: '1' },
    onNotification: () => {},
    warn: (message) => state.warnings.push(message),
    pauseMs: PAUSE_MS,
  })
  t.after(() => sidecar.dispose())
  return { sidecar, state }
}

const fails = (sidecar, code = 'ACP_DISCONNECTED') => assert.rejects(sidecar.connection(), { code })

test('several callers share one start', async (t) => {
  const { sidecar, state } = mount(t)
  const found = await Promise.all([sidecar.connection(), sidecar.connection(), sidecar.request('diagnostics', {})])
  assert.equal(found[0], found[1])
  assert.equal(state.starts.length, 1)
})

test('after three ends in a row it is left alone, said once more and finally, and tried again after the pause', async (t) => {
  const { sidecar, state } = mount(t, FAILS)
  for (let at = 0; at < 3; at += 1) await fails(sidecar)
  assert.equal(state.starts.length, 3)
  assert.match(state.warnings.at(-1), /no such module/)
  for (let at = 0; at < 5; at += 1) {
    await assert.rejects(sidecar.connection(), (error) => error.final && /3 times in a row/.test(error.message))
  }
  assert.equal(state.starts.length, 3)
  state.argv = PEER
  const deadline = Date.now() + 20 * PAUSE_MS
  while (sidecar.running === undefined && Date.now() < deadline) await sidecar.connection().catch(() => new Promise(setImmediate))
  assert.equal(state.starts.length, 4)
  assert.equal(await sidecar.request('models/resolve', { model: 'x' }), 'x')
})

test('a changed setting gives a sidecar that was given up another chance', async (t) => {
  const { sidecar, state } = mount(t, FAILS)
  for (let at = 0; at < 4; at += 1) await fails(sidecar)
  state.argv = PEER
  await sidecar.settingsChanged()
  await sidecar.connection()
  assert.equal(state.starts.length, 4)
})

test('ends with an answer between them are not in a row, and each is restarted', async (t) => {
  const { sidecar, state } = mount(t)
  for (let at = 0; at < 5; at += 1) {
    assert.equal(await sidecar.request('models/resolve', { model: 'x' }), 'x')
    await assert.rejects(sidecar.request('diagnostics', { die: 'SIGKILL' }), { code: 'ACP_DISCONNECTED' })
  }
  assert.equal(state.starts.length, 5)
})

test('ends that no answer interrupted count, also when they come after a good start', async (t) => {
  const { sidecar, state } = mount(t)
  for (let at = 0; at < 3; at += 1) await assert.rejects(sidecar.request('diagnostics', { die: 'SIGKILL' }), { code: 'ACP_DISCONNECTED' })
  await assert.rejects(sidecar.connection(), /3 times in a row/)
  assert.equal(state.starts.length, 3)
})

test('wrong settings are said every time and are nobody\'s end', async (t) => {
  const { sidecar, state } = mount(t)
  state.settings = { refuse: true }
  for (let at = 0; at < 5; at += 1) await fails(sidecar, 'INVALID_SETTINGS')
  await Promise.all(state.starts.map((handle) => handle.done))
  state.settings = {}
  await sidecar.connection()
})

test('another version of the protocol is refused and its process ended', async (t) => {
  const { sidecar, state } = mount(t)
  state.settings = { protocol: 2 }
  await fails(sidecar, 'SIDECAR_PROTOCOL')
  await state.starts[0].done
})

test('a caller that gives up ends nothing for the others', async (t) => {
  const { sidecar, state } = mount(t)
  const control = new AbortController()
  const impatient = sidecar.request('models/list', {}, { signal: control.signal })
  const patient = sidecar.connection()
  control.abort()
  await assert.rejects(impatient, { code: 'ABORTED' })
  assert.ok((await patient).alive)
  assert.equal(state.starts.length, 1)
})

test('a disposal in the middle of a start leaves no process, and nothing starts afterwards', async (t) => {
  const { sidecar, state } = mount(t, [...PEER, 'deaf'])
  const starting = assert.rejects(sidecar.connection(), { code: 'ABORTED' })
  await new Promise(setImmediate)
  state.graceMs = 50
  await sidecar.dispose()
  await starting
  await Promise.all(state.starts.map((handle) => handle.done))
  await fails(sidecar, 'ACP_DISPOSED')
  assert.equal(state.starts.length, 1)
})

test('a disposal fails the calls that run, and is waited for', async (t) => {
  const { sidecar, state } = mount(t)
  const stream = (await sidecar.connection()).stream({})
  const failed = assert.rejects(stream.next())
  await sidecar.dispose()
  await failed
  assert.notEqual(state.starts[0].child.exitCode ?? state.starts[0].child.signalCode, null)
  assert.deepEqual(state.warnings, [])
})

test('a setting that takes another process starts it as soon as nothing runs on the old one', async (t) => {
  const { sidecar, state } = mount(t)
  const first = await sidecar.connection()
  const stream = first.stream({})
  state.needs = 'the engine'
  await sidecar.settingsChanged()
  assert.equal(await sidecar.connection(), first)
  stream.cancel()
  await assert.rejects(stream.next(), { code: 'ABORTED' })
  state.busy = true
  assert.equal(await sidecar.request('models/resolve', { model: 'x' }), 'x')
  assert.equal(state.starts.length, 1)
  state.busy = false
  assert.equal(await sidecar.request('models/resolve', { model: 'x' }), 'x')
  assert.equal(state.starts.length, 2)
  await state.starts[0].done
  assert.notEqual(await sidecar.connection(), first)
  assert.equal(state.starts.length, 2)
  assert.deepEqual(state.warnings, [])
})

test('a change alone ends what no longer fits, and a disposal waits for it', async (t) => {
  const { sidecar, state } = mount(t)
  await sidecar.connection()
  state.needs = 'the engine'
  await sidecar.settingsChanged()
  assert.equal(sidecar.running, undefined)
  await sidecar.dispose()
  assert.notEqual(state.starts[0].child.exitCode ?? state.starts[0].child.signalCode, null)
  assert.equal(state.starts.length, 1)
})
