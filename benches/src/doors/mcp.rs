//! The tools of `lukasa mcp`, over standard streams, and bare writes of the same texts.

use std::path::{Path, PathBuf};

use serde_json::{Value, json};

use super::store::{self, Store, StoreSize};
use super::{Door, DoorTimes, Side};
use crate::baseline::{self, BareFiles, wait_for_quiet};
use crate::report::ReportTarget;
use crate::stdio::McpClient;

/// Writes of each kind in a pass.
const WRITES: usize = 10;
/// Starts of a server in a pass.
const STARTS: usize = 3;

const BARE_NEW: Door = Door::to("bare write of a new file");
const BARE_OVER: Door = Door::to("bare write over a file");
const START: Door = Door::to("start of `lukasa mcp` to its first answer").p50_max(20);
const START_TO_RECALL: Door = Door::to("start of `lukasa mcp` to its first recall");
const RECALL: Door = Door::to("recall over MCP").p50_max(1);
const VIEW: Door = Door::to("`view` over MCP");
const CREATE: Door = Door::to("`create` over MCP").growth_max(1.2);
const STR_REPLACE: Door = Door::to("`str_replace` over MCP").growth_max(1.2);
const PEAK: Door = Door {
    name: "peak memory of `lukasa mcp`",
    target: Some(ReportTarget::Bytes(super::PEAK_BYTES_MAX)),
};

/// A server for one store.
pub(super) struct McpSide<'a> {
    store: &'a Store,
    client: McpClient,
    turn: usize,
}

impl<'a> McpSide<'a> {
    pub(super) fn start(store: &'a Store) -> anyhow::Result<Self> {
        Ok(Self { store, client: start(store)?, turn: 0 })
    }
}

impl Side for McpSide<'_> {
    fn size(&self) -> Option<StoreSize> {
        Some(self.store.size)
    }

    fn pass(&mut self, times: &mut DoorTimes) -> anyhow::Result<()> {
        for prompt in self.store.prompts.iter().take(STARTS) {
            drop(times.time(START, || start(self.store))?);
            let recall = json!({ "prompt": prompt });
            drop(times.time(START_TO_RECALL, || {
                let mut client = start(self.store)?;
                client.call_now("recall", &recall)?;
                anyhow::Ok(client)
            })?);
        }
        for prompt in &self.store.prompts {
            let arguments = json!({ "prompt": prompt });
            let recalled = time_call(&mut self.client, times, RECALL, ("recall", &arguments))?;
            let text = recalled["content"][0]["text"].as_str().unwrap_or_default();
            anyhow::ensure!(text.contains("/memories/"), "nothing was recalled for {prompt}");
        }
        let call = &mut self.client;
        for &number in &self.store.asked {
            let arguments = json!({ "command": "view", "path": store::virtual_path(number) });
            time_call(call, times, VIEW, ("memory", &arguments))?;
        }
        for number in 0..WRITES {
            let arguments = json!({
                "command": "create", "path": new_path(number),
                "file_text": store::new_text(number),
            });
            time_call(call, times, CREATE, ("memory", &arguments))?;
        }
        for &number in self.store.asked.iter().take(WRITES) {
            let arguments = json!({
                "command": "str_replace", "path": store::virtual_path(number),
                "old_str": store::code_entry(number, self.turn),
                "new_str": store::code_entry(number, self.turn + 1),
            });
            time_call(call, times, STR_REPLACE, ("memory", &arguments))?;
        }
        self.turn += 1;
        for number in 0..WRITES {
            call.call_now("memory", &json!({ "command": "delete", "path": new_path(number) }))?;
        }
        wait_for_quiet(&self.store.home)
    }

    fn server(&self) -> Option<(Door, u32)> {
        Some((PEAK, self.client.pid()))
    }
}

/// Durable writes of files without Lukasa.
pub(super) struct BareWrites {
    folder: PathBuf,
    files: BareFiles,
    written: usize,
}

impl BareWrites {
    pub(super) fn create(folder: &Path) -> anyhow::Result<Self> {
        let files = BareFiles::create(folder, 1)?;
        Ok(Self { folder: folder.to_owned(), files, written: 0 })
    }
}

impl Side for BareWrites {
    fn size(&self) -> Option<StoreSize> {
        None
    }

    fn pass(&mut self, times: &mut DoorTimes) -> anyhow::Result<()> {
        let numbers = self.written..self.written + WRITES;
        self.written = numbers.end;
        for door in [BARE_NEW, BARE_OVER] {
            for number in numbers.clone() {
                let text = store::new_text(number);
                times.time(door, || self.files.write(number, &text))?;
            }
        }
        baseline::flush(&self.folder)
    }
}

fn start(store: &Store) -> anyhow::Result<McpClient> {
    let mut client = McpClient::start(&mut store.command(&["mcp"]))?;
    client.initialize()?;
    Ok(client)
}

fn new_path(number: usize) -> String {
    format!("/memories/global/new/note{number}.md")
}

/// Calls a tool and returns its result.
pub(super) fn time_call(
    client: &mut McpClient,
    times: &mut DoorTimes,
    door: Door,
    (tool, arguments): (&str, &Value),
) -> anyhow::Result<Value> {
    let request = client.call(tool, arguments);
    times.time(door, || client.exchange(&request))?;
    client.result(&request)
}
