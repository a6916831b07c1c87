// Written by `lukasa install opencode`, which overwrites it; `lukasa uninstall opencode` removes it.
//
// At the start of a session, the model gets the facts, or a part of them and an index; with a prompt it gets the memories
// that fit. The text becomes a part of the user's message: there it stays in the conversation, and counts as data
// and not as an instruction. Text that is late for the prompt is added to the next tool result. Errors never fail a turn.

import { spawn } from "node:child_process"

const PROGRAM = "lukasa"

// In milliseconds. A hook gives up after a second by itself; otherwise it is killed.
const WAIT = 2_000

// The start of a session's opening text.
const OPENING = "<long_term_memory>"

// Reports an event to Lukasa, and returns the text for the model; `undefined` if there is no answer.
function hook(event, input) {
  return new Promise((resolve) => {
    let child
    const end = (text) => {
      clearTimeout(timer)
      resolve(text)
      child?.stdout?.destroy()
    }
    const timer = setTimeout(() => {
      child?.kill("SIGKILL")
      end(undefined)
    }, WAIT)
    try {
      child = spawn(PROGRAM, ["hook", event, "--agent", "opencode"], { stdio: ["pipe", "pipe", "ignore"] })
      let answer = ""
      child.on("error", () => end(undefined))
      child.stdin.on("error", () => {})
      child.stdout.setEncoding("utf8")
      child.stdout.on("data", (text) => (answer += text))
      child.on("close", () => {
        try {
          const text = answer ? JSON.parse(answer).additionalContext : ""
          end(typeof text === "string" ? text : undefined)
        } catch {
          end(undefined)
        }
      })
      child.stdin.end(JSON.stringify(input))
    } catch {
      end(undefined)
    }
  })
}

// Objects that were reported already: if this file is installed for the user and for the project, it is loaded twice.
const reported = (globalThis[Symbol.for("lukasa.told")] ??= new WeakSet())
const isNew = (object) => !reported.has(object) && reported.add(object)

// Wraps a handler so that it never throws: opencode would fail the turn.
const safe = (handler) => async (input, output) => {
  try {
    await handler(input, output)
  } catch {}
}

export const Lukasa = async ({ client, directory }) => {
  // The state of sessions: whether the opening text was given, with which message, and whether it is a subagent's session.
  const sessions = new Map()

  const report = (event, session, more) => hook(event, { session_id: session, cwd: directory, ...more })

  // Returns the state of a session; asks opencode if it is new to this process.
  const stateOf = async (id) => {
    let session = sessions.get(id)
    if (!session) {
      const [found, messages] = await Promise.all([
        client?.session?.get({ path: { id } }).catch(() => {}),
        client?.session?.messages({ path: { id } }).catch(() => {}),
      ])
      const parts = (messages?.data ?? []).flatMap((message) => message.parts ?? [])
      const hasOpening = parts.some((part) => part.synthetic && part.text?.startsWith(OPENING))
      session = sessions.get(id) ?? { isChild: !!found?.data?.parentID, hasOpening, source: "resume" }
      sessions.set(id, session)
    }
    return session
  }

  // Returns the opening text of a session, once. A session of an earlier run only gets the changes since.
  const begin = async (id, session, message) => {
    if (session.begun) return ""
    const text = await report("session-start", id, { source: session.source })
    if (text === undefined) return ""
    Object.assign(session, { begun: true, by: message })
    // A fork has the messages of another session, and with them the opening text.
    return session.hasOpening && text.startsWith(OPENING) ? "" : text
  }

  const joined = (texts) => texts.filter(Boolean).join("\n")

  return {
    event: safe(async ({ event }) => {
      const { type, properties } = event
      const id = properties?.sessionID ?? properties?.info?.id
      const session = sessions.get(id)
      if (type === "session.created" && properties.info.parentID) sessions.set(id, { isChild: true })
      if (!session || session.isChild) return
      // The message that held the opening text was removed.
      const isLost = type === "message.removed" && session.by && session.by === properties.messageID
      if (type === "session.compacted" || isLost) {
        Object.assign(session, { begun: false, hasOpening: false, source: "compact" })
      }
      if (type === "session.idle" && isNew(event)) await report("stop", id)
      if (type === "session.deleted" && isNew(event)) await report("session-end", id)
    }),

    "chat.message": safe(async (_, { message, parts }) => {
      const id = message.sessionID
      const session = await stateOf(id)
      if (session.isChild || !isNew(message)) return
      const typed = parts.filter((part) => part.type === "text" && !part.synthetic)
      const prompt = typed.map((part) => part.text).join("\n")
      const block = await begin(id, session, message.id)
      const text = joined([block, prompt && (await report("user-prompt", id, { prompt }))])
      if (!text) return
      // Parts are sorted by their ids.
      const part = `${parts.at(-1)?.id ?? "prt_"}q`
      parts.push({ id: part, sessionID: id, messageID: message.id, type: "text", synthetic: true, text })
    }),

    "tool.execute.after": safe(async ({ tool, args, sessionID }, output) => {
      const session = await stateOf(sessionID)
      if (!output || session.isChild || !isNew(output)) return
      const text = joined([await begin(sessionID, session), await report("post-tool-use", sessionID, { tool_name: tool, tool_input: args })])
      if (!text) return
      if (typeof output.output === "string") output.output += `\n${text}`
      else if (Array.isArray(output.content)) output.content.push({ type: "text", text })
    }),

    "experimental.session.compacting": safe(async ({ sessionID }, output) => {
      const session = await stateOf(sessionID)
      if (!session.isChild && isNew(output)) await report("pre-compact", sessionID)
    }),
  }
}
