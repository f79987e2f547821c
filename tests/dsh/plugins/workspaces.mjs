// Gives the host's web page its workspaces. In the wheel of 0.2.1-rc.2 the row that serves them does not start: a package
// that it imports lies where only others find it, and without it the page shows an error and nothing else. Here the same
// module is loaded with that one import looked up from a place that sees it.
import { registerHooks } from 'node:module'

export const name = 'test-workspaces'

const MISSING = '@deepseek-ai/dsh-host-directory-picker'
const MODULES = 'file:///snapshot/node/node_modules/@deepseek-ai/dsh/node_modules/@deepseek-ai/'
const NEIGHBOUR = `${MODULES}dsh-host-directory-picker-browse/lib/index.js`
const CONTROLLER = `${MODULES}dsh-web-app/node_modules/@deepseek-ai/dsh-api-workspace-controller/lib/index.js`

export async function apply(ctx) {
  const hooks = registerHooks({
    resolve: (specifier, context, next) => next(specifier, specifier === MISSING ? { ...context, parentURL: NEIGHBOUR } : context),
  })
  try {
    ctx.plugin((await import(CONTROLLER)).default)
  } finally {
    hooks.deregister()
  }
}
