// The other end of a connection, for tests of the bundle alone: a process that does what its requests say.
//   node peer.mjs [deaf]     `deaf`: reads nothing until SIGUSR2
//   initialize               answered; `settings.refuse` with INVALID_SETTINGS, `settings.protocol` with another version
//   stream/start             `options.chunks` N text deltas, or the list `options.play`, then its answer; `options.fail` a code;
//                            with none of them, nothing until it is cancelled
//   models/resolve           `model: history` answers with the methods that came in so far; else with the model
//   diagnostics              `raw` is written as it is, `endless` N bytes without a line's end; `die` ends the process by that
//                            signal; `bytes` N are padding of the answer; `silent` is not answered; else answered
import { createInterface } from 'node:readline'

const history = []
const running = new Map()

const write = (frame) => process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', ...frame })}\n`)
const refuse = (id, code) => write({ id, error: { code: -32000, message: code, data: { code } } })

function receive({ id, method, params }) {
  history.push(params?.stream === undefined ? method : `${method} ${params.stream}`)
  if (method === 'initialize') {
    if (params.settings.refuse) return refuse(id, 'INVALID_SETTINGS')
    return write({ id, result: { protocol: params.settings.protocol ?? 1, server: { name: 'peer', version: '1' } } })
  }
  if (method === 'models/resolve') return write({ id, result: params.model === 'history' ? history : params.model })
  if (method === 'stream/start') {
    const { chunks, play, fail } = params.options
    if (fail !== undefined) return refuse(id, fail)
    if (chunks === undefined && play === undefined) return running.set(params.stream, id)
    const list = play ?? Array.from({ length: chunks }, (_, at) => ({ type: 'text-delta', index: 0, text: `${at}` }))
    write({ method: 'stream/chunk', params: { stream: params.stream, chunks: list } })
    return write({ id, result: {} })
  }
  if (method === 'stream/cancel') {
    if (running.has(params.stream)) refuse(running.get(params.stream), 'ABORTED')
    return
  }
  if (id === undefined) return
  if (params.die) return process.kill(process.pid, params.die)
  if (params.raw !== undefined) return process.stdout.write(params.raw)
  if (params.endless !== undefined) return process.stdout.write('x'.repeat(params.endless))
  if (params.bytes !== undefined) return write({ id, result: { padding: 'x'.repeat(params.bytes) } })
  if (params.silent === undefined) write({ id, result: {} })
}

const listen = () => createInterface({ input: process.stdin }).on('line', (line) => { if (line) receive(JSON.parse(line)) })
if (process.argv[2] === 'deaf') {
  const wait = setInterval(() => {}, 60_000)
  process.once('SIGUSR2', () => {
    clearInterval(wait)
    listen()
  })
  write({ method: 'log', params: { level: 'info', message: 'deaf' } })
} else {
  listen()
}
