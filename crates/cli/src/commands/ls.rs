//! `lukasa ls`: lists memories as a table, a tree, lines or JSON.

use std::cmp::Reverse;

use engine::{Listing, Memories, MemoryEntry};
use memory::change::{Actor, Trust};
use memory::clock::Timestamp;
use memory::command::view::human_size;
use serde_json::{Value, json};

use crate::app::{App, now};
use crate::args::{Filter, Ls, Order, TimeRange};
use crate::commands::origin::{Authorship, Authorships, authorships};
use crate::commands::{history, listing};
use crate::exit::{Failure, Status};
use crate::render::table::Column;
use crate::render::text::TextBuffer;
use crate::render::{
    FAINT, MARK, OutputStyle, STRONG, WARN, counted, sanitize, short_path, table, time,
};

/// Lists memories.
pub(crate) async fn run(app: &App, args: &Ls) -> Result<Status, Failure> {
    let memories = app.memories();
    let path = args.path.as_deref().map(|path| app.path(path)).transpose()?;
    let since = args.filter.since.clone();
    let (since, _) = history::span(&TimeRange { since, until: None })?;
    let mut listing = app.wait_with_progress("listing", listing(&memories, path.as_ref())).await?;
    let all = listing.memories.len();
    let filter = &args.filter;
    let asks_origin = filter.by.is_some() || filter.trust.is_some() || filter.unused;
    let origins = if app.output.json || args.show.long || asks_origin {
        let paths = listing.memories.iter().map(|listed| &listed.path);
        app.wait_with_progress("listing", authorships(&memories, paths)).await?
    } else {
        Authorships::new()
    };
    listing
        .memories
        .retain(|listed| matches_filter(listed, origins.get(&listed.path), filter, since));
    sort(&mut listing.memories, args.sort);
    if app.output.json {
        app.output.value(&value(&memories, &listing, &origins))?;
        return Ok(Status::Done);
    }
    let look = app.output.style;
    let long = args.show.long.then_some(&origins);
    let text = if args.show.tree {
        tree(&listing.memories, look)
    } else if look.columns {
        columns(&listing.memories, long, now(), look)
    } else {
        listing.memories.iter().map(|listed| plain_line(listed, long)).collect()
    };
    app.output.text(&text)?;
    if listing.omitted > 0 {
        let more = counted(listing.omitted, "memory is", "memories are");
        app.output.warning(&format!("{more} not listed"));
    }
    if all == 0 {
        app.output.note("no memories here yet; `lukasa create PATH` creates one");
    } else if listing.memories.is_empty() {
        app.output.note(&format!("none of {} matches", counted(all, "memory", "memories")));
    }
    Ok(Status::Done)
}

fn matches_filter(
    listed: &MemoryEntry,
    origin: Option<&Authorship>,
    filter: &Filter,
    since: Option<Timestamp>,
) -> bool {
    // A memory without history was written outside of Lukasa.
    let author = origin.map_or(Actor::Outside, |origin| origin.author);
    let trust = origin.map_or(Trust::Outside, |origin| origin.trust);
    let written = origin.map_or(listed.modified_at, |origin| origin.at.max(listed.modified_at));
    let is_used = listed.usage.last_used_at.is_some_and(|used| used > written);
    filter.by.is_none_or(|by| by == author)
        && filter.trust.is_none_or(|expected| expected == trust)
        && since.is_none_or(|since| listed.modified_at >= since)
        && (!filter.unused || !is_used)
        && (!filter.pinned || listed.pinned)
}

fn sort(memories: &mut [MemoryEntry], order: Order) {
    match order {
        Order::Path => {}
        Order::Modified => memories.sort_by_key(|listed| Reverse(listed.modified_at)),
        Order::Used => memories.sort_by_key(|listed| listed.usage.last_used_at),
        Order::Uses => memories.sort_by_key(|listed| Reverse(listed.usage.uses)),
        Order::Size => memories.sort_by_key(|listed| Reverse(listed.bytes)),
    }
}

/// Returns a listing as JSON.
fn value(memories: &Memories, listing: &Listing, origins: &Authorships) -> Value {
    let with_origin = |listed: &MemoryEntry| {
        let mut value = memory_value(listed);
        let origin = origins.get(&listed.path);
        value["author"] = origin.map(|origin| origin.author.as_ref()).into();
        value["trust"] = origin.map(|origin| origin.trust.as_ref()).into();
        value["written_at"] = origin.map(|origin| time::exact(origin.at)).into();
        value
    };
    let unavailable: Vec<Value> = memories
        .mounts()
        .into_iter()
        .filter_map(|mount| {
            let reason = mount.unavailable?;
            Some(json!({ "scope": mount.mount.word(), "reason": reason }))
        })
        .collect();
    json!({
        "memories": listing.memories.iter().map(with_origin).collect::<Vec<_>>(),
        "left_out": listing.omitted,
        "unavailable": unavailable,
    })
}

/// Returns one memory of a listing as JSON.
pub(crate) fn memory_value(listed: &MemoryEntry) -> Value {
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

fn columns(
    memories: &[MemoryEntry],
    long: Option<&Authorships>,
    now: Timestamp,
    look: OutputStyle,
) -> String {
    let mut columns = vec![
        Column::left("PIN").styled(WARN),
        Column::right("SIZE"),
        Column::right("AGE").styled(FAINT),
        Column::right("USES").styled(FAINT),
    ];
    if long.is_some() {
        let more = [Column::right("USED"), Column::left("BY"), Column::left("TRUST")];
        columns.extend(more.map(|column| column.styled(FAINT)));
    }
    columns.extend([Column::left("PATH").styled(STRONG), Column::left("DESCRIPTION")]);
    let row = |listed: &MemoryEntry| {
        let mut row = vec![
            if listed.pinned { "*".to_owned() } else { String::new() },
            human_size(listed.bytes),
            time::ago(listed.modified_at, now),
            listed.usage.uses.to_string(),
        ];
        if let Some(origins) = long {
            let used = listed.usage.last_used_at.map(|used| time::ago(used, now));
            row.push(used.unwrap_or_default());
            row.extend(origin_words(origins, listed).map(str::to_owned));
        }
        row.extend([short_path(&listed.path), sanitize::line(&listed.description).into_owned()]);
        row
    };
    table::aligned(&columns, memories.iter().map(row), look)
}

/// Returns author and trust in words; empty if history does not have them.
fn origin_words(origins: &Authorships, listed: &MemoryEntry) -> [&'static str; 2] {
    let origin = origins.get(&listed.path);
    origin.map_or(["", ""], |origin| [origin.author.into(), origin.trust.into()])
}

fn plain_line(listed: &MemoryEntry, long: Option<&Authorships>) -> String {
    let MemoryEntry { bytes, usage, .. } = listed;
    let (path, modified) = (short_path(&listed.path), time::exact(listed.modified_at));
    let pin = if listed.pinned { "pinned" } else { "" };
    let description = sanitize::line(&listed.description);
    let mut line = format!("{path}\t{bytes}\t{modified}\t{}\t{pin}\t{description}", usage.uses);
    if let Some(origins) = long {
        let used = usage.last_used_at.map(time::exact).unwrap_or_default();
        let [author, trust] = origin_words(origins, listed);
        line = format!("{line}\t{author}\t{trust}\t{used}");
    }
    line.push('\n');
    line
}

/// A node of the tree: a folder or a memory.
#[derive(Default)]
struct Branch<'a> {
    memory: Option<&'a MemoryEntry>,
    /// The children in byte order of their names.
    below: std::collections::BTreeMap<&'a str, Branch<'a>>,
}

impl Branch<'_> {
    fn count(&self) -> usize {
        usize::from(self.memory.is_some()) + self.below.values().map(Branch::count).sum::<usize>()
    }
}

fn tree(memories: &[MemoryEntry], look: OutputStyle) -> String {
    let paths: Vec<String> = memories.iter().map(|listed| listed.path.to_string()).collect();
    let mut root = Branch::default();
    for (listed, path) in memories.iter().zip(&paths) {
        let mut branch = &mut root;
        for segment in path.split('/').skip(2) {
            branch = branch.below.entry(segment).or_default();
        }
        branch.memory = Some(listed);
    }
    let mut text = TextBuffer::default();
    text.line(look.paint(MARK, "/memories"));
    draw(&root, "", look, &mut text);
    text.into_string()
}

fn draw(branch: &Branch<'_>, indent: &str, look: OutputStyle, text: &mut TextBuffer) {
    let last = branch.below.len().saturating_sub(1);
    for (index, (name, below)) in branch.below.iter().enumerate() {
        let (arm, deeper) =
            if index == last { ("└── ", "    ") } else { ("├── ", "│   ") };
        let arm = look.paint(FAINT, &format!("{indent}{arm}"));
        let leaf = if let Some(listed) = below.memory {
            // The columns before the description: four per level, the name, and two spaces.
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

fn leaf(name: &str, listed: &MemoryEntry, columns_max: Option<usize>, look: OutputStyle) -> String {
    let pin = if listed.pinned { look.paint(WARN, " *") } else { String::new() };
    let size = human_size(listed.bytes);
    let about = format!("{size}  {}", sanitize::line(&listed.description));
    let about = match columns_max {
        Some(columns_max) => table::cut(about.trim_end(), columns_max),
        None => about.trim_end().to_owned(),
    };
    format!("{}{pin}  {}", look.paint(STRONG, name), look.paint(FAINT, &about))
}
