/**
 * Failures of the bundle and how they reach the host.
 *
 * Owns: the typed error of this side, and the translation of the plugin's stable codes into the few that the host's own
 * retry and compaction understand. An answer that has begun is never offered for a retry.
 * Never: looks into a message; texts come from the Python side's table, which holds nothing private.
 */

/** What the host may repeat by itself, and under which name of its own. */
const RETRYABLE = new Map([
  ['ACP_DISCONNECTED', 'TRANSPORT'],
  ['ACP_TIMEOUT', 'TIMEOUT'],
  ['ACP_SESSION_LIMIT', 'RATE_LIMIT'],
  ['ACP_SESSION_BUSY', 'RATE_LIMIT'],
  ['EMPTY_RESPONSE', 'EMPTY_RESPONSE'],
])

/** What makes the host shorten its history. */
const TOO_LONG = 'CONTEXT_WINDOW_EXCEEDED'

/** A failure with a stable code. */
export class Failure extends Error {
  /**
   * @param {string} code one of docs/errors.md, or SIDECAR_PROTOCOL
   * @param {string} message what happened and what to do
   * @param {{retryAfterMs?: number, status?: number, final?: boolean}} [facts] `final`: the host must not repeat it
   */
  constructor(code, message, facts = {}) {
    super(message)
    this.name = 'Failure'
    this.code = code
    this.retryAfterMs = facts.retryAfterMs
    this.status = facts.status
    this.final = facts.final === true
  }

  /**
   * The failure that a JSON-RPC error stands for.
   * @param {{message?: unknown, data?: {code?: unknown, retryAfterMs?: unknown, status?: unknown}} | null} error as it came
   */
  static of(error) {
    const { code, retryAfterMs, status } = error?.data ?? {}
    return new Failure(
      typeof code === 'string' ? code : 'UNKNOWN',
      typeof error?.message === 'string' && error.message ? error.message : 'The sidecar answered with an error.',
      {
        ...(typeof retryAfterMs === 'number' ? { retryAfterMs } : {}),
        ...(typeof status === 'number' ? { status } : {}),
      },
    )
  }
}

/**
 * The host's failure for one of ours.
 * @param {{code: string, message: string, retryAfterMs?: number | undefined, status?: number | undefined, final?: boolean}} failure
 * @param {boolean} begun whether the host has seen a part of the answer
 * @returns {import('./host.d.ts').LlmFailure}
 */
export function hostFailure(failure, begun) {
  const retryAfterMs = failure.retryAfterMs !== undefined && failure.retryAfterMs > 0 ? failure.retryAfterMs : undefined
  const code = begun || failure.final ? failure.code : hostCode(failure.code, retryAfterMs)
  const status = failure.status ?? (code === 'RATE_LIMIT' || code === 'QUOTA' ? 429 : undefined)
  return {
    message: code === failure.code ? failure.message : `[${failure.code}] ${failure.message}`,
    code,
    ...(status !== undefined && Number.isInteger(status) && status >= 100 && status <= 599 ? { status } : {}),
    ...(retryAfterMs === undefined ? {} : { providerRetryAfterMs: retryAfterMs }),
  }
}

/**
 * @param {string} code
 * @param {number | undefined} retryAfterMs
 */
function hostCode(code, retryAfterMs) {
  // A limit with a time is a rate limit: the host waits if the time is short, and gives up at once if it is long.
  // Without one, it is an account that is used up, which no retry mends.
  if (code === 'ACP_QUOTA') return retryAfterMs === undefined ? 'QUOTA' : 'RATE_LIMIT'
  return RETRYABLE.get(code) ?? (code === 'ACP_CONTEXT_LIMIT' ? TOO_LONG : code)
}

/**
 * The terminal chunk of a call that failed.
 * @param {unknown} error
 * @param {{begun: boolean, aborted: boolean}} state
 * @returns {import('./host.d.ts').StreamChunk}
 */
export function failedFinish(error, { begun, aborted }) {
  if (aborted) return { type: 'finish', reason: { kind: 'aborted', failure: ABORTED } }
  const failure = error instanceof Failure ? error : new Failure('UNKNOWN', textOf(error))
  if (failure.code === 'ABORTED') return { type: 'finish', reason: { kind: 'aborted', failure: ABORTED } }
  return { type: 'finish', reason: { kind: 'error', failure: hostFailure(failure, begun) } }
}

const ABORTED = Object.freeze({ code: 'ABORTED', message: 'The request was cancelled by its signal or its consumer.' })

/** @param {unknown} error */
export function textOf(error) {
  return (error instanceof Error ? error.message : String(error)) || 'An error without a text.'
}
