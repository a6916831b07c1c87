//! `lukasa context`: the context that a model would get, and the reason for each part.

use std::path::Path;

use engine::{
    ContextPart, FactExclusion, FactSource, LoadSkipReason, PartKind, RecallBlock, RetrievedMemory,
    Segment, SegmentReport, ShownFile, SkippedContextSource, StoreSize,
};
use serde_json::{Value, json};

use crate::app::App;
use crate::args::{AllowRules, Context, TurnPhase};
use crate::exit::{Failure, Status};
use crate::hooks::host::HookHost;
use crate::render::text::TextBuffer;
use crate::render::{MARK, OutputStyle, STRONG, WARN, counted, sanitize, short_path};

/// Shows the segment of a new session.
pub(crate) async fn run(app: &App, args: &Context) -> Result<Status, Failure> {
    let mut showing = gather(app, args.agent).await?;
    let recalled = recall_prompt(app, args.prompt.as_deref(), &showing).await?;
    let found = recalled.as_ref().map_or(&[][..], |recalled| &recalled.memories);
    if let Some(RecallBlock { block, .. }) = &recalled {
        let parts = showing.segment.parts().iter().cloned();
        let parts = parts.chain(ContextPart::new(PartKind::Recalled, block.clone()));
        showing.segment = Segment::from_parts(parts.collect());
    }
    if app.output.json {
        let mut value = value(&showing);
        if args.at.is_some() {
            let memory = |memory: &RetrievedMemory| json!({ "path": memory.path.to_string(), "title": memory.title, "why": memory.why });
            value["recalled"] = found.iter().map(memory).collect();
        }
        app.output.value(&value)?;
        return Ok(Status::Done);
    }
    let (text, look) = (showing.segment.text(), app.output.style);
    if args.why {
        let workspace = app.workspace();
        let cwd = workspace.cwd.local().unwrap_or(Path::new(""));
        let reasons = reasons(&showing, args.at, found, cwd, look);
        app.output.text(&reasons)?;
    } else {
        app.output.text(&look.memory_text(text))?;
        let (tokens, shown) = (showing.segment.tokens(), showing.facts_shown());
        let all = counted(app.engine.count_facts(&app.memories()).await?, "fact", "facts");
        app.output.note(&format!("{shown} of {all}, about {tokens} tokens, {} bytes", text.len()));
        if showing.size == StoreSize::Large {
            app.output.note("`lukasa context --why` says which memories are not shown, and why");
        }
    }
    let untrusted =
        showing.skipped.iter().filter(|one| one.reason == LoadSkipReason::Untrusted).count();
    if untrusted > 0 {
        let files = counted(untrusted, "context file is", "context files are");
        app.output.warning(&format!(
            "{files} not shown, since the folder is not trusted; `lukasa trust` trusts it"
        ));
    }
    Ok(Status::Done)
}

/// Builds the opening segment of a session; for an agent, within the limits of its hook.
async fn gather(app: &App, agent: Option<HookHost>) -> Result<SegmentReport, Failure> {
    let (mut files, memories) = (app.context_files_with(&AllowRules::default())?, app.memories());
    let mut bytes_max = usize::MAX;
    if let Some(format) = agent.map(HookHost::format) {
        files = files.without_host_loaded(format.context_files);
        bytes_max = format.text_bytes_max;
    }
    let gathered = app.engine.segment_within(&memories, &files, bytes_max);
    Ok(app.wait_with_progress("gathering", gathered).await?)
}

/// Returns the memories recalled beside the first prompt of a session that begins like this.
async fn recall_prompt(
    app: &App,
    prompt: Option<&str>,
    start: &SegmentReport,
) -> Result<Option<RecallBlock>, Failure> {
    let Some(prompt) = prompt else { return Ok(None) };
    let memories = app.memories();
    let recalled = app.engine.recall_beside_prompt(&memories, prompt, start);
    Ok(app.wait_with_progress("searching", recalled).await?)
}

fn value(showing: &SegmentReport) -> Value {
    let parts = showing.segment.parts().iter().map(|part| {
        json!({
            "part": part.kind.as_ref(),
            "bytes": part.text.len(),
            "tokens": part.tokens,
            "revision": part.revision.to_string(),
            "text": part.text,
        })
    });
    let files = showing.files.iter().map(|file| {
        json!({
            "path": file.path.display().to_string(),
            "scope": file.scope.as_str(),
            "parent": file.parent.as_ref().map(|parent| parent.display().to_string()),
            "bytes": file.bytes,
            "tokens": file.tokens,
            "cut": file.is_cut,
        })
    });
    let skipped = showing.skipped.iter().map(|one| {
        json!({
            "path": one.path.display().to_string(),
            "parent": one.parent.as_ref().map(|parent| parent.display().to_string()),
            "why": one.reason.to_string(),
        })
    });
    json!({
        "revision": showing.segment.revision().to_string(),
        "bytes": showing.segment.text().len(),
        "tokens": showing.segment.tokens(),
        "parts": parts.collect::<Vec<_>>(),
        "files": files.collect::<Vec<_>>(),
        "skipped": skipped.collect::<Vec<_>>(),
        "memories": showing.memories,
        "facts": showing.facts.iter().map(fact_source_value).collect::<Vec<_>>(),
    })
}

fn fact_source_value(source: &FactSource) -> Value {
    json!({
        "path": source.path.to_string(),
        "pinned": source.pinned,
        "uses": source.uses,
        "heat": source.heat,
        "facts_shown": source.count.shown,
        "facts": source.count.all,
        "unreviewed": source.kept_out == Some(FactExclusion::Unreviewed),
        "in_conflict": source.kept_out == Some(FactExclusion::Conflict),
    })
}

/// Returns the parts with their sizes, sources and reasons.
fn reasons(
    showing: &SegmentReport,
    at: Option<TurnPhase>,
    found: &[RetrievedMemory],
    cwd: &Path,
    look: OutputStyle,
) -> String {
    let mut text = TextBuffer::default();
    let costs = |tokens: usize, bytes: usize| format!("{tokens} tokens, {bytes} bytes");
    for part in showing.segment.parts() {
        let name = look.paint(MARK, part.kind.as_ref());
        text.line(format_args!("{name}: {}", costs(part.tokens, part.text.len())));
        match part.kind {
            PartKind::ContextFiles => {
                for file in &showing.files {
                    text.line(format_args!("{}", file_line(file, cwd)));
                }
            }
            PartKind::Index => {
                let all = counted(showing.memories, "memory", "memories");
                text.line(format_args!(
                    "  {all}; those not shown in full, the most used and the newest first"
                ));
            }
            PartKind::HotSet => {
                for source in showing.facts.iter().filter(|source| source.is_shown()) {
                    text.line(format_args!("  {}", fact_source_line(source, showing.size)));
                }
            }
            PartKind::Recalled => {
                text.line(format_args!("  {}", context_position(at)));
                for one in found {
                    let why = sanitize::line(&one.why);
                    text.line(format_args!("  {}: {why}", short_path(&one.path)));
                }
            }
            PartKind::Delta => {}
        }
    }
    let all = costs(showing.segment.tokens(), showing.segment.text().len());
    text.line(format_args!("{}: {all}", look.paint(STRONG, "all")));
    let left_out: Vec<_> = showing.facts.iter().filter(|source| !source.is_shown()).collect();
    let others = showing.memories.saturating_sub(showing.facts.len());
    if !showing.skipped.is_empty() || !left_out.is_empty() || others > 0 {
        text.line(format_args!("{}:", look.paint(WARN, "left out")));
        for source in left_out {
            let path = short_path(&source.path);
            let why = match source.kept_out {
                Some(FactExclusion::Conflict) => "in conflict; see `lukasa doctor`",
                Some(FactExclusion::Unreviewed) => "not reviewed; see `lukasa accept`",
                None if source.count.all == 0 => "no facts",
                None => "no room",
            };
            text.line(format_args!("  {path}: {why}"));
        }
        if others > 0 {
            let others = counted(others, "other memory", "other memories");
            text.line(format_args!("  {others}: not pinned, and less recent than what is shown"));
        }
        for one in &showing.skipped {
            text.line(format_args!("{}", skipped_line(one, cwd)));
        }
    }
    text.into_string()
}

/// Returns the position of recalled memories in the conversation.
const fn context_position(at: Option<TurnPhase>) -> &'static str {
    match at {
        Some(TurnPhase::ToolResult) => {
            "with the prompt; after the results of tools, if recall was not finished by then"
        }
        Some(TurnPhase::Prompt) | None => "with the prompt",
    }
}

fn file_line(file: &ShownFile, cwd: &Path) -> String {
    let path = relative_to(&file.path, cwd);
    let why = match &file.parent {
        Some(parent) => format!("imported by {}", relative_to(parent, cwd)),
        None => file.scope.as_str().to_owned(),
    };
    let indent = if file.parent.is_some() { "    " } else { "  " };
    let cut = if file.is_cut { ", truncated to its share" } else { "" };
    format!("{indent}{path} ({why}): {} tokens, {} bytes{cut}", file.tokens, file.bytes)
}

fn skipped_line(one: &SkippedContextSource, cwd: &Path) -> String {
    let path = relative_to(&one.path, cwd);
    match &one.parent {
        Some(parent) => {
            format!("  {path}, imported by {}: {}", relative_to(parent, cwd), one.reason)
        }
        None => format!("  {path}: {}", one.reason),
    }
}

/// Returns a path relative to a folder, if it is inside.
fn relative_to(path: &Path, cwd: &Path) -> String {
    let path = path.strip_prefix(cwd).unwrap_or(path);
    sanitize::line(&path.display().to_string()).into_owned()
}

/// Returns a memory with the number of its facts that are shown.
fn fact_source_line(source: &FactSource, size: StoreSize) -> String {
    let FactSource { path, pinned, uses, count, .. } = source;
    let pin = if *pinned { ", pinned" } else { "" };
    let uses = match size {
        StoreSize::Small => String::new(),
        StoreSize::Large => {
            format!(", {}", counted(usize::try_from(*uses).unwrap_or(usize::MAX), "use", "uses"))
        }
    };
    let facts = counted(count.all, "fact", "facts");
    let shown = if count.shown < count.all { format!("{} of {facts}", count.shown) } else { facts };
    format!("{}: {shown}{pin}{uses}", short_path(path))
}
