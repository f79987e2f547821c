// A model in the host itself. `say 5` yields five chunks; `call COMMAND` runs it by bash and says what came of it.
export const name = 'test-plain'
export const inject = ['llm']

const info = (provider, id) => ({ provider, id, name: id, inputModalities: ['text'] })

class Plain {
  providerInfo(provider) { return { id: provider, name: 'Plain' } }
  providerRetryPolicy() { return undefined }
  imageRequestPricing() { return undefined }
  imageRequestTarget(_provider, _model, image) { return image }
  async listModels(provider) { return [info(provider, 'plain')] }
  async resolveModel(provider, model) { return info(provider, model) }
  async prepareCall(provider, model) {
    return { model: info(provider, model), stream: (options) => this.stream(options) }
  }

  async * stream(options) {
    const text = options.messages.findLast(({ source }) => source?.kind === 'user').content[0].text
    const last = options.messages.at(-1)
    if (text.startsWith('call ') && last.role !== 'tool') return yield * this.call(text.slice(5))
    if (last.role === 'tool') return yield * this.say(last.content.map((block) => block.text).join(''))
    const count = Number(/(\d+)\D*$/.exec(text)?.[1] ?? 1)
    yield { type: 'block-start', index: 0, blockType: 'text' }
    let all = ''
    for (let at = 0; at < count; at += 1) {
      all += `piece ${at} `
      yield { type: 'text-delta', index: 0, text: `piece ${at} ` }
    }
    yield { type: 'block-end', index: 0, block: { type: 'text', text: all } }
    yield { type: 'finish', reason: { kind: 'stop' } }
  }

  async * say(text) {
    yield { type: 'block-start', index: 0, blockType: 'text' }
    yield { type: 'text-delta', index: 0, text }
    yield { type: 'block-end', index: 0, block: { type: 'text', text } }
    yield { type: 'finish', reason: { kind: 'stop' } }
  }

  async * call(command) {
    const block = { type: 'tool-call', id: 'c1', name: 'bash', arguments: JSON.stringify({ command, description: 'run it' }) }
    yield { type: 'block-start', index: 0, blockType: 'tool-call' }
    yield { type: 'tool-call-delta', index: 0, id: block.id, name: block.name, argumentsDelta: block.arguments }
    yield { type: 'block-end', index: 0, block }
    yield { type: 'finish', reason: { kind: 'tool-calls' } }
  }
}

export function apply(ctx) {
  ctx.llm.registerAdapter(['plain'], new Plain())
}
