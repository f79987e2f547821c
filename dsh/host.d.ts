// What this bundle uses of DeepSeek Harness 0.2.1, in our own words. Not a full description of the host.
import type { Readable, Writable } from 'node:stream'

export interface LlmFailure {
  readonly message: string
  readonly code: string
  readonly status?: number
  readonly providerRetryAfterMs?: number
}

export interface FinishReason {
  kind: 'stop' | 'tool-calls' | 'max-tokens' | 'aborted' | 'error'
  failure?: LlmFailure
}

export type ContentBlock =
  | { type: 'text' | 'reasoning'; text: string }
  | { type: 'tool-call'; id: string; name: string; arguments: string }
  | { type: 'image'; attachment: ImageRef; offloaded?: true }

/** The bytes are apart, in {@link Attachments}; `data` (base64) is ours. */
export interface ImageRef {
  attachmentId: string
  mediaType: string
  data?: string
}

export interface Message {
  role: 'system' | 'developer' | 'user' | 'assistant' | 'tool'
  content: ContentBlock[]
}

export interface GenerateOptions {
  provider: string
  model: string
  messages: Message[]
  sessionId?: string
  purpose?: string
  toolHistory?: unknown
  signal?: AbortSignal
}

export type StreamChunk =
  | { type: 'block-start'; index: number; blockType: string }
  | { type: 'text-delta' | 'reasoning-delta'; index: number; text: string }
  | { type: 'tool-call-delta'; index: number; id: string; argumentsDelta: string; name?: string }
  | { type: 'block-end'; index: number; block: ContentBlock }
  | { type: 'usage'; usage: object }
  | { type: 'finish'; reason: FinishReason }

export interface ModelInfo {
  provider: string
  id: string
  name: string
  description?: string
  inputModalities?: readonly string[]
}

export interface Attachments {
  readImage(ref: ImageRef, signal?: AbortSignal): Promise<{ data: Uint8Array }>
}

export interface Approval {
  effectivePolicy(session: Session): 'ask' | 'never'
}

export interface Session {
  id?: string
  header?: { id?: string; meta?: { cwd?: string } }
}

export interface ToolExecution {
  callId: string
  name: string
  arguments?: unknown
  signal?: AbortSignal
  agent?: { id?: string; session?: Session }
}

export type PreToolDecision =
  | { kind: 'allow' }
  | { kind: 'cancel' }
  | { kind: 'deny'; reason: string }
  | { kind: 'ask'; reason?: string }

export interface SubprocessHandle {
  readonly stdin: Writable | undefined
  readonly stdout: Readable | undefined
  readonly collected: { stdout?: OutputReader; stderr?: OutputReader }
  readonly done: Promise<{ exitCode: number | null; signal: string | null }>
  terminate(): void
  waitForExit(signal?: AbortSignal): Promise<boolean>
}

export interface OutputReader {
  readFrom(offset: number): { text: string }
}

export interface Subprocess {
  resolveExecutable(command: string, env?: Record<string, string>, signal?: AbortSignal): Promise<string>
  spawn(spec: {
    argv: readonly string[]
    cwd: string
    graceMs: number
    stdio: { stdin: 'ignore' | 'pipe'; stdout: 'pipe' | { maxBytes: number }; stderr: { maxBytes: number } }
    env?: Record<string, string>
    signal?: AbortSignal
  }): SubprocessHandle
}

export interface Context {
  readonly llm: { registerAdapter(providers: string[], adapter: object): (() => void) & { replace(providers: string[]): void } }
  readonly subprocess: Subprocess
  readonly events: { dispatch(mode: string, args: unknown[]): unknown[] }
  readonly logger: Record<'error' | 'warn' | 'info' | 'debug', (message: string) => void>
  inject(services: string[], callback: (ctx: Context) => () => void): unknown
  get(service: 'attachments'): Attachments | undefined
  get(service: 'approval'): Approval | undefined
  on(event: string, listener: (...args: any[]) => unknown, options?: { prepend?: boolean }): () => void
}
