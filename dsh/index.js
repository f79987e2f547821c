/**
 * dsh-antigravity-acp in DeepSeek Harness: the plugin's entry.
 *
 * Owns: what is mounted. Finds or sets up Python (python.js), runs the sidecar (sidecar.js), registers the adapter
 * (adapter.js) and the control (control.js), and takes all of it down again. Everything that Python already knows
 * stays there; this side translates.
 */
import { homedir } from 'node:os'
import { join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { AntigravityAdapter } from './adapter.js'
import { attendance, listen } from './control.js'
import { credentials, findSidecar, workingDirectory } from './python.js'
import { Config, manifest } from './settings.js'
import { Sidecar } from './sidecar.js'

export { Config }
export const name = 'llm-antigravity-acp'
export const inject = ['llm', 'subprocess']

const STDERR_BYTES = 64 * 1024
/** What the sidecar gets on top of its agents' own grace, to end by itself. */
const EXIT_MS = 4_000

/** @typedef {import('./host.d.ts').Context} Context */
/** @typedef {Record<string, any> & {python: string}} Values */

/**
 * @param {Context} ctx
 * @param {Record<string, unknown>} config validated by {@link Config}; volatile fields are references
 */
export async function * apply(ctx, config) {
  const values = () => current(config)
  const warn = (/** @type {string} */ message) => ctx.logger.warn(message)
  const attended = attendance(ctx)
  /** @type {Sidecar} */
  const sidecar = new Sidecar({
    launch: (signal) => launch(ctx, values(), signal),
    settings: () => {
      const { python, ...settings } = values()
      return settings
    },
    // A profile's settings are files below its folder, and which profile this is the host does not tell.
    settingsFiles: () => [join(dshHome(), 'profiles')],
    needs: () => JSON.stringify([values().python, mayEmbed(values())]),
    busy: () => adapter.busy,
    graceMs: () => 2 * values().disposeGraceMs + EXIT_MS,
    attended,
    client: { name: 'dsh-antigravity-acp', version: manifest.version },
    onNotification: (method, params) => tell(ctx, method, params),
    warn,
  })
  const adapter = new AntigravityAdapter(sidecar, () => ctx.get('attachments'), warn)
  yield async () => {
    adapter.dispose()
    await sidecar.dispose()
  }
  const registration = ctx.llm.registerAdapter([manifest.provider], adapter)
  adapter.onCatalogue = () => registration.replace([manifest.provider])
  listen(ctx, sidecar, () => valueOf(config.control) === true, attended)
  ctx.on('loader/volatile-update', () => {
    void sidecar.settingsChanged()
    startControl()
  })
  // A first call should not wait for Python, and the control must be there before the first tool.
  const startControl = () => { if (values().control) void sidecar.connection().catch((error) => warn(error.message)) }
  startControl()
}

/**
 * The settings as they are now.
 * @param {Record<string, any>} config
 * @returns {Values}
 */
function current(config) {
  return /** @type {Values} */ (Object.fromEntries(Object.entries(config).map(([key, value]) => [key, valueOf(value)])))
}

/** What a field of the settings is now. @param {any} field */
function valueOf(field) {
  return typeof field?.get === 'function' ? field.get() : field
}

/**
 * @param {Context} ctx
 * @param {Values} values
 * @param {AbortSignal} signal
 */
async function launch(ctx, values, signal) {
  const host = {
    subprocess: ctx.subprocess,
    bundle: fileURLToPath(new URL('..', import.meta.url)),
    cache: join(dshHome(), 'cache', manifest.provider),
    notice: (/** @type {string} */ level, /** @type {string} */ code, /** @type {string} */ message) => tell(ctx, 'notice', { level, code, message }),
  }
  const wanted = { python: values.python, version: manifest.version, engine: mayEmbed(values) }
  const { argv, release } = await findSidecar(host, wanted, signal)
  try {
    const handle = ctx.subprocess.spawn({
      argv,
      cwd: workingDirectory(),
      graceMs: 2 * values.disposeGraceMs + EXIT_MS,
      stdio: { stdin: 'pipe', stdout: 'pipe', stderr: { maxBytes: STDERR_BYTES } },
      env: credentials(process.env),
    })
    void handle.waitForExit().then(release, release)
    return handle
  } catch (error) {
    release()
    throw error
  }
}

/**
 * Whether the embedded engine may be needed: a large extra, which an agent of one's own and the official server do without.
 * @param {Values} values
 */
function mayEmbed({ command, engine }) {
  return !command && engine !== 'official'
}

/** The host's home, as the host itself finds it. */
function dshHome() {
  const configured = process.env.DSH_HOME?.trim()
  return configured ? resolve(configured) : join(homedir(), '.dsh')
}

/**
 * What the sidecar has to say, in the host's log. A page that somebody has to open now (a sign-in: level `warning`) stands
 * behind its message: a host in a terminal has no other place where a person would see it.
 * @param {Context} ctx
 * @param {string} method
 * @param {any} params
 */
function tell(ctx, method, params) {
  if (method !== 'notice' && method !== 'log') return
  const part = typeof params?.progress === 'number' ? ` (${Math.round(params.progress * 100)} %)` : ''
  const link = params?.level === 'warning' && typeof params.link === 'string' ? ` ${params.link}` : ''
  const line = `${params?.message}${part}${link}`
  if (params?.level === 'error') ctx.logger.error(line)
  else if (params?.level === 'warning') ctx.logger.warn(line)
  else ctx.logger.info(line)
}
