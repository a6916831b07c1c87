// Tells the plugin for opencode what opencode tells it, and prints what it adds for the model.
// Arguments: the plugin, the project's folder.

const [file, directory] = process.argv.slice(2)
const { Quipu } = await import(file)
const plugin = await Quipu({ directory })

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

// Another process goes on with a session.
const { Quipu: Later } = await import(`${file}?later`)
Object.assign(plugin, await Later({ directory }))
await say("ses_b", "Hello.")
Object.assign(plugin, await Later({ directory }))
seen.resumed = await say("ses_b", "Hello again.")
console.log(JSON.stringify(seen))
