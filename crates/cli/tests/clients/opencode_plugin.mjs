// Calls the plugin for opencode as opencode does, and prints the text that it adds for the model.
// Arguments: the plugin, the project's folder.

const [file, directory] = process.argv.slice(2)
const { Lukasa } = await import(file)
const plugin = await Lukasa({ directory })

const say = async (session, text) => {
  const said = { id: "prt_1", sessionID: session, messageID: "msg_1", type: "text", text }
  const output = { message: { id: "msg_1", sessionID: session }, parts: [said] }
  await plugin["chat.message"]({ sessionID: session }, output)
  if (output.parts.some((part) => part !== said && !(part.synthetic && part.id > said.id))) throw output
  return output.parts.slice(1).map((part) => part.text).join("\n")
}

const tool = async (session, output) => {
  await plugin["tool.execute.after"]({ tool: "bash", sessionID: session, callID: "1" }, output)
  return output
}

const tell = (type, properties) => plugin.event({ event: { type, properties } })

const seen = {}
seen.first = await say("ses_a", "Which tea do I like?")
seen.again = await say("ses_a", "And when?")
seen.tool = await tool("ses_a", { title: "", output: "done", metadata: {} })
await plugin["experimental.session.compacting"]({ sessionID: "ses_a" }, { context: [] })
await tell("session.compacted", { sessionID: "ses_a" })
seen.shortened = await tool("ses_a", { content: [{ type: "text", text: "done" }] })
await tell("session.idle", { sessionID: "ses_a" })
await tell("session.created", { info: { id: "ses_child", parentID: "ses_a" } })
seen.child = await say("ses_child", "Which tea do I like?")
await tell("session.deleted", { info: { id: "ses_a" } })

// Other processes go on with a session, and with a fork of it, whose messages were copied.
const later = async (run, messages, session) => {
  const { Lukasa: Later } = await import(`${file}?${run}`)
  const get = async () => ({ data: { id: session, parentID: session === "ses_old_child" ? "ses_b" : undefined } })
  const client = { session: { get, messages: async () => ({ data: messages }) } }
  Object.assign(plugin, await Later({ client, directory }))
}
await later("first", [], "ses_b")
const block = await say("ses_b", "Hello.")
const kept = [{ parts: [{ type: "text", synthetic: true, text: block }] }]
await later("again", kept, "ses_b")
seen.resumed = await say("ses_b", "Hello again.")
await later("fork", kept, "ses_fork")
seen.fork = await say("ses_fork", "Hello once more.")
await later("child", [], "ses_old_child")
seen.old_child = await say("ses_old_child", "Which tea do I like?")
await later("undone", [], "ses_c")
await say("ses_c", "One.")
await tell("message.removed", { sessionID: "ses_c", messageID: "msg_of_another" })
seen.kept = await say("ses_c", "Two.")
await tell("message.removed", { sessionID: "ses_c", messageID: "msg_1" })
seen.undone = await say("ses_c", "Three.")

// The plugin is there twice: for the person and for the project.
const { Lukasa: Second } = await import(`${file}?second`)
const twin = await Second({ directory })
const message = { id: "msg_9", sessionID: "ses_d" }
const parts = [{ id: "prt_9", type: "text", text: "Hello." }]
await plugin["chat.message"]({}, { message, parts })
await twin["chat.message"]({}, { message, parts })
seen.parts = parts.length
console.log(JSON.stringify(seen))
