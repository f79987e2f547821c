// A plugin of somebody else, for tests: it may deny by a word, answer approvals, and writes down what it saw.
import { appendFileSync } from 'node:fs'

export const name = 'test-desk'
export const inject = ['tools']

export function apply(ctx, config) {
  const write = (line) => appendFileSync(config.log, `${JSON.stringify(line)}\n`)
  ctx.on('tools/pre-execute', async (exec, next) => {
    write({ at: 'pre', name: exec.name })
    if (config.deny && JSON.stringify(exec.arguments).includes(config.deny)) return { kind: 'deny', reason: 'the desk says no' }
    return next()
  })
  ctx.on('tools/execute', async (exec, next) => {
    write({ at: 'run', name: exec.name })
    return next()
  })
  ctx.on('llm/stream', (options, next) => watched(next(), (chunk) => {
    if (chunk.type === 'text-delta') write({ at: 'piece' })
  }))
  if (config.answer) {
    ctx.on('approval/request', async (request) => {
      write({ at: 'asked', name: request.toolName, reason: request.reason })
      return config.answer
    })
  }
}

async function * watched(stream, see) {
  for await (const chunk of stream) {
    see(chunk)
    yield chunk
  }
}
