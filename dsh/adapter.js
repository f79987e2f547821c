/**
 * The adapter that the host registers: its calls become the sidecar's, and the sidecar's chunks the host's.
 *
 * Owns: the abort listeners of running calls, and of turns that wait for the host's tools between two calls; the catalogue
 * as it was last known.
 * Never: starts the sidecar for what it knows already, or yields anything after the terminal chunk.
 */
import { LlmAdapter } from '@deepseek-ai/dsh-llm'
import { Failure, failedFinish, hostFailure, textOf } from './failure.js'
import { toWire } from './request.js'
import { manifest } from './settings.js'

/** So long a catalogue is waited for before the default stands alone; a sign-in takes minutes. */
const CATALOGUE_MS = 2_000
const RESOLVE_MS = 1_000
/** Turns whose signal is still listened to while the host runs tools. */
const MAX_OPEN_TURNS = 64

/** @typedef {import('./host.d.ts').GenerateOptions} GenerateOptions */
/** @typedef {import('./host.d.ts').StreamChunk} StreamChunk */
/** @typedef {import('./host.d.ts').ModelInfo} ModelInfo */

export class AntigravityAdapter extends LlmAdapter {
  #sidecar
  #attachments
  #warn
  #openTurns = new OpenTurns()
  /** @type {ModelInfo[]} */
  #models = []
  /** @type {WeakMap<import('./connection.js').Connection, Map<string, ModelInfo>>} */
  #resolved = new WeakMap()
  /** @type {Promise<void> | undefined} */
  #listing
  /** Called when a catalogue came too late for the one who asked. */
  onCatalogue = () => {}

  /**
   * @param {import('./sidecar.js').Sidecar} sidecar
   * @param {() => import('./host.d.ts').Attachments | undefined} attachments
   * @param {(message: string) => void} warn
   */
  constructor(sidecar, attachments, warn) {
    super()
    this.#sidecar = sidecar
    this.#attachments = attachments
    this.#warn = warn
  }

  /** @param {string} provider */
  providerInfo(provider) {
    return { id: provider, name: manifest.displayName }
  }

  /**
   * The agent's catalogue. While it cannot be had, because of a sign-in, a first start or a failure, the default alone, so
   * that the model stays selectable; the chat then says what is wrong.
   * @param {string} provider
   */
  async listModels(provider) {
    let late = false
    this.#listing ??= this.#refresh(() => late).finally(() => { this.#listing = undefined })
    await Promise.race([this.#listing, pause(CATALOGUE_MS)])
    late = true
    const models = this.#models.length > 0 ? this.#models : [this.#default]
    return models.map((model) => ({ ...model, provider }))
  }

  /**
   * What is known of one model. The host asks before every call, so no process is started for it, and what a sidecar has
   * once said in full it is not asked again.
   * @param {string} provider
   * @param {string} model
   * @param {AbortSignal} [signal]
   */
  async resolveModel(provider, model, signal) {
    const connection = this.#sidecar.running
    let known = (connection && this.#resolved.get(connection)?.get(model)) ?? this.#models.find(({ id }) => id === model)
    if (connection !== undefined && known?.inputModalities === undefined) {
      try {
        known = await connection.request('models/resolve', { model }, { timeoutMs: RESOLVE_MS, ...(signal === undefined ? {} : { signal }) })
        const resolved = this.#resolved.get(connection) ?? new Map()
        if (known?.inputModalities !== undefined) this.#resolved.set(connection, resolved.set(model, known))
      } catch (error) {
        signal?.throwIfAborted()
        this.#warn(`A model could not be looked up: ${textOf(error)}`)
      }
    }
    const fallback = model === this.#default.id ? this.#default : { name: model }
    return { ...fallback, ...known, provider, id: model }
  }

  /**
   * One attempt at one generation.
   * @param {GenerateOptions} options
   * @returns {AsyncGenerator<StreamChunk, void>}
   */
  async * stream(options) {
    const turn = new Turn(options.signal)
    // Titles and the like run beside a turn and leave it as it is.
    const session = options.purpose === undefined ? options.sessionId : undefined
    try {
      const wire = await turn.unlessAborted(toWire(options, this.#attachments()))
      const connection = await turn.unlessAborted(this.#sidecar.connection())
      // The signal may have fired since the connection came; from here on it reaches the stream itself.
      if (turn.aborted) throw new Failure('ABORTED', 'aborted')
      const stream = turn.begin(connection.stream(wire))
      // Until here the turn that this call goes on with was open, so that its sidecar stayed, and its signal was heard.
      this.#openTurns.end(session)
      for (;;) {
        const chunks = await stream.next()
        if (chunks === undefined) throw new Failure('ACP_PROTOCOL_ERROR', 'The sidecar ended an answer without its last chunk.')
        for (const chunk of chunks) {
          if (turn.aborted) throw new Failure('ABORTED', 'aborted')
          if (chunk.type !== 'finish') {
            turn.begun = true
            yield chunk
            continue
          }
          this.#sidecar.answered()
          turn.finished = true
          if (chunk.reason.kind === 'tool-calls') this.#openTurns.keep(session ?? stream.name, turn)
          yield withHostCode(chunk, turn.begun)
          return
        }
        stream.consumed(chunks.length)
      }
    } catch (error) {
      this.#openTurns.end(session)
      yield failedFinish(error, turn)
    } finally {
      turn.leave()
    }
  }

  /** Whether a turn waits for the host's tools between two calls. */
  get busy() {
    return this.#openTurns.some
  }

  /** The listeners of turns that wait for tools go with the plugin. */
  dispose() {
    this.#openTurns.clear()
  }

  get #default() {
    return { provider: manifest.provider, id: manifest.defaultModel, name: 'Server default', description: 'The model that the agent itself prefers.' }
  }

  /** @param {() => boolean} isLate */
  async #refresh(isLate) {
    try {
      const { models } = await this.#sidecar.request('models/list', {})
      const changed = JSON.stringify(models) !== JSON.stringify(this.#models)
      this.#models = models
      if (changed && isLate()) this.onCatalogue()
    } catch (error) {
      if (!(error instanceof Failure && error.code === 'ACP_DISPOSED')) this.#warn(`The models could not be listed: ${textOf(error)}`)
    }
  }
}

/** One call, and the signal that may outlive it while the host runs the tools that the call asked for. */
class Turn {
  begun = false
  finished = false
  /** @type {ReturnType<import('./connection.js').Connection['stream']> | undefined} */
  #stream
  #signal
  #kept = false
  /** @type {(reason: Failure) => void} */
  #reject = () => {}

  /** @param {AbortSignal | undefined} signal */
  constructor(signal) {
    this.#signal = signal
    this.#abort = new Promise((_, reject) => { this.#reject = reject })
    this.#abort.catch(() => {})
    signal?.addEventListener('abort', this.#onAbort, { once: true })
    if (signal?.aborted) this.#onAbort()
  }

  /** @type {Promise<never>} */
  #abort

  // The listener itself sends the cancel: whoever consumes the stream may be busy elsewhere.
  #onAbort = () => {
    this.#stream?.cancel()
    this.#reject(new Failure('ABORTED', 'aborted'))
  }

  get aborted() {
    return this.#signal?.aborted === true
  }

  /** @param {ReturnType<import('./connection.js').Connection['stream']>} stream */
  begin(stream) {
    this.#stream = stream
    return stream
  }

  /**
   * @template T
   * @param {Promise<T>} work
   * @returns {Promise<T>}
   */
  unlessAborted(work) {
    return Promise.race([this.#abort, work])
  }

  keep() {
    this.#kept = true
  }

  /** The call is over; one that was left before its end is cancelled. */
  leave() {
    if (!this.finished && this.#stream !== undefined && !this.#stream.over && !this.aborted) this.#stream.cancel()
    if (!this.#kept) this.end()
  }

  end() {
    this.#signal?.removeEventListener('abort', this.#onAbort)
  }
}

/** Turns between two calls, by session; the oldest makes room. */
class OpenTurns {
  /** @type {Map<string, Turn>} */
  #turns = new Map()

  /**
   * @param {string} session
   * @param {Turn} turn
   */
  keep(session, turn) {
    turn.keep()
    this.end(session)
    this.#turns.set(session, turn)
    for (const oldest of this.#turns.keys()) {
      if (this.#turns.size <= MAX_OPEN_TURNS) break
      this.end(oldest)
    }
  }

  /** Whether one of them can still go on. */
  get some() {
    return [...this.#turns.values()].some((turn) => !turn.aborted)
  }

  /** @param {string | undefined} session */
  end(session) {
    if (session === undefined) return
    this.#turns.get(session)?.end()
    this.#turns.delete(session)
  }

  clear() {
    for (const session of [...this.#turns.keys()]) this.end(session)
  }
}

/**
 * @param {StreamChunk & {type: 'finish'}} chunk
 * @param {boolean} begun
 */
function withHostCode(chunk, begun) {
  const { kind, failure } = chunk.reason
  if (kind !== 'error' || failure === undefined) return chunk
  const { providerRetryAfterMs: retryAfterMs, ...facts } = failure
  return { ...chunk, reason: { kind, failure: hostFailure({ ...facts, ...(retryAfterMs === undefined ? {} : { retryAfterMs }) }, begun) } }
}

/** @param {number} ms */
function pause(ms) {
  return new Promise((resolve) => { setTimeout(resolve, ms).unref() })
}
