/**
 * The private Python environment: made once, from the bundle's own files.
 *
 * Owns: `<cache>/<version>-<digest>[-<extra>]/` with
 *   env-<random>/    an environment; complete only when `ready.json` names it
 *   ready.json       published in one step, so that nobody ever sees half an environment
 *   lock             who is making one: process id and a heartbeat; makes it happen once, correctness does not depend on it
 *   users/<pid>      hosts whose sidecar runs from here; while one lives, nothing of it is removed
 *   install.log      what pip said last
 * The digest is over the Python files, so a changed bundle gets an environment of its own; older ones are removed then.
 * Never: downloads before the first use, touches another Python, or shows what pip printed (it may name a private index).
 */
import { createHash, randomBytes } from 'node:crypto'
import { link, mkdir, readdir, readFile, rename, rm, stat, unlink, utimes, writeFile } from 'node:fs/promises'
import { unlinkSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Failure } from './failure.js'
import { run } from './run.js'

/** What the distribution is built from. */
const SOURCES = ['pyproject.toml', 'manifest.json', 'README.md', 'LICENSE', 'plugin', 'provisioning', 'control', 'engine']
const VENV_MS = 120_000
const PIP_MS = 900_000
const HEARTBEAT_MS = 5_000
const STALE_MS = 60_000
const POLL_MS = 200
/** pip is told what could lead it elsewhere; index, proxy and certificates stay the user's. */
const PIP = { PIP_NO_INPUT: '1', PIP_DISABLE_PIP_VERSION_CHECK: '1', PIP_USER: '0' }

/** @typedef {import('./run.js').Host} Host */
/**
 * @typedef {object} Wanted
 * @property {string} version
 * @property {string[]} extras
 * @property {() => Promise<string[]>} interpreter a Python that can make environments; asked only when one is made
 */

/**
 * The environment's Python; makes the environment when there is none.
 * @param {Host} host
 * @param {Wanted} wanted
 * @param {AbortSignal} signal
 * @returns {Promise<{python: string, release: () => void}>} `release` is called when its process has ended
 */
export async function privateEnvironment(host, wanted, signal) {
  const same = `${wanted.version}-${await digest(host.bundle)}`
  const home = join(host.cache, [same, ...wanted.extras].join('-'))
  let release = () => {}
  try {
    await mkdir(join(home, 'users'), { recursive: true })
    // Before the look: from now on nobody removes it.
    release = await use(home)
    const python = await ready(home) ?? await makeOnce(host, home, wanted, signal)
    await removeOld(host.cache, same)
    await removeHalf(home, python)
    return { python, release }
  } catch (error) {
    release()
    signal.throwIfAborted()
    throw error instanceof Failure ? error : unwritable(host.cache, error)
  }
}

/**
 * @param {string} cache
 * @param {unknown} error of the file system
 */
function unwritable(cache, error) {
  const { code } = /** @type {NodeJS.ErrnoException} */ (error)
  return new Failure(
    'ACP_INSTALL_FAILED',
    `Python for antigravity-acp cannot be set up: ${cache} cannot be written (${code ?? 'an error'}). Make room or writable what is in `
    + 'the way, or install `dsh-antigravity-acp` yourself and name its Python in the setting `python`.',
  )
}

/** @param {string} bundle */
async function digest(bundle) {
  const hash = createHash('sha256')
  for (const source of SOURCES) await add(hash, bundle, source)
  return hash.digest('hex').slice(0, 16)
}

/**
 * @param {import('node:crypto').Hash} hash
 * @param {string} bundle
 * @param {string} path
 */
async function add(hash, bundle, path) {
  const full = join(bundle, path)
  if ((await stat(full)).isDirectory()) {
    const names = (await readdir(full)).filter((name) => name !== '__pycache__' && !name.endsWith('.pyc')).sort()
    for (const name of names) await add(hash, bundle, `${path}/${name}`)
  } else {
    const content = await readFile(full)
    hash.update(`\0${path}\0${content.length}\0`).update(content)
  }
}

/** @param {string} home */
async function ready(home) {
  try {
    const { environment } = JSON.parse(await readFile(join(home, 'ready.json'), 'utf8'))
    const python = pythonOf(join(home, environment))
    await stat(python)
    return python
  } catch {
    return undefined
  }
}

/** @param {string} environment */
function pythonOf(environment) {
  return process.platform === 'win32' ? join(environment, 'Scripts', 'python.exe') : join(environment, 'bin', 'python')
}

/**
 * @param {Host} host
 * @param {string} home
 * @param {Wanted} wanted
 * @param {AbortSignal} signal
 */
async function makeOnce(host, home, wanted, signal) {
  const lock = join(home, 'lock')
  let told = false
  while (!await take(lock)) {
    if (!told) host.notice('info', 'PYTHON_SETUP', 'Another host is setting up Python for antigravity-acp; waiting for it.')
    told = true
    await sleep(POLL_MS, undefined, { signal })
  }
  const heartbeat = setInterval(() => void utimes(lock, new Date(), new Date()).catch(() => {}), HEARTBEAT_MS)
  try {
    return await ready(home) ?? await make(host, home, wanted, signal)
  } finally {
    clearInterval(heartbeat)
    await unlink(lock).catch(() => {})
  }
}

/**
 * @param {Host} host
 * @param {string} home
 * @param {Wanted} wanted
 * @param {AbortSignal} signal
 */
async function make(host, home, wanted, signal) {
  const interpreter = await wanted.interpreter()
  const environment = `env-${randomBytes(6).toString('hex')}`
  const python = pythonOf(join(home, environment))
  const target = wanted.extras.length === 0 ? host.bundle : `${host.bundle}[${wanted.extras.join()}]`
  const since = Date.now()
  host.notice('info', 'PYTHON_SETUP', 'Setting up Python for antigravity-acp. This happens once and may take a minute or two.')
  try {
    await step(host, home, [...interpreter, '-I', '-m', 'venv', join(home, environment)], VENV_MS, signal)
    await step(host, home, [python, '-I', '-m', 'pip', 'install', '--no-compile', '--progress-bar', 'off', target], PIP_MS, signal)
    const draft = join(home, `${environment}.json`)
    await writeFile(draft, JSON.stringify({ environment }))
    await publish(draft, home)
  } catch (error) {
    await rm(join(home, environment), { recursive: true, force: true })
    throw error
  }
  host.notice('info', 'PYTHON_SETUP', `Python for antigravity-acp is ready (${Math.round((Date.now() - since) / 1000)} s).`)
  const published = await ready(home)
  if (published === undefined) throw new Failure('ACP_INSTALL_FAILED', 'The private Python environment disappeared while it was set up. Try again.')
  return published
}

/**
 * @param {Host} host
 * @param {string} home
 * @param {string[]} argv
 * @param {number} timeoutMs
 * @param {AbortSignal} signal
 */
async function step(host, home, argv, timeoutMs, signal) {
  const answer = await run(host, argv, { timeoutMs, signal, env: PIP })
  const log = join(home, 'install.log')
  await writeFile(log, `${argv.slice(1).join(' ')}\n${answer.stdout}${answer.stderr}`, { mode: 0o600 })
  if (answer.code === 0) return
  const what = argv.includes('pip') ? 'installing the Python side and its libraries' : 'making a Python environment'
  const how = answer.code === null ? 'took too long' : 'failed'
  throw new Failure(
    'ACP_INSTALL_FAILED',
    `Setting up Python for antigravity-acp: ${what} ${how}. What it printed is in ${log}. It needs a package index at this `
    + 'moment (proxy and index as for pip); or install `dsh-antigravity-acp` yourself and name its Python in the setting `python`.',
  )
}

/**
 * In one step; the first one stays.
 * @param {string} draft
 * @param {string} home
 */
async function publish(draft, home) {
  const path = join(home, 'ready.json')
  try {
    await link(draft, path)
  } catch {
    // There is one already, or this file system has no hard links: the last one wins, which is as good, for each is complete.
    if (await ready(home) === undefined) return rename(draft, path)
  }
  await unlink(draft)
}

/**
 * @param {string} lock
 * @returns {Promise<boolean>}
 */
async function take(lock) {
  try {
    await writeFile(lock, String(process.pid), { flag: 'wx' })
    return true
  } catch (error) {
    if (/** @type {NodeJS.ErrnoException} */ (error).code !== 'EEXIST') throw error
  }
  try {
    const [owner, { mtimeMs }] = await Promise.all([readFile(lock, 'utf8'), stat(lock)])
    // A process id may be another one's by now, so a heartbeat that stopped counts as well. Two that take over at the
    // same moment may both make one; only one of the two is published.
    if ((owner !== '' && !alive(Number(owner))) || Date.now() - mtimeMs > STALE_MS) await unlink(lock)
  } catch {
    // Gone in the meantime.
  }
  return false
}

/**
 * @param {string} home
 * @returns {Promise<() => void>}
 */
async function use(home) {
  const path = join(home, 'users', `${process.pid}-${randomBytes(4).toString('hex')}`)
  await writeFile(path, '')
  return () => {
    try {
      unlinkSync(path)
    } catch {
      // Removed together with its folder.
    }
  }
}

/**
 * Older versions, unless somebody still runs from them.
 * @param {string} cache
 * @param {string} same how the names of this version begin
 */
async function removeOld(cache, same) {
  for (const entry of await readdir(cache, { withFileTypes: true })) {
    if (!entry.isDirectory() || entry.name.startsWith(same) || !/^[0-9].*-[0-9a-f]{16}(-[a-z]+)*$/.test(entry.name)) continue
    const users = await readdir(join(cache, entry.name, 'users')).catch(() => [])
    if (users.some((user) => alive(Number.parseInt(user, 10)))) continue
    await rm(join(cache, entry.name), { recursive: true, force: true }).catch(() => {})
  }
}

/**
 * Environments that were never finished, and are too old for somebody to be still at work on them.
 * @param {string} home
 * @param {string} python the finished one's
 */
async function removeHalf(home, python) {
  for (const name of await readdir(home)) {
    const path = join(home, name)
    if (!name.startsWith('env-') || python.startsWith(path)) continue
    const { birthtimeMs } = await stat(path).catch(() => ({ birthtimeMs: Infinity }))
    if (Date.now() - birthtimeMs > VENV_MS + PIP_MS) await rm(path, { recursive: true, force: true }).catch(() => {})
  }
}

/** @param {number} pid */
function alive(pid) {
  try {
    process.kill(pid, 0)
    return true
  } catch (error) {
    return /** @type {NodeJS.ErrnoException} */ (error).code === 'EPERM'
  }
}
