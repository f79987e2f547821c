/**
 * What goes to the sidecar, and in which order.
 *
 * Owns: the back-pressure of the pipe. While it is full, requests wait in one queue and leave in the order they were made.
 * Notifications do not wait: an acknowledgement or a cancel must not stand behind somebody's 32 MiB, and there are few of them.
 * They speak of what has been written; a request that still waits is not cancelled but withdrawn, and then never leaves.
 * Ends: with the pipe; what still waits then is dropped, and fails with its connection.
 */
import { Failure } from './failure.js'

export const MAX_FRAME_BYTES = 32 * 1024 * 1024

/** @typedef {{id: number, frame: object, refuse: (failure: Failure) => void}} Waiting */

export class Outbox {
  /** @type {Waiting[]} */
  #queue = []
  #full = false
  #pipe

  /** @param {import('node:stream').Writable} pipe */
  constructor(pipe) {
    this.#pipe = pipe
    pipe.on('drain', () => {
      this.#full = false
      this.#write()
    })
  }

  /**
   * @param {number} id
   * @param {object} frame not changed afterwards: it is written when there is room
   * @param {(failure: Failure) => void} refuse called when it cannot be sent at all
   */
  request(id, frame, refuse) {
    this.#queue.push({ id, frame, refuse })
    this.#write()
  }

  /**
   * @param {number} id
   * @returns {boolean} whether the request had not been written, and never will be
   */
  withdraw(id) {
    const at = this.#queue.findIndex((waiting) => waiting.id === id)
    if (at >= 0) this.#queue.splice(at, 1)
    return at >= 0
  }

  /** @param {object} frame */
  notify(frame) {
    // The pipe says "full" once until it drains; requests then wait, too.
    if (this.#pipe.writable && !this.#pipe.write(`${JSON.stringify(frame)}\n`)) this.#full = true
  }

  /** Nothing more is written; what has been still arrives. */
  end() {
    this.#queue = []
    this.#pipe.end()
  }

  #write() {
    while (!this.#full && this.#pipe.writable) {
      const next = this.#queue.shift()
      if (next === undefined) return
      const line = `${JSON.stringify(next.frame)}\n`
      if (Buffer.byteLength(line) > MAX_FRAME_BYTES) {
        next.refuse(new Failure('INVALID_REQUEST', 'The request is larger than 32 MiB. Leave out images, or start a new chat.'))
      } else {
        this.#full = !this.#pipe.write(line)
      }
    }
  }
}
