// Written by `lukasa install opencode`, which writes it anew; `lukasa uninstall opencode` removes it.
//
// When a session begins, its model is shown the index of memories and those that are pinned, and beside a prompt what fits
// it. The text becomes a part of the person's message: there it stays in the conversation, and counts as data and not as an
// instruction. What is not there at the prompt is handed over behind the next tool. Whatever goes wrong, a turn goes on.

import { spawn } from "node:child_process"

const PROGRAM = "lukasa"

// In milliseconds. A hook gives up after a second by itself; one that does not is ended.
const WAIT = 2_000

// What begins the text that a session begins with.
const INDEX = "<memory_index>"

// Tells Lukasa of an event, and returns its text for the model; `undefined` if it did not answer.
function hook(event, told) {
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
      child.stdin.end(JSON.stringify(told))
    } catch {
      end(undefined)
    }
  })
}

// What was told already: this file may be there for the person and for the project, and is loaded twice then.
const told = (globalThis[Symbol.for("lukasa.told")] ??= new WeakSet())
const isNew = (thing) => !told.has(thing) && told.add(thing)

// A handler that never fails: opencode would fail the turn with it.
const safe = (handler) => async (input, output) => {
  try {
    await handler(input, output)
  } catch {}
}

export const Lukasa = async ({ client, directory }) => {
  // What is known of sessions: whether one has begun, by which message, and whether it is a subagent's.
  const sessions = new Map()

  const tell = (event, session, more) => hook(event, { session_id: session, cwd: directory, ...more })

  // Returns what is known of a session; asks opencode when this process sees it first.
  const known = async (id) => {
    let session = sessions.get(id)
    if (!session) {
      const [found, said] = await Promise.all([
        client?.session?.get({ path: { id } }).catch(() => {}),
        client?.session?.messages({ path: { id } }).catch(() => {}),
      ])
      const parts = (said?.data ?? []).flatMap((message) => message.parts ?? [])
      const hasIndex = parts.some((part) => part.synthetic && part.text?.startsWith(INDEX))
      session = sessions.get(id) ?? { isChild: !!found?.data?.parentID, hasIndex, source: "resume" }
      sessions.set(id, session)
    }
    return session
  }

  // Returns what a session begins with, once. One that an earlier run began is only told what changed since.
  const begin = async (id, session, message) => {
    if (session.begun) return ""
    const text = await tell("session-start", id, { source: session.source })
    if (text === undefined) return ""
    Object.assign(session, { begun: true, by: message })
    // A fork has the messages of another session, and with them the index.
    return session.hasIndex && text.startsWith(INDEX) ? "" : text
  }

  const joined = (texts) => texts.filter(Boolean).join("\n")

  return {
    event: safe(async ({ event }) => {
      const { type, properties } = event
      const id = properties?.sessionID ?? properties?.info?.id
      const session = sessions.get(id)
      if (type === "session.created" && properties.info.parentID) sessions.set(id, { isChild: true })
      if (!session || session.isChild) return
      // The message that brought the index is gone.
      const isLost = type === "message.removed" && session.by && session.by === properties.messageID
      if (type === "session.compacted" || isLost) {
        Object.assign(session, { begun: false, hasIndex: false, source: "compact" })
      }
      if (type === "session.idle" && isNew(event)) await tell("stop", id)
      if (type === "session.deleted" && isNew(event)) await tell("session-end", id)
    }),

    "chat.message": safe(async (_, { message, parts }) => {
      const id = message.sessionID
      const session = await known(id)
      if (session.isChild || !isNew(message)) return
      const said = parts.filter((part) => part.type === "text" && !part.synthetic)
      const prompt = said.map((part) => part.text).join("\n")
      const block = await begin(id, session, message.id)
      const text = joined([block, prompt && (await tell("user-prompt", id, { prompt }))])
      if (!text) return
      // Parts are sorted by their ids.
      const part = `${parts.at(-1)?.id ?? "prt_"}q`
      parts.push({ id: part, sessionID: id, messageID: message.id, type: "text", synthetic: true, text })
    }),

    "tool.execute.after": safe(async ({ sessionID }, output) => {
      const session = await known(sessionID)
      if (!output || session.isChild || !isNew(output)) return
      const text = joined([await begin(sessionID, session), await tell("post-tool-use", sessionID)])
      if (!text) return
      if (typeof output.output === "string") output.output += `\n${text}`
      else if (Array.isArray(output.content)) output.content.push({ type: "text", text })
    }),

    "experimental.session.compacting": safe(async ({ sessionID }, output) => {
      const session = await known(sessionID)
      if (!session.isChild && isNew(output)) await tell("pre-compact", sessionID)
    }),
  }
}
