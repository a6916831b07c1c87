//! `quipu ls`: what there is.

use engine::{Listed, Listing, Memories};
use memory::clock::Timestamp;
use memory::command::view::human_size;
use serde_json::{Value, json};

use crate::args::Ls;
use crate::commands::listing;
use crate::compose::{App, now};
use crate::exit::{Failure, Status};
use crate::render::table::Column;
use crate::render::text::Text;
use crate::render::{
    FAINT, Look, MARK, STRONG, WARN, counted, mount_word, short, table, time, visible,
};

/// Lists memories.
pub(crate) async fn run(app: &App, args: &Ls) -> Result<Status, Failure> {
    let memories = app.memories();
    let path = args.path.as_deref().map(|path| app.path(path)).transpose()?;
    let listing = app.wait("listing", listing(&memories, path.as_ref())).await?;
    if app.output.json {
        app.output.value(&value(&memories, &listing))?;
        return Ok(Status::Done);
    }
    let look = app.output.look;
    let text = if args.tree {
        tree(&listing.memories, look)
    } else if look.terminal {
        columns(&listing.memories, now(), look)
    } else {
        listing.memories.iter().map(plain_line).collect()
    };
    app.output.text(&text)?;
    if listing.left_out > 0 {
        let more = counted(listing.left_out, "memory is", "memories are");
        app.output.warning(&format!("{more} not listed"));
    }
    if listing.memories.is_empty() {
        app.output.note("no memories here yet; `quipu create PATH` makes one");
    }
    Ok(Status::Done)
}

/// Returns a listing as programs read it.
fn value(memories: &Memories, listing: &Listing) -> Value {
    let unavailable: Vec<Value> = memories
        .mounts()
        .into_iter()
        .filter_map(|mount| {
            let reason = mount.unavailable?;
            Some(json!({ "scope": mount_word(mount.mount), "reason": reason }))
        })
        .collect();
    json!({
        "memories": listing.memories.iter().map(memory_value).collect::<Vec<_>>(),
        "left_out": listing.left_out,
        "unavailable": unavailable,
    })
}

/// Returns one memory of a listing as programs read it.
pub(crate) fn memory_value(listed: &Listed) -> Value {
    json!({
        "path": listed.path.to_string(),
        "bytes": listed.bytes,
        "modified_at": time::exact(listed.modified_at),
        "description": listed.description,
        "name": listed.name,
        "type": listed.kind,
        "pinned": listed.pinned,
        "uses": listed.usage.uses,
        "last_used_at": listed.usage.last_used_at.map(time::exact),
    })
}

fn columns(memories: &[Listed], now: Timestamp, look: Look) -> String {
    if memories.is_empty() {
        return String::new();
    }
    let columns = [
        Column::left("PIN").styled(WARN),
        Column::right("SIZE"),
        Column::right("AGE").styled(FAINT),
        Column::right("USES").styled(FAINT),
        Column::left("PATH").styled(STRONG),
        Column::left("DESCRIPTION"),
    ];
    let rows: Vec<_> = memories
        .iter()
        .map(|listed| {
            vec![
                if listed.pinned { "*".to_owned() } else { String::new() },
                human_size(listed.bytes),
                time::ago(listed.modified_at, now),
                listed.usage.uses.to_string(),
                short(&listed.path),
                visible::line(&listed.description).into_owned(),
            ]
        })
        .collect();
    table::aligned(&columns, &rows, look)
}

fn plain_line(listed: &Listed) -> String {
    let Listed { bytes, usage, .. } = listed;
    let (path, modified) = (short(&listed.path), time::exact(listed.modified_at));
    let pin = if listed.pinned { "pinned" } else { "" };
    let description = visible::line(&listed.description);
    format!("{path}\t{bytes}\t{modified}\t{}\t{pin}\t{description}\n", usage.uses)
}

/// A folder of the tree, or a memory in it.
#[derive(Default)]
struct Branch<'a> {
    memory: Option<&'a Listed>,
    /// In byte order of their names, folders among memories.
    below: std::collections::BTreeMap<&'a str, Branch<'a>>,
}

impl Branch<'_> {
    fn count(&self) -> usize {
        usize::from(self.memory.is_some()) + self.below.values().map(Branch::count).sum::<usize>()
    }
}

fn tree(memories: &[Listed], look: Look) -> String {
    let paths: Vec<String> = memories.iter().map(|listed| listed.path.to_string()).collect();
    let mut root = Branch::default();
    for (listed, path) in memories.iter().zip(&paths) {
        let mut branch = &mut root;
        for segment in path.split('/').skip(2) {
            branch = branch.below.entry(segment).or_default();
        }
        branch.memory = Some(listed);
    }
    let mut text = Text::default();
    text.line(look.paint(MARK, "/memories"));
    draw(&root, "", look, &mut text);
    text.into_string()
}

fn draw(branch: &Branch<'_>, indent: &str, look: Look, text: &mut Text) {
    let last = branch.below.len().saturating_sub(1);
    for (index, (name, below)) in branch.below.iter().enumerate() {
        let (arm, deeper) =
            if index == last { ("└── ", "    ") } else { ("├── ", "│   ") };
        let arm = look.paint(FAINT, &format!("{indent}{arm}"));
        let leaf = if let Some(listed) = below.memory {
            // What stands before it: four columns a level, the name, and two between.
            let used = indent.chars().count() + 4 + name.chars().count() + 2;
            leaf(name, listed, look.width.map(|all| all.saturating_sub(used).max(10)), look)
        } else {
            let count = counted(below.count(), "memory", "memories");
            let name = look.paint(MARK, &format!("{name}/"));
            format!("{name}  {}", look.paint(FAINT, &count))
        };
        text.line(format_args!("{arm}{leaf}"));
        draw(below, &format!("{indent}{deeper}"), look, text);
    }
}

fn leaf(name: &str, listed: &Listed, columns_max: Option<usize>, look: Look) -> String {
    let pin = if listed.pinned { look.paint(WARN, " *") } else { String::new() };
    let size = human_size(listed.bytes);
    let about = format!("{size}  {}", visible::line(&listed.description));
    let about = match columns_max {
        Some(columns_max) => table::cut(about.trim_end(), columns_max),
        None => about.trim_end().to_owned(),
    };
    format!("{}{pin}  {}", look.paint(STRONG, name), look.paint(FAINT, &about))
}
