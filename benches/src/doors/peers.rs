//! Other memory servers over MCP, with the same texts as Lukasa's stores.
//!
//! A server that is not installed has a row that says so.

use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::mcp::time_call;
use super::store::{self, MemoryText, SIZES, StoreSize};
use super::{Door, DoorTimes, Side};
use crate::args::{Args, BenchConfig};
use crate::baseline;
use crate::report::ReportLine;
use crate::stdio::McpClient;

/// What the other servers do not do, for the conditions of the section.
pub(super) const METHOD: &str = "server-memory reads its one file for each call and writes the whole of it for each change. It synchronizes \
     nothing, locks nothing and keeps no history. Its search returns the whole text of all matches.";

/// Memories that one call sends to a server while it is filled.
const FILLED_AT_ONCE: usize = 250;
/// Reads of each kind in a pass.
const READS: usize = 10;
/// Writes in a pass.
const WRITES: usize = 5;

const SERVER_MEMORY: &str = "@modelcontextprotocol/server-memory/dist/index.js";
const CREATE: Door = Door::to("server-memory: `create_entities`");
const SEARCH: Door = Door::to("server-memory: `search_nodes`");
const OPEN: Door = Door::to("server-memory: `open_nodes`");
const PEAK: Door = Door::to("peak memory of server-memory");

/// Starts the installed servers with stores of those sizes that count memories. Returns rows for the others.
pub(super) fn start(
    bench: &BenchConfig,
    args: &Args,
    sides: &mut Vec<Box<dyn Side + '_>>,
) -> anyhow::Result<Vec<ReportLine>> {
    let installed = args.node.as_deref().zip(args.node_modules.as_ref());
    let installed = installed.map(|(node, modules)| (node, modules.join(SERVER_MEMORY)));
    let Some((node, program)) = installed.filter(|(_, program)| program.is_file()) else {
        return Ok(vec![ReportLine::missing("server-memory", "not installed")]);
    };
    for size in SIZES.into_iter().filter(StoreSize::counts_memories) {
        let file = bench.dir.join(format!("server-memory, {}.jsonl", size.label));
        let side = ServerMemorySide::start(node, &program, &file, size)?;
        sides.push(Box::new(side));
    }
    Ok(Vec::new())
}

/// npm's server-memory with one store.
struct ServerMemorySide {
    size: StoreSize,
    folder: std::path::PathBuf,
    client: McpClient,
}

impl ServerMemorySide {
    fn start(node: &Path, program: &Path, file: &Path, size: StoreSize) -> anyhow::Result<Self> {
        let mut client =
            McpClient::start(Command::new(node).arg(program).env("MEMORY_FILE_PATH", file))?;
        client.initialize()?;
        let texts: Vec<_> = store::texts(size).into_iter().enumerate().collect();
        for chunk in texts.chunks(FILLED_AT_ONCE) {
            let entities: Vec<Value> =
                chunk.iter().map(|(number, memory)| entity(&name(*number), memory)).collect();
            client.call_now("create_entities", &json!({ "entities": entities }))?;
        }
        let folder = file.parent().unwrap_or(file).to_owned();
        Ok(Self { size, folder, client })
    }
}

impl Side for ServerMemorySide {
    fn label(&self) -> &str {
        self.size.label
    }

    fn pass(&mut self, times: &mut DoorTimes) -> anyhow::Result<()> {
        for index in 0..READS {
            let number = index * self.size.memories / READS;
            let query = json!({ "query": store::code(number) });
            time_call(&mut self.client, times, SEARCH, ("search_nodes", &query))?;
            let names = json!({ "names": [name(number)] });
            time_call(&mut self.client, times, OPEN, ("open_nodes", &names))?;
        }
        let new = |index: usize| format!("new{index}");
        for index in 0..WRITES {
            let memory = MemoryText { topic: String::new(), text: store::new_text(index) };
            let entities = json!({ "entities": [entity(&new(index), &memory)] });
            time_call(&mut self.client, times, CREATE, ("create_entities", &entities))?;
        }
        let names: Vec<String> = (0..WRITES).map(new).collect();
        self.client.call_now("delete_entities", &json!({ "entityNames": names }))?;
        baseline::flush(&self.folder)
    }

    fn server(&self) -> Option<(Door, u32)> {
        Some((PEAK, self.client.pid()))
    }
}

fn name(number: usize) -> String {
    format!("note{number}")
}

fn entity(name: &str, memory: &MemoryText) -> Value {
    json!({ "name": name, "entityType": "note", "observations": [memory.text] })
}
