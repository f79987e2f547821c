/**
 * The host's request as the sidecar takes it.
 *
 * Owns: what is left out and what is fetched. Image bytes, which the host keeps apart from messages, go along in base64.
 */
import { Buffer } from 'node:buffer'
import { offloadedImageText, projectOffloadedImages } from '@deepseek-ai/dsh-llm'
import { Failure } from './failure.js'

/** @typedef {import('./host.d.ts').GenerateOptions} GenerateOptions */
/** @typedef {import('./host.d.ts').Message} Message */
/** @typedef {import('./host.d.ts').Attachments} Attachments */

/**
 * @param {GenerateOptions} options
 * @param {Attachments | undefined} attachments
 */
export async function toWire(options, attachments) {
  // `toolHistory` repeats the tools for providers that cache them; ACP has no place for it.
  const { signal, toolHistory, ...rest } = options
  if (!options.messages.some(hasImage)) return rest
  const messages = projectOffloadedImages(options.messages, (/** @type {any} */ image) => offloadedImageText(image))
  return { ...rest, messages: await Promise.all(messages.map((/** @type {Message} */ message) => withImages(message, attachments, signal))) }
}

/** @param {Message} message */
function hasImage(message) {
  return Array.isArray(message.content) && message.content.some(({ type }) => type === 'image')
}

/**
 * @param {Message} message
 * @param {Attachments | undefined} attachments
 * @param {AbortSignal | undefined} signal
 */
async function withImages(message, attachments, signal) {
  if (!hasImage(message)) return message
  const content = await Promise.all(message.content.map(async (block) => {
    if (block.type !== 'image' || block.attachment.data !== undefined) return block
    if (attachments === undefined) throw new Failure('UNSUPPORTED_OPTION', 'The chat has an image, and this host has no store of attachments to read it from.')
    const { data } = await attachments.readImage(block.attachment, signal)
    return { ...block, attachment: { ...block.attachment, data: Buffer.from(data).toString('base64') } }
  }))
  return { ...message, content }
}
