// A process as the host's subprocess service hands it out.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { constants } from 'node:fs'
import { access } from 'node:fs/promises'
import { isAbsolute, join } from 'node:path'
import { fileURLToPath } from 'node:url'

export const PEER = [process.execPath, fileURLToPath(new URL('peer.mjs', import.meta.url))]

export function start(argv) {
  const child = spawn(argv[0], argv.slice(1), { stdio: 'pipe' })
  let stderr = ''
  child.stderr.on('data', (data) => { stderr += data })
  const exit = once(child, 'exit').then(([exitCode, signal]) => ({ exitCode, signal }))
  return {
    child,
    stdin: child.stdin,
    stdout: child.stdout,
    collected: { stderr: { readFrom: () => ({ text: stderr }) } },
    done: exit,
    terminate: () => child.kill('SIGTERM'),
    waitForExit: () => exit.then(() => true),
  }
}

/** What the bundle uses of a host while it looks for Python; programs are found in one folder only. */
export function hostIn(folder, { programs = join(folder, 'bin'), bundle = join(folder, 'bundle'), cache = join(folder, 'cache') } = {}) {
  const notices = []
  const resolveExecutable = async (command) => {
    const path = isAbsolute(command) ? command : join(programs, command)
    await access(path, constants.X_OK)
    return path
  }
  const spawnOne = ({ argv, cwd, env, signal }) => {
    const child = spawn(argv[0], argv.slice(1), { cwd, signal, stdio: ['ignore', 'pipe', 'pipe'], env: { PATH: process.env.PATH, ...env } })
    const text = { stdout: '', stderr: '' }
    for (const name of Object.keys(text)) child[name].on('data', (data) => { text[name] += data })
    child.on('error', () => {})
    const done = new Promise((resolve) => child.once('close', (exitCode, name) => resolve({ exitCode, signal: name })))
    const collected = Object.fromEntries(Object.keys(text).map((name) => [name, { readFrom: () => ({ text: text[name] }) }]))
    return { collected, done, terminate: () => child.kill(), waitForExit: () => done.then(() => true) }
  }
  return { subprocess: { resolveExecutable, spawn: spawnOne }, bundle, cache, notices, notice: (...notice) => notices.push(notice) }
}
