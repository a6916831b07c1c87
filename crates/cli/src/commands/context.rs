//! `lukasa context` and `lukasa hot`: the context that a model would get, and the reason for each part.

use std::path::Path;

use engine::{
    ContextPart, HotSetEntry, HotSetExclusion, LoadSkipReason, PartKind, RecallBlock,
    RetrievedMemory, Segment, SegmentReport, ShownFile, SkippedContextSource,
};
use serde_json::{Value, json};

use crate::app::App;
use crate::args::{AllowRules, Context, TurnPhase};
use crate::exit::{Failure, Status};
use crate::hooks::host::HookHost;
use crate::render::table::Column;
use crate::render::text::TextBuffer;
use crate::render::{FAINT, MARK, OutputStyle, STRONG, WARN, counted, sanitize, short_path, table};

/// Shows the segment of a new session.
pub(crate) async fn run(app: &App, args: &Context) -> Result<Status, Failure> {
    let mut showing = gather(app, args.agent).await?;
    let recalled = recall_prompt(app, args.prompt.as_deref(), &showing.hot).await?;
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
        let tokens = showing.segment.tokens();
        app.output.note(&format!("about {tokens} tokens, {} bytes", text.len()));
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

/// Lists the candidates for the hot set.
pub(crate) async fn hot(app: &App) -> Result<Status, Failure> {
    let showing = gather(app, None).await?;
    if app.output.json {
        let hot: Vec<_> = showing.hot.iter().map(hot_value).collect();
        app.output.value(&json!({ "hot": hot }))?;
        return Ok(Status::Done);
    }
    let look = app.output.style;
    let text = if look.columns {
        hot_table(&showing.hot, look)
    } else {
        showing.hot.iter().map(hot_line).collect()
    };
    app.output.text(&text)?;
    if showing.hot.is_empty() {
        app.output.note("no memory is pinned or used yet; `lukasa pin PATH` pins one");
    }
    if showing.hot.iter().any(|one| one.kept_out == Some(HotSetExclusion::Unreviewed)) {
        app.output.note("memories without a review are left out; `lukasa accept` lists them");
    }
    if showing.hot.iter().any(|one| one.kept_out == Some(HotSetExclusion::Conflict)) {
        app.output.note("memories with a merge conflict are left out; `lukasa doctor` lists them");
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

/// Returns the memories recalled beside the first prompt of a session that begins with this hot set.
async fn recall_prompt(
    app: &App,
    prompt: Option<&str>,
    hot: &[HotSetEntry],
) -> Result<Option<RecallBlock>, Failure> {
    let Some(prompt) = prompt else { return Ok(None) };
    let memories = app.memories();
    let recalled = app.engine.recall_beside_prompt(&memories, prompt, hot);
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
        "hot": showing.hot.iter().map(hot_value).collect::<Vec<_>>(),
    })
}

fn hot_value(hot: &HotSetEntry) -> Value {
    json!({
        "path": hot.path.to_string(),
        "pinned": hot.pinned,
        "uses": hot.uses,
        "heat": hot.heat,
        "shown": hot.shown,
        "unreviewed": hot.kept_out == Some(HotSetExclusion::Unreviewed),
        "in_conflict": hot.kept_out == Some(HotSetExclusion::Conflict),
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
                    "  {all}; pinned ones and the first of each scope come first"
                ));
            }
            PartKind::HotSet => {
                for one in showing.hot.iter().filter(|one| one.shown) {
                    text.line(format_args!("  {}", hot_reason(one)));
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
    let kept_out = showing.hot.iter().filter_map(|one| Some((one, one.kept_out?)));
    let kept_out: Vec<_> = kept_out.collect();
    if !showing.skipped.is_empty() || !kept_out.is_empty() {
        text.line(format_args!("{}:", look.paint(WARN, "left out")));
        for (one, why) in kept_out {
            let path = short_path(&one.path);
            let why = match why {
                HotSetExclusion::Conflict => "in conflict; see `lukasa doctor`",
                HotSetExclusion::Unreviewed => "not reviewed; see `lukasa accept`",
            };
            text.line(format_args!("  {path}: {why}"));
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

fn hot_reason(hot: &HotSetEntry) -> String {
    let pin = if hot.pinned { "pinned, " } else { "" };
    let uses = counted(usize::try_from(hot.uses).unwrap_or(usize::MAX), "use", "uses");
    format!("{}: {pin}{uses}, heat {:.2}", short_path(&hot.path), hot.heat)
}

fn hot_table(hot: &[HotSetEntry], look: OutputStyle) -> String {
    let columns = [
        Column::left("SHOWN").styled(WARN),
        Column::left("PIN").styled(WARN),
        Column::right("USES").styled(FAINT),
        Column::right("HEAT").styled(FAINT),
        Column::left("PATH").styled(STRONG),
    ];
    let mark = |is: bool| if is { "*".to_owned() } else { String::new() };
    let row = |one: &HotSetEntry| {
        let heat = format!("{:.2}", one.heat);
        let note = match one.kept_out {
            Some(HotSetExclusion::Conflict) => "  (in conflict)",
            Some(HotSetExclusion::Unreviewed) => "  (not reviewed)",
            None => "",
        };
        let path = format!("{}{note}", short_path(&one.path));
        vec![mark(one.shown), mark(one.pinned), one.uses.to_string(), heat, path]
    };
    table::aligned(&columns, hot.iter().map(row), look)
}

fn hot_line(hot: &HotSetEntry) -> String {
    let HotSetEntry { uses, heat, .. } = hot;
    let word = |is: bool, word: &'static str| if is { word } else { "" };
    let pinned = word(hot.pinned, "pinned");
    let shown = match hot.kept_out {
        Some(HotSetExclusion::Conflict) => "conflict",
        Some(HotSetExclusion::Unreviewed) => "unreviewed",
        None => word(hot.shown, "shown"),
    };
    format!("{}\t{uses}\t{heat:.2}\t{pinned}\t{shown}\n", short_path(&hot.path))
}
