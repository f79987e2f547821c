/**
 * Which command starts the sidecar.
 *
 * Owns: the order of the search: the setting `python`, a matching `antigravity-acp` on PATH, the private environment
 * (environment.js). Starts programs only to ask them for their version.
 * Never: falls back from a program that was configured, or installs anything outside the host's own cache.
 */
import { homedir, tmpdir } from 'node:os'
import { basename, join } from 'node:path'
import { privateEnvironment } from './environment.js'
import { Failure } from './failure.js'
import { run } from './run.js'

const SIDECAR = ['-P', '-m', 'antigravity_acp.sidecar']
const PROGRAM = 'antigravity-acp'
/** Tried in this order; on Windows `py -3` last. */
const INTERPRETERS = ['python3.14', 'python3.13', 'python3.12', 'python3.11', 'python3', 'python']
const ASK_MS = 15_000
/** Says its version, and whether it can make an environment with pip in it. */
const PROBE = 'import sys, importlib.util as u; print(*sys.version_info[:2], int(bool(u.find_spec("venv") and u.find_spec("ensurepip"))))'
const INSTALL = 'Install Python 3.11 or newer (python.org, or your system\'s packages), or name one in the setting `python`.'

/** @typedef {import('./run.js').Host} Host */

/**
 * @param {Host} host
 * @param {{python: string, version: string, engine: boolean}} wanted `engine`: whether the embedded engine may be needed
 * @param {AbortSignal} signal
 * @returns {Promise<{argv: string[], release: () => void}>} `release` is called when the process has ended
 */
export async function findSidecar(host, wanted, signal) {
  if (wanted.python) return { argv: await configured(host, wanted.python, signal), release() {} }
  const program = await find(host, PROGRAM, signal)
  if (program !== undefined && await versionOf(host, program, signal) === wanted.version) {
    return { argv: [program, 'sidecar'], release() {} }
  }
  const { python, release } = await privateEnvironment(host, {
    version: wanted.version,
    extras: wanted.engine ? ['engine'] : [],
    interpreter: () => interpreter(host, signal),
  }, signal)
  return { argv: [python, ...SIDECAR], release }
}

/**
 * @param {Host} host
 * @param {string} setting
 * @param {AbortSignal} signal
 */
async function configured(host, setting, signal) {
  const path = setting === '~' || setting.startsWith('~/') ? join(homedir(), setting.slice(1)) : setting
  const found = await find(host, path, signal)
  if (found === undefined) {
    throw new Failure('ACP_BINARY_MISSING', 'Setting `python` names a program that is not an absolute path of an executable file and not on PATH. Correct it, or clear it to let one be found.')
  }
  return /^(python|pypy|py)[0-9.]*(\.exe)?$/i.test(basename(found)) ? [found, ...SIDECAR] : [found, 'sidecar']
}

/**
 * The first Python that will do.
 * @param {Host} host
 * @param {AbortSignal} signal
 * @returns {Promise<string[]>}
 */
async function interpreter(host, signal) {
  const candidates = INTERPRETERS.map((name) => [name])
  if (process.platform === 'win32') candidates.push(['py', '-3'])
  const seen = []
  for (const [name = '', ...args] of candidates) {
    const found = await find(host, name, signal)
    if (found === undefined) continue
    const answer = await run(host, [found, ...args, '-I', '-c', PROBE], { timeoutMs: ASK_MS, signal })
    const [major = 0, minor = 0, venv = 0] = answer.code === 0 ? answer.stdout.trim().split(' ').map(Number) : []
    if (major === 3 && minor >= 11 && venv === 1) return [found, ...args]
    seen.push(!(major > 0) ? `${name} does not run` : major === 3 && minor >= 11
      ? `${name} is ${major}.${minor} but has no \`venv\` with pip (Debian and Ubuntu: install python${major}.${minor}-venv)`
      : `${name} is ${major}.${minor}`)
  }
  const what = seen.length === 0 ? 'No Python was found on PATH.' : `No Python on PATH will do: ${[...new Set(seen)].join('; ')}.`
  throw new Failure('ACP_BINARY_MISSING', `${what} antigravity-acp runs on Python. ${INSTALL}`)
}

/**
 * @param {Host} host
 * @param {string} program
 * @param {AbortSignal} signal
 */
async function versionOf(host, program, signal) {
  const answer = await run(host, [program, '--version'], { timeoutMs: ASK_MS, signal })
  return answer.code === 0 ? answer.stdout.trim().split(/\s+/).at(-1) : undefined
}

/**
 * @param {Host} host
 * @param {string} command
 * @param {AbortSignal} signal
 * @returns {Promise<string | undefined>}
 */
async function find(host, command, signal) {
  try {
    return await host.subprocess.resolveExecutable(command, undefined, signal)
  } catch {
    signal.throwIfAborted()
    return undefined
  }
}

/**
 * What the sidecar needs of the host's environment beyond what the host passes to every child. The host takes out names
 * with KEY, TOKEN, SECRET or PASSWORD in them; those of the agent's own families are meant for it. Proxy, TLS and all
 * other names pass by themselves. What of it reaches the agent is the Python side's own explicit list.
 * @param {NodeJS.ProcessEnv} environment
 * @returns {Record<string, string>}
 */
export function credentials(environment) {
  /** @type {Record<string, string>} */
  const passed = {}
  for (const [name, value] of Object.entries(environment)) {
    if (value !== undefined && /^(GEMINI|GOOGLE|ANTIGRAVITY)_/i.test(name)) passed[name] = value
  }
  return passed
}

/** Neutral ground: nothing is imported or written there. */
export const workingDirectory = tmpdir
