// Mounts the bundle again and again, with an answer each time, and writes down what is there afterwards.
//   config: entry (the bundle's file, as the profile has it), settings, rounds, log
import { appendFileSync, readdirSync } from 'node:fs'

export const name = 'test-mounts'
export const inject = ['llm', 'subprocess']

export function * apply(ctx, config) {
  const write = (line) => appendFileSync(config.log, `${JSON.stringify(line)}\n`)
  const timer = setTimeout(() => {
    rounds(ctx, config, write).then(() => write({ done: true }), (error) => write({ error: String(error?.stack ?? error) }))
  }, 500)
  yield () => clearTimeout(timer)
}

async function rounds(ctx, { entry, settings, rounds }, write) {
  const plugin = await import(entry)
  for (let round = 0; round < rounds; round += 1) {
    const fiber = await ctx.plugin(plugin, settings)
    const messages = [{ role: 'user', content: [{ type: 'text', text: 'say 3' }], id: 'm1', source: { kind: 'user' } }]
    let text = ''
    for await (const chunk of ctx.llm.stream({ provider: 'antigravity-acp', model: 'server-default', messages })) {
      if (chunk.type === 'text-delta') text += chunk.text
    }
    await fiber.dispose()
    const hooks = Object.values(ctx.events._hooks).reduce((sum, list) => sum + list.length, 0)
    write({ text, hooks, files: readdirSync('/proc/self/fd').length, timers: process.getActiveResourcesInfo().filter((one) => one === 'Timeout').length })
  }
}
