// Written by `python docs/generate.py` from manifest.json; do not edit here.
import z from '@deepseek-ai/schemastery'

/** What names the plugin. */
export const manifest = Object.freeze({"provider": "antigravity-acp", "defaultModel": "server-default", "displayName": "Google Antigravity over ACP", "version": "0.1.0"})

/** The host's schema of all settings; volatile ones may change while the plugin runs. */
export const Config = z.object({
  python: z.string().default("").description("Python. Path or name of a Python 3.11 or newer that has `dsh-antigravity-acp`, or of an `antigravity-acp` program. Empty: one on PATH if its version matches, else a private environment that is made on first use."),
  engine: z.union([z.const("auto"), z.const("official"), z.const("embedded")]).default("auto").description("Engine. Which agent answers. `auto` takes the official server if it is here or can be installed, else the embedded engine if it has a model back end. `command` wins over it.").volatile(),
  autoInstall: z.boolean().default(true).description("Install by itself. When the official server is wanted and not on this machine, download it once, on first use: the pinned release from Google's own host, checked against a pinned hash.").volatile(),
  command: z.string().default("").description("Agent command. Path or name of an ACP v1 agent to start instead. A command that cannot be started is an error, never replaced by another agent.").volatile(),
  args: z.array(z.string()).default([]).description("Agent arguments. Arguments for `command`; without a command they are added to those of the chosen engine.").volatile(),
  env: z.dict(z.string()).default({}).description("Agent environment. Environment variables for the agent, added to the few that it inherits. Values are never logged."),
  authMethod: z.string().default("").description("Sign-in method. The ACP authentication method to use when the agent asks for a sign-in; empty takes the agent profile's own.").volatile(),
  nativeToolPolicy: z.union([z.const("end"), z.const("reject")]).default("end").description("Native tools of the agent. What a request of the agent to use a tool of its own does: `end` ends the turn with an error, `reject` refuses that one request and goes on.").volatile(),
  timeoutMs: z.number().step(1).min(1).default(600000).description("Model segment limit. Milliseconds that one stretch of model work may take; the clock stops while the host runs tools.").volatile(),
  toolTimeoutMs: z.number().step(1).min(1).default(900000).description("Tool wait limit. Milliseconds that parked tool calls wait for the host's results.").volatile(),
  requestTimeoutMs: z.number().step(1).min(1).default(30000).description("Request limit. Milliseconds for one request to the agent other than a prompt.").volatile(),
  startupTimeoutMs: z.number().step(1).min(1).default(90000).description("Start-up limit. Milliseconds from starting the agent to its answer to `initialize`. Cold starts of most of a minute happen.").volatile(),
  authTimeoutMs: z.number().step(1).min(1).default(600000).description("Sign-in limit. Milliseconds that a sign-in may take.").volatile(),
  cancelGraceMs: z.number().step(1).min(0).default(1500).description("Cancel grace. Milliseconds that the agent has to end a cancelled prompt before its process is ended.").volatile(),
  disposeGraceMs: z.number().step(1).min(0).default(3000).description("Exit grace. Milliseconds that the agent has to exit after its input is closed, and again after SIGTERM.").volatile(),
  maxActiveToolSessions: z.number().step(1).min(1).max(256).default(16).description("Unfinished tool turns. How many tool turns may be unfinished at the same time; one more fails at once.").volatile(),
  idleProcessTimeoutMs: z.number().step(1).min(0).default(300000).description("Idle process limit. Milliseconds that a healthy agent process waits for its next turn before it is ended. At most two wait at the same time.").volatile(),
  maxSessionsPerProcess: z.number().step(1).min(1).default(50).description("Sessions of a process. How many sessions one agent process may open before it is replaced.").volatile(),
  prepareSessions: z.boolean().default(true).description("Prepared sessions. After a turn with tools, open the next session ahead of time on an idle process, so that the next request with the same tools and model starts in milliseconds.").volatile(),
  contactTimeoutMs: z.number().step(1).min(1).default(60000).description("First sign limit. Milliseconds in which an agent that was lent tools must ask for them or say something; otherwise the turn ends.").volatile(),
  silenceTimeoutMs: z.number().step(1).min(1).default(240000).description("Silence limit. Milliseconds without any sign of the agent after it has begun to answer; then the turn ends.").volatile(),
  control: z.boolean().default(false).description("Control of tool calls. Ask this plugin's rules before every tool call of the host. It can refuse a call or ask for an approval, and never allows what the host itself would ask about.").volatile(),
  permissions: z.object({ allow: z.array(z.string()), ask: z.array(z.string()), deny: z.array(z.string()) }).default({}).description("Permission rules. Which tool calls the control allows, asks about and denies: rules `action(target)` as in `command(git status)` or `write_file(/srv/data/)`, and plain tool names, where `*` stands for every name. Deny wins over ask, ask over allow. The rules of `~/.gemini` are in force beside them.").volatile(),
  toolPermission: z.union([z.const("request-review"), z.const("proceed-in-sandbox"), z.const("strict"), z.const("always-proceed")]).default("request-review").description("Calls that no rule names. `request-review` asks about them, `strict` asks about writes in the workspace, too, `proceed-in-sandbox` lets commands run that the terminal sandbox confines (without `enableTerminalSandbox` it does what `request-review` does), `always-proceed` asks about nothing. Denials, rules that ask and the floor hold in each.").volatile(),
  enableTerminalSandbox: z.boolean().default(false).description("Terminal sandbox. Run commands of this project's own Python host under bubblewrap or sandbox-exec: the workspace and granted paths, no network unless granted. Where no sandbox can be had, the command does not run.").volatile(),
  outputPolicy: z.union([z.const("off"), z.const("audit"), z.const("redact"), z.const("block")]).default("audit").description("Secrets in results. What becomes of secrets that a tool's result holds, in this project's own Python host: `audit` records their kind, `redact` replaces them before the model sees them, `block` withholds the result. The kinds that are known are listed in docs/control.md.").volatile(),
  dangerouslySkipPermissions: z.boolean().default(false).description("Escape hatch. Allow what would be asked about. Denials, the floor, the hooks of plugins and the ledger stay, and each row says that it was on.").volatile(),
  ledger: z.boolean().default(true).description("Ledger. Record every decision before the call runs, and how the call ended. A call whose record cannot be written is asked about, and denied where nobody can be asked.").volatile(),
  ledgerArguments: z.boolean().default(false).description("Arguments in the ledger. Keep the arguments of calls in the ledger as well, with the secrets taken out; otherwise a row has only their keyed digest. A row names the rule that decided all the same, and a rule that is a whole line is that line, with its secrets taken out.").volatile(),
})
