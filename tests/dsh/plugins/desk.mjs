// A plugin of somebody else, for tests: it writes down what it saw, and may
//   deny     a call whose arguments hold this word
//   rewrite  a `word` in the arguments of a call becomes `to`, `at` this event of the host (`pre-execute` or `execute`)
//   answer   approvals; with `reject`, those of calls whose arguments hold that word are rejected
import { appendFileSync } from 'node:fs'

export const name = 'test-desk'
export const inject = ['tools']

export function apply(ctx, config) {
  const write = (line) => appendFileSync(config.log, `${JSON.stringify(line)}\n`)
  let last = ''
  const rewrite = (exec, at) => {
    if (config.rewrite?.at !== at || !JSON.stringify(exec.arguments).includes(config.rewrite.word)) return
    exec.arguments = JSON.parse(JSON.stringify(exec.arguments).replaceAll(config.rewrite.word, config.rewrite.to))
    write({ at: 'rewrote', name: exec.name })
  }
  ctx.on('tools/pre-execute', async (exec, next) => {
    write({ at: 'pre', name: exec.name })
    rewrite(exec, 'pre-execute')
    last = JSON.stringify(exec.arguments)
    if (config.deny && last.includes(config.deny)) return { kind: 'deny', reason: 'the desk says no' }
    return next()
  })
  ctx.on('tools/execute', async (exec, next) => {
    write({ at: 'run', name: exec.name })
    rewrite(exec, 'execute')
    return next()
  })
  ctx.on('llm/stream', (options, next) => options.purpose === undefined ? watched(next(), write) : next())
  if (config.answer) {
    ctx.on('approval/request', async (request) => {
      write({ at: 'asked', name: request.toolName, reason: request.reason })
      return config.reject && last.includes(config.reject) ? 'rejected' : config.answer
    })
  }
}

async function * watched(stream, write) {
  write({ at: 'call' })
  for await (const chunk of stream) {
    if (chunk.type === 'text-delta') write({ at: 'piece' })
    yield chunk
  }
}
