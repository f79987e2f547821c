/**
 * The sidecar of one mounted plugin: starts it when it is needed, and again after it has ended.
 *
 * Owns: the one connection. A sidecar that ends by itself fails the calls that run (ACP_DISCONNECTED); the next call starts
 * a new one. Three such ends without one answer in between stop that, until a setting changes or a minute has passed. One
 * that was started for other settings than those that hold now makes room for the next as soon as nothing runs on it.
 * Never: repeats a call.
 */
import { Connection, PROTOCOL } from './connection.js'
import { Failure } from './failure.js'

const MAX_ENDS_IN_A_ROW = 3
const PAUSE_MS = 60_000
/** Starting Python and importing the plugin; a cold disk on a busy machine included. */
const INITIALIZE_MS = 60_000
const UPDATE_MS = 10_000

/** @typedef {import('./connection.js').OnNotification} OnNotification */
/**
 * @typedef {object} Parts
 * @property {(signal: AbortSignal) => Promise<import('./host.d.ts').SubprocessHandle>} launch finds Python and starts the process
 * @property {() => Record<string, unknown>} settings the settings as they are now
 * @property {() => string[]} [settingsFiles] where they are kept: files, or folders of such
 * @property {() => string} needs what a start depends on, as text to compare: a change of it takes another process
 * @property {() => boolean} busy whether a turn is open that has no call running now
 * @property {() => number} graceMs how long a sidecar may take to end its agents and itself
 * @property {() => boolean} attended whether a person can be asked
 * @property {{name: string, version: string}} client
 * @property {OnNotification} onNotification
 * @property {(message: string) => void} warn
 * @property {number} [pauseMs] how long a sidecar that was given up is left alone
 */

export class Sidecar {
  #parts
  /** @type {Connection | undefined} */
  #current
  /** @type {Promise<Connection> | undefined} */
  #starting
  #startedFor = ''
  /** @type {Set<Promise<void>>} */
  #retiring = new Set()
  #lifetime = new AbortController()
  #endsInARow = 0
  #lastEnd = 0

  /** @param {Parts} parts */
  constructor(parts) {
    this.#parts = parts
  }

  /** The running connection, if there is one. */
  get running() {
    return this.#current?.alive ? this.#current : undefined
  }

  /**
   * The running connection, or a new one. Several callers share one start; a caller that gives up ends nothing.
   * @returns {Promise<Connection>}
   */
  async connection() {
    if (this.#lifetime.signal.aborted) throw new Failure('ACP_DISPOSED', 'The plugin was unmounted.', { final: true })
    const fitting = this.#fitting()
    if (fitting !== undefined) return fitting
    this.#starting ??= this.#start().finally(() => { this.#starting = undefined })
    return this.#starting
  }

  /**
   * One request to whichever connection there is.
   * @param {string} method
   * @param {object} params
   * @param {{signal?: AbortSignal, timeoutMs?: number}} [bounds] the time includes a start
   */
  async request(method, params, bounds = {}) {
    const result = await (this.#fitting()?.request(method, params, bounds) ?? this.#requestFromNew(method, params, bounds))
    this.answered()
    return result
  }

  /** The running connection, unless it was started for other settings and nobody would miss it: then it is ended. */
  #fitting() {
    const connection = this.running
    if (connection === undefined || this.#startedFor === this.#parts.needs()) return connection
    if (!connection.idle || this.#parts.busy()) return connection
    this.#current = undefined
    const retired = connection.close(this.#parts.graceMs())
      .catch((error) => this.#parts.warn(`A sidecar could not be ended: ${error instanceof Error ? error.message : error}`))
      .finally(() => this.#retiring.delete(retired))
    this.#retiring.add(retired)
    return undefined
  }

  /**
   * @param {string} method
   * @param {object} params
   * @param {{signal?: AbortSignal, timeoutMs?: number}} bounds
   */
  async #requestFromNew(method, params, bounds) {
    const since = Date.now()
    const connection = await within(this.connection(), method, bounds)
    const timeoutMs = bounds.timeoutMs === undefined ? undefined : Math.max(1, bounds.timeoutMs - (Date.now() - since))
    return connection.request(method, params, { ...bounds, ...(timeoutMs === undefined ? {} : { timeoutMs }) })
  }

  /** A call was answered: what ended before it no longer counts. */
  answered() {
    this.#endsInARow = 0
  }

  /** The settings changed: the running sidecar takes them over, and a sidecar that was given up gets another chance. */
  async settingsChanged() {
    this.answered()
    const connection = this.#starting === undefined ? this.#fitting() : await this.#starting.catch(() => undefined)
    if (connection === undefined) return
    try {
      await connection.request('settings/update', { settings: this.#parts.settings() }, { timeoutMs: UPDATE_MS })
    } catch (error) {
      this.#parts.warn(`The changed settings do not apply: ${error instanceof Error ? error.message : error}`)
    }
  }

  /** Ends everything; running calls fail with ACP_DISPOSED or as the sidecar ends them. */
  async dispose() {
    this.#lifetime.abort()
    await this.#starting?.catch(() => {})
    await Promise.all([this.#current?.close(this.#parts.graceMs()), ...this.#retiring])
  }

  async #start() {
    const waitMs = this.#lastEnd + (this.#parts.pauseMs ?? PAUSE_MS) - Date.now()
    if (this.#endsInARow >= MAX_ENDS_IN_A_ROW && waitMs > 0) {
      const seconds = Math.ceil(waitMs / 1000)
      throw new Failure(
        'ACP_DISCONNECTED',
        `The sidecar of antigravity-acp ended ${this.#endsInARow} times in a row and is not started again for ${seconds} s, `
        + 'or until one of its settings changes. See the host\'s log for how it ended, and check the setting `python`.',
        { final: true },
      )
    }
    this.#startedFor = this.#parts.needs()
    const handle = await this.#parts.launch(this.#lifetime.signal)
    const connection = new Connection(handle, this.#parts.onNotification)
    try {
      await this.#initialize(connection)
    } catch (error) {
      const failure = error instanceof Failure ? error : new Failure('UNKNOWN', String(error))
      connection.abandon(failure)
      // Wrong settings are not an end of the sidecar's own: they are said each time, and cost little.
      if (failure.code !== 'INVALID_SETTINGS' && !this.#lifetime.signal.aborted) this.#ended(failure, connection.lastWords)
      throw failure
    }
    this.#current = connection
    void connection.closed.then((failure) => {
      if (this.#current !== connection) return
      this.#current = undefined
      if (!this.#lifetime.signal.aborted) this.#ended(failure, '')
    })
    return connection
  }

  /** @param {Connection} connection */
  async #initialize(connection) {
    const { client, settings, settingsFiles, attended } = this.#parts
    const answer = await connection.request(
      'initialize',
      { protocol: PROTOCOL, client, settings: settings(), attended: attended(), settingsFiles: settingsFiles?.() },
      { timeoutMs: INITIALIZE_MS, signal: this.#lifetime.signal },
    )
    if (answer?.protocol !== PROTOCOL) {
      throw new Failure('SIDECAR_PROTOCOL', `The sidecar speaks protocol ${answer?.protocol}, this bundle ${PROTOCOL}. Install the same version of both.`)
    }
    if (answer.server?.version !== client.version) {
      this.#parts.warn(`The Python side is ${answer.server?.version}, the bundle ${client.version}. Install the same version of both.`)
    }
  }

  /**
   * @param {Failure} failure
   * @param {string} lastWords
   */
  #ended(failure, lastWords) {
    this.#endsInARow += 1
    this.#lastEnd = Date.now()
    this.#parts.warn(`${failure.message}${lastWords ? ` Its last line: ${lastWords}` : ''}`)
  }
}

/**
 * Waits no longer than the caller may; what is waited for goes on.
 * @template T
 * @param {Promise<T>} work
 * @param {string} what
 * @param {{signal?: AbortSignal, timeoutMs?: number}} bounds
 * @returns {Promise<T>}
 */
function within(work, what, { signal, timeoutMs }) {
  if (signal === undefined && timeoutMs === undefined) return work
  return new Promise((resolve, reject) => {
    const timer = timeoutMs === undefined ? undefined : setTimeout(
      () => settle(() => reject(new Failure('ACP_TIMEOUT', `The sidecar was not ready for \`${what}\` in ${timeoutMs} ms.`))), timeoutMs)
    const onAbort = () => settle(() => reject(new Failure('ABORTED', 'The request was cancelled.')))
    /** @param {() => void} then */
    const settle = (then) => {
      clearTimeout(timer)
      signal?.removeEventListener('abort', onAbort)
      then()
    }
    work.then((value) => settle(() => resolve(value)), (error) => settle(() => reject(error)))
    if (signal?.aborted) onAbort()
    else signal?.addEventListener('abort', onAbort, { once: true })
  })
}
