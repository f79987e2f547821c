/**
 * A program that is run to its end, through the host's subprocess service.
 *
 * Owns: its bounds. Output beyond 64 KiB and everything after the time limit is given up.
 */
import { tmpdir } from 'node:os'

const OUTPUT_BYTES = 64 * 1024
const GRACE_MS = 3_000

/**
 * @typedef {object} Host what the bundle uses of the host while it looks for Python
 * @property {import('./host.d.ts').Subprocess} subprocess
 * @property {string} bundle the bundle's own folder
 * @property {string} cache the folder for private environments
 * @property {(level: 'info' | 'warning', code: string, message: string) => void} notice
 */

/**
 * @param {Pick<Host, 'subprocess'>} host
 * @param {string[]} argv
 * @param {{timeoutMs: number, signal: AbortSignal, env?: Record<string, string>}} bounds
 * @returns {Promise<{code: number | null, stdout: string, stderr: string}>} `code` is null when it was ended or could not be started
 */
export async function run(host, argv, { timeoutMs, signal, env }) {
  signal.throwIfAborted()
  const handle = host.subprocess.spawn({
    argv,
    cwd: tmpdir(),
    graceMs: GRACE_MS,
    stdio: { stdin: 'ignore', stdout: { maxBytes: OUTPUT_BYTES }, stderr: { maxBytes: OUTPUT_BYTES } },
    signal: AbortSignal.any([signal, AbortSignal.timeout(timeoutMs)]),
    ...(env === undefined ? {} : { env }),
  })
  const outcome = await handle.done.catch(() => ({ exitCode: null }))
  await handle.waitForExit()
  signal.throwIfAborted()
  const text = (/** @type {'stdout' | 'stderr'} */ name) => handle.collected[name]?.readFrom(0).text ?? ''
  return { code: outcome.exitCode, stdout: text('stdout'), stderr: text('stderr') }
}
