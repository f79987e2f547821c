// Lets the bundle's modules be loaded without the host: stand-ins for what they import of it, which is a base class, two
// functions for images, and the builder of the settings' schema.
import { registerHooks } from 'node:module'

const LLM = `export class LlmAdapter {}
export const projectOffloadedImages = (messages) => messages
export const offloadedImageText = () => ''`
const SCHEMA = 'const z = new Proxy(() => z, { get: (_, name) => name === Symbol.toPrimitive ? () => "z" : z }); export default z'

registerHooks({
  resolve(specifier, context, next) {
    const source = { '@deepseek-ai/dsh-llm': LLM, '@deepseek-ai/schemastery': SCHEMA }[specifier]
    return source === undefined ? next(specifier, context) : { url: `data:text/javascript,${encodeURIComponent(source)}`, shortCircuit: true }
  },
})
