/**
 * One sidecar process and the conversation with it: JSON-RPC 2.0, one object a line (docs/sidecar.md).
 *
 * Owns: the process's pipes, the open requests and streams. All of them fail, typed, when the process ends or closes its
 * output; `close()` ends the process, bounded.
 * Back-pressure: requests wait while the pipe to the sidecar is full (outbox.js); each stream holds at most what the sidecar
 * may send without an acknowledgement.
 * Never: writes a log, or reads the sidecar's stderr beyond the one line that explains a failed start.
 */
import { Failure, textOf } from './failure.js'
import { MAX_FRAME_BYTES, Outbox } from './outbox.js'

export const PROTOCOL = 1
/** A quarter of the sidecar's window, so that it never has to wait for a consumer that keeps up. */
const ACKNOWLEDGE_EVERY = 64
/** The rest of what the process has written is read for so long after its exit. */
const DRAIN_MS = 500
const NEWLINE = 10

/** @typedef {import('./host.d.ts').SubprocessHandle} SubprocessHandle */
/** @typedef {import('./host.d.ts').StreamChunk} StreamChunk */
/** @typedef {{resolve: (value: any) => void, reject: (error: Error) => void, over: () => void}} Waiter */
/** @typedef {(method: string, params: any) => void} OnNotification */

export class Connection {
  /** @type {Map<number, Waiter>} */
  #requests = new Map()
  /** @type {Map<string, ChunkStream>} */
  #streams = new Map()
  /** @type {Buffer[]} */
  #partial = []
  #partialBytes = 0
  #ids = 0
  /** @type {Failure | undefined} */
  #ended
  #closing = false
  /** @type {(failure: Failure) => void} */
  #settleClosed = () => {}

  /**
   * @param {SubprocessHandle} handle a process with pipes for stdin and stdout
   * @param {OnNotification} onNotification
   */
  constructor(handle, onNotification) {
    if (handle.stdin === undefined || handle.stdout === undefined) throw new TypeError('the sidecar needs pipes')
    this.#handle = handle
    this.#outbox = new Outbox(handle.stdin)
    this.#onNotification = onNotification
    /** Settles, never rejects, once the conversation is over. @type {Promise<Failure>} */
    this.closed = new Promise((resolve) => { this.#settleClosed = resolve })
    // A pipe that breaks is the end of the process; the end itself is reported by stdout and `done`.
    handle.stdin.on('error', () => {})
    handle.stdout.on('error', () => {})
    handle.stdout.on('data', (data) => this.#read(data))
    const output = new Promise((resolve) => handle.stdout?.once('close', resolve).once('end', resolve))
    const exit = handle.done.then(
      ({ exitCode, signal }) => (signal === null ? `with exit code ${exitCode}` : `by ${signal}`),
      (error) => `and could not be run: ${textOf(error)}`,
    )
    // Whichever comes first. Both are waited for, briefly, so that nothing that was written is lost and the text is whole.
    void Promise.race([exit, output]).then(async () => {
      const timer = { id: /** @type {any} */ (undefined) }
      const late = new Promise((resolve) => { timer.id = setTimeout(resolve, DRAIN_MS) })
      const how = await Promise.race([Promise.all([exit, output]).then(([text]) => text), late])
      clearTimeout(timer.id)
      this.#end(new Failure('ACP_DISCONNECTED', `The sidecar ended ${how ?? 'its output'}.`))
    })
  }

  #handle
  #outbox
  #onNotification

  get alive() {
    return this.#ended === undefined && !this.#closing
  }

  /** Whether nothing waits for an answer. */
  get idle() {
    return this.#requests.size === 0
  }

  /** The last line of stderr, for a start that failed before anything private was sent. */
  get lastWords() {
    const text = this.#handle.collected.stderr?.readFrom(0).text.trimEnd() ?? ''
    return text.slice(text.lastIndexOf('\n') + 1).slice(0, 300)
  }

  /**
   * @param {string} method
   * @param {object} params
   * @param {{signal?: AbortSignal, timeoutMs?: number}} [bounds]
   * @returns {Promise<any>} the result; a {@link Failure} when the sidecar answers with an error, ends, or is too late
   */
  request(method, params, bounds = {}) {
    const id = ++this.#ids
    const { signal, timeoutMs } = bounds
    if (signal?.aborted) return Promise.reject(new Failure('ABORTED', 'The request was cancelled.'))
    /** @param {Failure} failure */
    const giveUp = (failure) => {
      if (!this.#outbox.withdraw(id)) this.notify('$/cancel', { id })
      this.#settle(id)?.reject(failure)
    }
    const onAbort = () => giveUp(new Failure('ABORTED', 'The request was cancelled.'))
    const late = () => giveUp(new Failure('ACP_TIMEOUT', `The sidecar did not answer \`${method}\` in ${timeoutMs} ms.`))
    const timer = timeoutMs === undefined ? undefined : setTimeout(late, timeoutMs)
    signal?.addEventListener('abort', onAbort, { once: true })
    return this.#ask(id, method, params, () => {
      clearTimeout(timer)
      signal?.removeEventListener('abort', onAbort)
    })
  }

  /**
   * Sends without an answer, and never waits.
   * @param {string} method
   * @param {object} params
   */
  notify(method, params) {
    if (this.#ended === undefined) this.#outbox.notify({ jsonrpc: '2.0', method, params })
  }

  /**
   * Starts a generation.
   * @param {object} options the request without its signal
   */
  stream(options) {
    const id = ++this.#ids
    const stream = new ChunkStream(this, id)
    this.#streams.set(stream.name, stream)
    void this.#ask(id, 'stream/start', { stream: stream.name, options }, () => this.#streams.delete(stream.name))
      .then(() => stream.end(), (error) => stream.fail(error))
    return stream
  }

  /**
   * Ends a generation, or the turn that it left open. One whose start still waits for the pipe is never started: a cancel
   * that came before it would be one for nothing.
   * @param {ChunkStream} stream
   */
  cancel(stream) {
    if (this.#outbox.withdraw(stream.request)) this.#settle(stream.request)?.reject(new Failure('ABORTED', 'The request was cancelled.'))
    else this.notify('stream/cancel', { stream: stream.name })
  }

  /**
   * Ends the process: end of input, then `graceMs` to leave by itself, then the host's own ladder of signals.
   * @param {number} graceMs
   */
  async close(graceMs) {
    this.#closing = true
    this.#outbox.end()
    /** @type {NodeJS.Timeout | undefined} */
    let timer
    const late = new Promise((resolve) => { timer = setTimeout(resolve, graceMs) })
    const exit = this.#handle.done.then(() => {}, () => {})
    await Promise.race([exit, late])
    clearTimeout(timer)
    this.#handle.terminate()
    await this.#handle.waitForExit()
    this.#end(new Failure('ACP_DISPOSED', 'The plugin was unmounted.', { final: true }))
  }

  /** Ends the process at once, without waiting. @param {Failure} failure */
  abandon(failure) {
    this.#end(failure)
    this.#handle.terminate()
  }

  /**
   * @param {number} id
   * @param {string} method
   * @param {object} params
   * @param {() => void} over called once, before the promise settles
   * @returns {Promise<any>}
   */
  #ask(id, method, params, over) {
    return new Promise((resolve, reject) => {
      this.#requests.set(id, { resolve, reject, over })
      if (this.#ended !== undefined) this.#settle(id)?.reject(this.#ended)
      else this.#outbox.request(id, { jsonrpc: '2.0', id, method, params }, (failure) => this.#settle(id)?.reject(failure))
    })
  }

  /**
   * @param {number} id
   * @returns {Waiter | undefined} whoever waits for the answer, once
   */
  #settle(id) {
    const waiter = this.#requests.get(id)
    this.#requests.delete(id)
    waiter?.over()
    return waiter
  }

  /** @param {Buffer} data */
  #read(data) {
    let from = 0
    for (let at = data.indexOf(NEWLINE); at >= 0; at = data.indexOf(NEWLINE, from)) {
      let line = data.toString('utf8', from, at)
      if (this.#partial.length > 0) {
        line = Buffer.concat([...this.#partial, data.subarray(from, at)]).toString('utf8')
        this.#partial = []
        this.#partialBytes = 0
      }
      from = at + 1
      if (line.trim()) this.#receive(line)
    }
    if (from === data.length) return
    this.#partial.push(data.subarray(from))
    this.#partialBytes += data.length - from
    if (this.#partialBytes > MAX_FRAME_BYTES) this.#broken('sent a line of more than 32 MiB')
  }

  /** @param {string} line */
  #receive(line) {
    /** @type {any} */
    let frame
    try {
      frame = JSON.parse(line)
    } catch {
      return this.#broken('printed something that is not JSON on its output')
    }
    if (frame === null || typeof frame !== 'object') return this.#broken('sent a frame that is not an object')
    if (frame.method === undefined) {
      const waiter = this.#settle(frame.id)
      if (frame.error !== undefined) waiter?.reject(Failure.of(frame.error))
      else waiter?.resolve(frame.result)
    } else if (frame.method === 'stream/chunk') {
      const { stream, chunks } = frame.params ?? {}
      if (!Array.isArray(chunks)) return this.#broken('sent a frame of another shape')
      this.#streams.get(stream)?.push(chunks)
    } else {
      this.#onNotification(frame.method, frame.params)
    }
  }

  /** @param {string} how */
  #broken(how) {
    this.abandon(new Failure('SIDECAR_PROTOCOL', `The sidecar ${how}; it was ended. Check which program \`python\` names.`))
  }

  /** @param {Failure} failure */
  #end(failure) {
    if (this.#ended !== undefined) return
    this.#ended = failure
    for (const id of [...this.#requests.keys()]) this.#settle(id)?.reject(failure)
    this.#settleClosed(failure)
  }
}

/** The chunks of one generation, in order; bounded by the sidecar's window. */
class ChunkStream {
  /** @type {StreamChunk[]} */
  #waiting = []
  #unacknowledged = 0
  #over = false
  /** @type {Error | undefined} */
  #failure
  #wake = () => {}

  /**
   * @param {Connection} connection
   * @param {number} request the id of the request that starts it
   */
  constructor(connection, request) {
    this.connection = connection
    this.request = request
    this.name = `s${request}`
  }

  /** Whether nothing more comes. */
  get over() {
    return this.#over
  }

  /** @param {StreamChunk[]} chunks */
  push(chunks) {
    if (this.#over) return
    if (this.#waiting.length === 0) this.#waiting = chunks
    else this.#waiting.push(...chunks)
    this.#wake()
  }

  end() {
    this.#over = true
    this.#wake()
  }

  /** @param {Error} error */
  fail(error) {
    this.#failure ??= error
    this.end()
  }

  /**
   * What has come since the last call; waits for at least one chunk.
   * @returns {Promise<StreamChunk[] | undefined>} undefined at the end; rejects with the failure after the last chunk
   */
  async next() {
    while (this.#waiting.length === 0) {
      if (this.#failure !== undefined) throw this.#failure
      if (this.#over) return undefined
      await new Promise((resolve) => { this.#wake = () => resolve(undefined) })
    }
    const chunks = this.#waiting
    this.#waiting = []
    return chunks
  }

  /** Gives the sidecar room for as many more. @param {number} count */
  consumed(count) {
    this.#unacknowledged += count
    if (this.#over || this.#unacknowledged < ACKNOWLEDGE_EVERY) return
    this.connection.notify('stream/ack', { stream: this.name, chunks: this.#unacknowledged })
    this.#unacknowledged = 0
  }

  /** Whoever waits for chunks hears of it at once; what the sidecar still sends is dropped. */
  cancel() {
    this.connection.cancel(this)
    this.fail(new Failure('ABORTED', 'The request was cancelled.'))
  }
}
