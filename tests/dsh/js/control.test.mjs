// The two sides of one call: what was decided, and what is let run. Listeners are called as the host calls them.
import assert from 'node:assert/strict'
import { test } from 'node:test'
import { listen } from '../../../dsh/control.js'

/** A host with the control mounted; `answer` is what the sidecar says of a call. */
function mount(answer) {
  const listeners = {}
  const asked = []
  const ctx = {
    on: (event, listener, { prepend = false } = {}) => { (listeners[event] ??= [])[prepend ? 'unshift' : 'push'](listener) },
    logger: { warn: () => {} },
  }
  const sidecar = {
    request: async (method, { call }) => {
      asked.push(call.arguments)
      return answer(call)
    },
  }
  listen(ctx, sidecar, () => true, () => true)
  const waterfall = (event, exec, last) => {
    const from = (at) => at === listeners[event].length ? last(exec) : listeners[event][at](exec, () => from(at + 1))
    return from(0)
  }
  const run = async (exec, tool) => {
    const decision = await waterfall('tools/pre-execute', exec, async () => ({ kind: 'allow' }))
    if (decision.kind === 'deny') return decision.reason
    return waterfall('tools/execute', exec, async () => tool(exec.arguments))
  }
  return { ctx, run, asked }
}

const call = (command) => ({ callId: '1', name: 'bash', arguments: { command } })
const onlyTrue = ({ arguments: { command } }) => command === 'true' ? { decision: 'allow' } : { decision: 'deny', reason: 'no such rule' }

test('a call that nobody changed is decided once', async () => {
  const { run, asked } = mount(onlyTrue)
  assert.equal(await run(call('true'), ({ command }) => `ran ${command}`), 'ran true')
  assert.equal(asked.length, 1)
})

test('a change between the decision and the run is decided again', async () => {
  const { ctx, run, asked } = mount(onlyTrue)
  ctx.on('tools/pre-execute', (exec, next) => {
    exec.arguments = { command: 'other' }
    return next()
  })
  await assert.rejects(run(call('true'), () => assert.fail('it ran')), /changed after it was decided. no such rule/)
  assert.deepEqual(asked, [{ command: 'true' }, { command: 'other' }])
})

test('what is decided again does not change while it is', async (t) => {
  let exec
  const { ctx, run } = mount((asked) => {
    if (asked.arguments.command === 'other') assert.throws(() => { exec.arguments = { command: 'third' } }, TypeError)
    return { decision: 'allow' }
  })
  ctx.on('tools/pre-execute', (one, next) => {
    one.arguments = { command: 'other' }
    return next()
  })
  exec = call('true')
  assert.equal(await run(exec, ({ command }) => command), 'other')
})

test('a change deep inside is one as well', async () => {
  const { ctx, run } = mount(({ arguments: { commands } }) => commands.length === 1 ? { decision: 'allow' } : { decision: 'ask', reason: 'two' })
  ctx.on('tools/pre-execute', (exec, next) => {
    exec.arguments.commands.push('other')
    return next()
  })
  await assert.rejects(run({ callId: '1', name: 'bash', arguments: { commands: ['true'] } }, () => assert.fail('it ran')), /changed after/)
})

for (const [what, change] of Object.entries({
  'the arguments': (exec) => { exec.arguments = { command: 'other' } },
  'one of them': (exec) => { exec.arguments.command = 'other' },
  'the inside of one': (exec) => { exec.arguments.more.deep.push('other') },
})) {
  test(`after the last look nobody changes ${what} any more`, async (t) => {
    const { ctx, run } = mount(onlyTrue)
    ctx.on('tools/execute', (exec, next) => {
      change(exec)
      return next()
    })
    const exec = call('true')
    exec.arguments.more = { deep: [] }
    await assert.rejects(run(exec, () => assert.fail('it ran')), TypeError)
  })
}
