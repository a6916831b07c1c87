//! Other memory servers over MCP, with the same texts as Lukasa's stores.
//!
//! A server that is not installed has a row that says so.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::mcp::time_call;
use super::store::{self, SIZES, StoreSize};
use super::{Door, DoorTimes, Side};
use crate::args::{Args, BenchConfig};
use crate::baseline;
use crate::report::ReportLine;
use crate::stdio::McpClient;

/// The conditions under which the other servers run, for the section.
pub(super) const METHOD: &str = "server-memory reads its one file for each call and writes the whole of it for each change. It synchronizes \
     nothing, locks nothing and keeps no history. Its search returns the whole text of all matches. basic-memory \
     searches by words, with its search by meaning switched off. It is measured up to 1,000 memories, because it takes \
     each memory with a call of its own.";

/// Reads of each kind in a pass.
const READS: usize = 10;
/// Writes in a pass.
const WRITES: usize = 5;
const SERVER_MEMORY_PROGRAM: &str = "@modelcontextprotocol/server-memory/dist/index.js";

/// A name and a text.
type Note = (String, String);

/// The calls of a server.
struct PeerProtocol {
    write: (Door, &'static str),
    write_arguments: fn(&[Note]) -> Value,
    /// The most notes that one call writes.
    notes_a_call: usize,
    search: (Door, &'static str),
    read: (Door, &'static str),
    read_arguments: fn(&str) -> Value,
    delete: &'static str,
    delete_arguments: fn(&str) -> Value,
    peak: Door,
    memories_max: usize,
}

const SERVER_MEMORY: PeerProtocol = PeerProtocol {
    write: (Door::to("server-memory: `create_entities`"), "create_entities"),
    write_arguments: |notes| {
        let entity = |(name, text): &Note| json!({ "name": name, "entityType": "note", "observations": [text] });
        json!({ "entities": notes.iter().map(entity).collect::<Vec<_>>() })
    },
    notes_a_call: 250,
    search: (Door::to("server-memory: `search_nodes`"), "search_nodes"),
    read: (Door::to("server-memory: `open_nodes`"), "open_nodes"),
    read_arguments: |name| json!({ "names": [name] }),
    delete: "delete_entities",
    delete_arguments: |name| json!({ "entityNames": [name] }),
    peak: Door::to("peak memory of server-memory"),
    memories_max: usize::MAX,
};

const BASIC_MEMORY: PeerProtocol = PeerProtocol {
    write: (Door::to("basic-memory: `write_note`"), "write_note"),
    write_arguments: |notes| {
        let (name, text) = &notes[0];
        json!({ "title": name, "content": text, "directory": "notes" })
    },
    notes_a_call: 1,
    search: (Door::to("basic-memory: `search_notes`"), "search_notes"),
    read: (Door::to("basic-memory: `read_note`"), "read_note"),
    read_arguments: |name| json!({ "identifier": format!("notes/{name}") }),
    delete: "delete_note",
    delete_arguments: |name| json!({ "identifier": format!("notes/{name}") }),
    peak: Door::to("peak memory of basic-memory"),
    memories_max: 1_000,
};

/// Starts the installed servers with stores of the sizes that count memories. Returns rows for the others.
pub(super) fn start(
    bench: &BenchConfig,
    args: &Args,
    sides: &mut Vec<Box<dyn Side + '_>>,
) -> anyhow::Result<Vec<ReportLine>> {
    let mut missing = Vec::new();
    let installed = args.node.as_deref().zip(args.node_modules.as_ref());
    let installed = installed.map(|(node, modules)| (node, modules.join(SERVER_MEMORY_PROGRAM)));
    match installed.filter(|(_, program)| program.is_file()) {
        None => missing.push(ReportLine::missing("server-memory", "not installed")),
        Some((node, program)) => start_peer(bench, &SERVER_MEMORY, sides, |folder| {
            let mut command = Command::new(node);
            command.arg(&program).env("MEMORY_FILE_PATH", folder.join("memory.jsonl"));
            command
        })?,
    }
    match &args.basic_memory {
        None => missing.push(ReportLine::missing("basic-memory", "not installed")),
        Some(program) => start_peer(bench, &BASIC_MEMORY, sides, |folder| {
            let mut command = Command::new(program);
            command.arg("mcp").env("HOME", folder).env("BASIC_MEMORY_HOME", folder.join("notes"));
            command.env("BASIC_MEMORY_CONFIG_DIR", folder.join("config"));
            // Its search by meaning downloads a model.
            command.env("BASIC_MEMORY_SEMANTIC_SEARCH_ENABLED", "false");
            command
        })?,
    }
    Ok(missing)
}

fn start_peer(
    bench: &BenchConfig,
    peer: &'static PeerProtocol,
    sides: &mut Vec<Box<dyn Side + '_>>,
    command: impl Fn(&Path) -> Command,
) -> anyhow::Result<()> {
    let holds = |size: &StoreSize| size.counts_memories() && size.memories <= peer.memories_max;
    for size in SIZES.into_iter().filter(holds) {
        let folder = bench.dir.join(format!("{} {}", peer.peak.name, size.label));
        std::fs::create_dir_all(&folder)?;
        let mut client = McpClient::start(command(&folder).current_dir(&folder))?;
        client.initialize()?;
        let named = |(number, memory): (usize, store::MemoryText)| (name(number), memory.text);
        let notes: Vec<Note> = store::texts(size).into_iter().enumerate().map(named).collect();
        for notes in notes.chunks(peer.notes_a_call) {
            client.call_now(peer.write.1, &(peer.write_arguments)(notes))?;
        }
        sides.push(Box::new(PeerSide { peer, size, folder, client }));
    }
    Ok(())
}

/// A server with one store.
struct PeerSide {
    peer: &'static PeerProtocol,
    size: StoreSize,
    folder: std::path::PathBuf,
    client: McpClient,
}

impl Side for PeerSide {
    fn size(&self) -> Option<StoreSize> {
        Some(self.size)
    }

    fn pass(&mut self, times: &mut DoorTimes) -> anyhow::Result<()> {
        let Self { peer, client, .. } = self;
        for index in 0..READS {
            let number = index * self.size.memories / READS;
            let query = json!({ "query": store::code(number) });
            let matches = time_call(client, times, peer.search.0, (peer.search.1, &query))?;
            let is_match = matches.to_string().contains(&name(number));
            anyhow::ensure!(is_match, "{} was answered with {matches}", peer.search.0.name);
            let arguments = (peer.read_arguments)(&name(number));
            time_call(client, times, peer.read.0, (peer.read.1, &arguments))?;
        }
        let new: Vec<Note> =
            (0..WRITES).map(|index| (format!("new{index}"), store::new_text(index))).collect();
        for note in &new {
            let arguments = (peer.write_arguments)(std::slice::from_ref(note));
            time_call(client, times, peer.write.0, (peer.write.1, &arguments))?;
        }
        for (name, _) in &new {
            client.call_now(peer.delete, &(peer.delete_arguments)(name))?;
        }
        baseline::flush(&self.folder)
    }

    fn server(&self) -> Option<(Door, u32)> {
        Some((self.peer.peak, self.client.pid()))
    }
}

fn name(number: usize) -> String {
    format!("note{number}")
}
