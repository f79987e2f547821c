/**
 * The control of tool calls: asks the sidecar before the host runs a tool, and tells it afterwards how it ended.
 *
 * Owns: the two listeners. `deny` blocks with its reason, `ask` goes to the host's own approval, `allow` leaves the decision
 * to the host and whatever else listens: nothing here ever widens what would be allowed without it. What runs is what was
 * decided: arguments that another listener has changed in the meantime are decided again, and none changes them after that.
 * If the sidecar cannot be asked, a person is; where nobody is there to be asked, the call is denied.
 */
import { textOf } from './failure.js'

const DECIDE_MS = 15_000
const REPORT_MS = 10_000

/** @typedef {import('./host.d.ts').Context} Context */
/** @typedef {import('./host.d.ts').ToolExecution} ToolExecution */
/** @typedef {import('./host.d.ts').PreToolDecision} PreToolDecision */
/** @typedef {(exec?: ToolExecution) => boolean} Attended */

/**
 * Listens until the plugin is unmounted.
 * @param {Context} ctx
 * @param {import('./sidecar.js').Sidecar} sidecar
 * @param {() => boolean} on whether the control is switched on now
 * @param {Attended} attended
 */
export function listen(ctx, sidecar, on, attended) {
  /** Calls that were asked about: for which arguments, and whether their tool was started. @type {WeakMap<ToolExecution, {decided: string, started: boolean}>} */
  const asked = new WeakMap()

  ctx.on('tools/pre-execute', async (/** @type {ToolExecution} */ exec, /** @type {() => Promise<PreToolDecision>} */ next) => {
    if (!on()) return next()
    asked.set(exec, { decided: textOfArguments(exec), started: false })
    const own = await decide(ctx, sidecar, exec, attended(exec))
    if (own.kind !== 'ask') return own.kind === 'allow' ? next() : own
    // Others may still deny what we only ask about.
    const theirs = await next()
    return theirs.kind === 'allow' ? own : theirs
  }, { prepend: true })

  ctx.on('tools/execute', async (/** @type {ToolExecution} */ exec, /** @type {() => Promise<unknown>} */ next) => {
    const state = asked.get(exec)
    if (state === undefined) return next()
    // First, so that what is decided now is what runs.
    Object.defineProperty(exec, 'arguments', { value: frozen(exec.arguments), writable: false, configurable: false, enumerable: true })
    if (textOfArguments(exec) !== state.decided) {
      // Whoever was asked saw the other ones, and cannot be asked from here.
      const own = await decide(ctx, sidecar, exec, false)
      if (own.kind !== 'allow') throw new Error(`The call was changed after it was decided. ${'reason' in own ? own.reason : ''}`)
    }
    state.started = true
    return next()
  })

  ctx.on('tools/result', (/** @type {ToolExecution} */ exec, /** @type {{isError: boolean}} */ result) => {
    const state = asked.get(exec)
    if (state === undefined) return
    asked.delete(exec)
    const outcome = !result.isError ? 'ok' : exec.signal?.aborted ? 'cancelled' : state.started ? 'error' : 'denied'
    const { id, name, sessionId } = callOf(exec)
    const call = { id, name, ...(sessionId === undefined ? {} : { sessionId }) }
    // The result is the host's already; what cannot be told is only missing from the record.
    void sidecar.running?.request('control/report', { call, outcome }, { timeoutMs: REPORT_MS }).catch((error) => {
      ctx.logger.warn(`control: how a call ended could not be recorded: ${textOf(error)}`)
    })
  })
}

/**
 * @param {Context} ctx
 * @param {import('./sidecar.js').Sidecar} sidecar
 * @param {ToolExecution} exec
 * @param {boolean} person whether somebody can be asked
 * @returns {Promise<PreToolDecision>}
 */
async function decide(ctx, sidecar, exec, person) {
  try {
    const answer = await sidecar.request('control/decide', { call: callOf(exec), attended: person }, {
      timeoutMs: DECIDE_MS, ...(exec.signal === undefined ? {} : { signal: exec.signal }),
    })
    switch (answer?.decision) {
      case 'allow': return { kind: 'allow' }
      case 'ask': return { kind: 'ask', reason: answer.reason }
      case 'deny': return { kind: 'deny', reason: answer.reason }
    }
    ctx.logger.warn('control: the sidecar gave an answer that is none')
  } catch (error) {
    if (exec.signal?.aborted) return { kind: 'cancel' }
    ctx.logger.warn(`control: the sidecar could not be asked: ${textOf(error)}`)
  }
  const reason = 'The control of antigravity-acp cannot be asked about this call'
  return person ? { kind: 'ask', reason: `${reason}.` } : { kind: 'deny', reason: `${reason}, and nobody is here to decide it.` }
}

/**
 * Tells whether somebody can be asked: the host has an approval service, the session does not forbid to ask, and something
 * answers. (A browser that is not open at the moment still counts; the host then refuses by itself.)
 * @param {Context} ctx
 * @returns {Attended}
 */
export function attendance(ctx) {
  /** @type {import('./host.d.ts').Approval | undefined} */
  let approval
  // The service comes and goes; looking it up before every call of a tool costs more than the rest of the answer.
  ctx.inject(['approval'], (inner) => {
    approval = inner.get('approval')
    return () => { approval = undefined }
  })
  const { events } = ctx
  return (exec) => {
    if (approval === undefined) return false
    const session = exec?.agent?.session
    if (session !== undefined && approval.effectivePolicy(session) === 'never') return false
    return events.dispatch('waterfall', ['approval/request']).length > 0
  }
}

/** @param {ToolExecution} exec */
function textOfArguments(exec) {
  return JSON.stringify([exec.name, exec.arguments])
}

/**
 * The same value, which nobody changes any more. The host has frozen its own; what another plugin put there may be open.
 * @template T
 * @param {T} value
 * @returns {T}
 */
function frozen(value) {
  if (typeof value === 'object' && value !== null) {
    Object.freeze(value)
    for (const inner of Object.values(value)) frozen(inner)
  }
  return value
}

/** @param {ToolExecution} exec */
function callOf(exec) {
  const { agent } = exec
  const session = agent?.session
  const cwd = session?.header?.meta?.cwd
  return {
    id: String(exec.callId),
    name: exec.name,
    arguments: exec.arguments ?? {},
    ...(session === undefined ? {} : { sessionId: String(session.id ?? session.header?.id) }),
    ...(typeof cwd === 'string' ? { cwd } : {}),
    ...(agent?.id === undefined ? {} : { agent: String(agent.id) }),
  }
}
