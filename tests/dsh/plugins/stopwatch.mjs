// Measures in the host, for bench/dsh.py: every turn of a chat, and, when a file asks for it, the control's question.
//   config: log (JSON lines), ask (a file; its appearance starts the questions), questions (how many), echo (argv of a child)
import { spawn } from 'node:child_process'
import { appendFileSync, existsSync } from 'node:fs'
import { createInterface } from 'node:readline'

export const name = 'test-stopwatch'
export const inject = ['llm', 'tools']

const WARM_UP = 100

export function * apply(ctx, config) {
  const write = (line) => appendFileSync(config.log, `${JSON.stringify(line)}\n`)
  ctx.on('llm/stream', (options, next) => timed(options, next(), write))
  const timer = setInterval(() => {
    if (!existsSync(config.ask)) return
    clearInterval(timer)
    control(ctx, config).then((times) => write({ control: times }), (error) => write({ error: String(error?.stack ?? error) }))
  }, 50)
  yield () => clearInterval(timer)
}

/** Milliseconds to the first and to the last chunk, as fast as the host takes what its model yields. */
async function * timed({ provider, purpose, sessionId }, stream, write) {
  if (purpose !== undefined || sessionId === undefined) return yield * stream
  const since = performance.now()
  let first
  let count = 0
  for await (const chunk of stream) {
    first ??= performance.now() - since
    if (chunk.type === 'text-delta') count += 1
    yield chunk
  }
  write({ turn: { provider, sessionId, first, last: performance.now() - since, count } })
}

/** The host's own question before a tool runs, and the same JSON to a child that only answers it, in turns. */
async function control(ctx, { questions, echo }) {
  const execution = (at) => ({ callId: `c${at}`, name: 'todo_write', arguments: { todos: [{ content: 'look', status: 'pending' }] } })
  const child = spawn(echo[0], echo.slice(1), { stdio: ['pipe', 'pipe', 'inherit'] })
  let settle = () => {}
  createInterface({ input: child.stdout }).on('line', (line) => settle(JSON.parse(line)))
  const sides = {
    ours: async (at) => {
      const answer = await ctx.events.waterfall('tools/pre-execute', execution(at), async () => ({ kind: 'allow' }))
      if (answer.kind !== 'allow') throw new Error(JSON.stringify(answer))
    },
    bare: async (id) => {
      const { callId, name, arguments: values } = execution(id)
      const params = { call: { id: callId, name, arguments: values }, attended: false }
      const answered = new Promise((resolve) => { settle = resolve })
      child.stdin.write(`${JSON.stringify({ jsonrpc: '2.0', id, method: 'control/decide', params })}\n`)
      if ((await answered).result.decision !== 'allow') throw new Error('another answer')
    },
  }
  const times = { ours: [], bare: [] }
  for (let at = 0; at < questions + WARM_UP; at += 1) {
    for (const [side, ask] of Object.entries(sides)) {
      const since = performance.now()
      await ask(at)
      if (at >= WARM_UP) times[side].push(performance.now() - since)
    }
  }
  child.stdin.end()
  return times
}
