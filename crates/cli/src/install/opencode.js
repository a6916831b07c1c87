// Written by `quipu install opencode`, which writes it anew; `quipu uninstall opencode` removes it.
//
// When a session begins, its model is shown the index of memories and those that are pinned, and beside a prompt what fits
// it. The text becomes a part of the person's message: there it stays in the conversation, and counts as data and not as an
// instruction. What is not there at the prompt is handed over behind the next tool.

import { spawn } from "node:child_process"

const PROGRAM = "quipu"

// In milliseconds; a hook gives up after a second by itself.
const WAIT = 5_000

// Tells Quipu of an event, and returns its text for the model. Whatever goes wrong, there is none.
function hook(event, told) {
  return new Promise((resolve) => {
    const child = spawn(PROGRAM, ["hook", event, "--agent", "opencode"], {
      stdio: ["pipe", "pipe", "ignore"],
      timeout: WAIT,
    })
    let answer = ""
    child.on("error", () => resolve(""))
    child.stdin.on("error", () => {})
    child.stdout.setEncoding("utf8")
    child.stdout.on("data", (text) => {
      answer += text
    })
    child.on("close", () => {
      try {
        resolve(JSON.parse(answer).additionalContext ?? "")
      } catch {
        resolve("")
      }
    })
    child.stdin.end(JSON.stringify(told))
  })
}

export const Quipu = async ({ directory }) => {
  // Sessions that have begun, sessions that lost what they began with, and those of subagents.
  const begun = new Set()
  const shortened = new Set()
  const children = new Set()

  const tell = (event, session, more) => hook(event, { session_id: session, cwd: directory, ...more })

  // Returns what a session begins with, once. One that an earlier run began is only told what changed since.
  const begin = (session) => {
    if (begun.has(session)) return ""
    begun.add(session)
    return tell("session-start", session, { source: shortened.delete(session) ? "compact" : "resume" })
  }

  const lost = (session) => {
    begun.delete(session)
    shortened.add(session)
  }

  return {
    event: async ({ event: { type, properties } }) => {
      const session = properties?.sessionID ?? properties?.info?.id
      if (type === "session.created" && properties.info.parentID) children.add(session)
      if (!session || children.has(session)) return
      if (type === "session.idle") await tell("stop", session)
      // Both may take the message away that brought the index.
      if (type === "session.compacted" || type === "message.removed") lost(session)
      if (type === "session.deleted") await tell("session-end", session)
    },

    "chat.message": async (_, { message, parts }) => {
      const session = message.sessionID
      if (children.has(session)) return
      const said = parts.filter((part) => part.type === "text" && !part.synthetic)
      const prompt = said.map((part) => part.text).join("\n")
      const texts = [await begin(session), prompt && (await tell("user-prompt", session, { prompt }))]
      const text = texts.filter(Boolean).join("\n")
      if (!text) return
      // Parts are sorted by their ids.
      const id = `${parts.at(-1)?.id ?? "prt_"}q`
      parts.push({ id, sessionID: session, messageID: message.id, type: "text", synthetic: true, text })
    },

    "tool.execute.after": async ({ sessionID }, output) => {
      if (children.has(sessionID)) return
      const texts = [await begin(sessionID), await tell("post-tool-use", sessionID)]
      const text = texts.filter(Boolean).join("\n")
      if (!text) return
      if (typeof output.output === "string") output.output += `\n${text}`
      else if (Array.isArray(output.content)) output.content.push({ type: "text", text })
    },

    "experimental.session.compacting": async ({ sessionID }) => {
      if (!children.has(sessionID)) await tell("pre-compact", sessionID)
    },
  }
}
