// The private environment: made once, whatever happens meanwhile. A shell script stands in for Python; test_dsh_python.py makes
// a real one.
import assert from 'node:assert/strict'
import { appendFile, chmod, mkdir, mkdtemp, readdir, readFile, rm, stat, utimes, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { test } from 'node:test'
import { privateEnvironment } from '../../../dsh/environment.js'
import { findSidecar } from '../../../dsh/python.js'
import { hostIn } from './process.mjs'

/** Makes an environment that is a copy of itself, and writes down each installation; fails or waits where a file says so. */
const PYTHON = `#!/bin/sh
for last; do :; done
case "$*" in
*"-m venv"*) mkdir -p "$last/bin" && cp "$0" "$last/bin/python" ;;
*"-m pip install"*)
  echo "$last" >> "FOLDER/installs"
  while [ -e "FOLDER/wait" ]; do sleep 0.02; done
  [ ! -e "FOLDER/fail" ] ;;
*"-c"*) cat "FOLDER/version" ;;
esac
`

async function prepare(t, name = 'antigravity test') {
  const folder = await mkdtemp(join(tmpdir(), `${name}-`))
  t.after(() => rm(folder, { recursive: true, force: true }))
  const python = join(folder, 'bin', 'python3')
  for (const part of ['bin', 'bundle/plugin', 'bundle/provisioning', 'bundle/control', 'bundle/engine']) await mkdir(join(folder, part), { recursive: true })
  for (const file of ['pyproject.toml', 'manifest.json', 'README.md', 'LICENSE', 'plugin/a.py']) await writeFile(join(folder, 'bundle', file), file)
  await writeFile(python, PYTHON.replaceAll('FOLDER', folder))
  await chmod(python, 0o755)
  await writeFile(join(folder, 'version'), '3 12 1')
  const host = hostIn(folder)
  return {
    folder,
    host,
    make: (signal = new AbortController().signal) => privateEnvironment(host, { version: '1.0.0', extras: [], interpreter: async () => [python] }, signal),
    find: (wanted = {}) => findSidecar(host, { python: '', version: '1.0.0', engine: false, ...wanted }, new AbortController().signal),
    touch: (file) => writeFile(join(folder, file), ''),
    installs: async () => (await readFile(join(folder, 'installs'), 'utf8').catch(() => '')).split('\n').filter(Boolean).length,
    homes: async () => (await readdir(host.cache).catch(() => [])).map((name) => join(host.cache, name)),
  }
}

/** What is in a home besides the environment that is ready and what is kept on purpose. */
async function litter(home) {
  const { environment } = await readFile(join(home, 'ready.json'), 'utf8').then(JSON.parse, () => ({}))
  return (await readdir(home)).filter((name) => ![environment, 'ready.json', 'users', 'install.log'].includes(name))
}

test('it is made once, and everybody who came meanwhile gets the same', async (t) => {
  const { make, installs, homes } = await prepare(t, 'Büro Ω mit Platz')
  const made = await Promise.all([make(), make(), make()])
  assert.equal(new Set(made.map(({ python }) => python)).size, 1)
  assert.equal(await installs(), 1)
  const [home] = await homes()
  assert.deepEqual(await litter(home), [])
  assert.equal((await readdir(join(home, 'users'))).length, 3)
  for (const { release } of made) release()
  assert.deepEqual(await readdir(join(home, 'users')), [])
})

test('one that failed leaves nothing, and the next call tries again', async (t) => {
  const { make, touch, installs, homes, folder } = await prepare(t)
  await touch('fail')
  await assert.rejects(make(), (error) => error.code === 'ACP_INSTALL_FAILED' && /install\.log/.test(error.message))
  const [home] = await homes()
  assert.deepEqual(await litter(home), [])
  assert.deepEqual(await readdir(join(home, 'users')), [])
  await rm(join(folder, 'fail'))
  await stat((await make()).python)
  assert.equal(await installs(), 2)
})

test('one that was given up leaves nothing, and no lock', async (t) => {
  const { make, touch, installs, homes } = await prepare(t)
  await touch('wait')
  const control = new AbortController()
  const making = assert.rejects(make(control.signal))
  while (await installs() === 0) await new Promise(setImmediate)
  control.abort()
  await making
  assert.deepEqual(await litter((await homes())[0]), [])
})

for (const [name, owner, ageS] of [['a process that is gone', '999999999', 0], ['a heartbeat that stopped', `${process.pid}`, 3600]]) {
  test(`the lock of ${name} is taken over`, async (t) => {
    const { make, touch, homes, folder } = await prepare(t)
    await touch('fail')
    await assert.rejects(make())
    await rm(join(folder, 'fail'))
    const lock = join((await homes())[0], 'lock')
    await writeFile(lock, owner)
    await utimes(lock, new Date(), new Date(Date.now() - ageS * 1000))
    await stat((await make()).python)
  })
}

test('the lock of a host that lives is waited for, and said', async (t) => {
  const { make, touch, homes, folder, host, installs } = await prepare(t)
  await touch('fail')
  await assert.rejects(make())
  await rm(join(folder, 'fail'))
  const lock = join((await homes())[0], 'lock')
  await writeFile(lock, `${process.pid}`)
  const making = make()
  while (!host.notices.some(([, , message]) => /Another host/.test(message))) await new Promise(setImmediate)
  assert.equal(await installs(), 1)
  await rm(lock)
  await stat((await making).python)
})

test('another release gets another, and the old one goes when nobody runs from it', async (t) => {
  const { make, homes, folder } = await prepare(t)
  const first = await make()
  await appendFile(join(folder, 'bundle/plugin/a.py'), '# changed')
  const second = await make()
  assert.notEqual(first.python, second.python)
  await stat(first.python)
  first.release()
  await make()
  await assert.rejects(stat(first.python), { code: 'ENOENT' })
  assert.equal((await homes()).length, 1)
})

test('what compiling leaves beside the sources makes no other release of them', async (t) => {
  const { make, folder } = await prepare(t)
  const first = await make()
  await mkdir(join(folder, 'bundle/plugin/__pycache__'))
  await writeFile(join(folder, 'bundle/plugin/__pycache__/a.pyc'), 'x')
  assert.equal((await make()).python, first.python)
})

test('an environment that somebody emptied is made again', async (t) => {
  const { make, homes, installs } = await prepare(t)
  const { python } = await make()
  await rm(python)
  const again = await make()
  await stat(again.python)
  assert.equal(await installs(), 2)
  assert.equal((await homes()).length, 1)
})

test('a home that cannot be written is one clear error', async (t) => {
  const { make, host } = await prepare(t)
  await writeFile(host.cache, 'a file where the folder should be')
  await assert.rejects(make(), (error) => error.code === 'ACP_INSTALL_FAILED' && error.message.includes(host.cache) && /`python`/.test(error.message))
})

test('a Python without venv or pip is named with the package that brings them', async (t) => {
  const { find, folder, installs } = await prepare(t)
  await writeFile(join(folder, 'version'), '3 11 0')
  await assert.rejects(find(), (error) => error.code === 'ACP_BINARY_MISSING' && /python3 is 3\.11 but has no `venv`.*python3\.11-venv/.test(error.message))
  assert.equal(await installs(), 0)
})

test('a Python that does not run, or is too old, is named', async (t) => {
  const { find, folder } = await prepare(t)
  await writeFile(join(folder, 'version'), '3 8 1')
  await assert.rejects(find(), /python3 is 3\.8/)
  await writeFile(join(folder, 'version'), 'Segmentation fault')
  await assert.rejects(find(), /python3 does not run/)
})

test('the sidecar runs from the environment, without what lies in the working directory', async (t) => {
  const { find, homes } = await prepare(t)
  const { argv, release } = await find({ engine: true })
  assert.ok(argv[0].startsWith((await homes())[0]))
  assert.match((await homes())[0], /-engine$/)
  assert.deepEqual(argv.slice(1), ['-P', '-m', 'antigravity_acp.sidecar'])
  release()
})

for (const [setting, argv] of [['python3', ['-P', '-m', 'antigravity_acp.sidecar']], ['antigravity-acp', ['sidecar']]]) {
  test(`the setting python may name a Python or the program: ${setting}`, async (t) => {
    const { find, folder } = await prepare(t)
    const path = join(folder, 'bin', setting)
    await appendFile(path, '')
    await chmod(path, 0o755)
    assert.deepEqual((await find({ python: path })).argv, [path, ...argv])
  })
}

test('a program that was configured and is not there is not replaced', async (t) => {
  const { find } = await prepare(t)
  await assert.rejects(find({ python: '/nowhere/python3' }), (error) => error.code === 'ACP_BINARY_MISSING' && /`python`/.test(error.message))
})
