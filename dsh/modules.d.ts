// The host's own packages, which it resolves for its plugins; see host.d.ts.
declare module '@deepseek-ai/dsh-llm' {
  export class LlmAdapter {}
  export function projectOffloadedImages(messages: any[], placeholder: (image: any) => string): any[]
  export function offloadedImageText(image: any): string
}

declare module '@deepseek-ai/schemastery' {
  interface Schema {
    default(value: unknown): Schema
    description(text: string): Schema
    min(value: number): Schema
    max(value: number): Schema
    step(value: number): Schema
    volatile(): Schema
  }
  const z: {
    string(): Schema
    boolean(): Schema
    number(): Schema
    const(value: string): Schema
    union(list: Schema[]): Schema
    array(inner: Schema): Schema
    dict(inner: Schema): Schema
    object(fields: Record<string, Schema>): Schema
  }
  export default z
}
