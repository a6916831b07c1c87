//! `lukasa workspace`: lists and removes the workspaces of this host.

use engine::{Caller, HostWorkspace, WorkspaceId, WorkspaceRemoval, WorkspaceRemovalError};
use memory::command::view::human_size;
use memory::error_code::MemoryErrorCode;
use serde_json::{Value, json};

use crate::app::App;
use crate::args::{WorkspaceAction, WorkspaceArgs, WorkspaceRm};
use crate::commands::ask;
use crate::exit::{Failure, Status};
use crate::render::table::Column;
use crate::render::{FAINT, STRONG, counted, sanitize, table};

/// Lists workspaces, or removes some.
pub(crate) async fn run(app: &App, args: &WorkspaceArgs) -> Result<Status, Failure> {
    match &args.action {
        None | Some(WorkspaceAction::Ls) => list(app).await,
        Some(WorkspaceAction::Rm(args)) => remove(app, args).await,
    }
}

async fn list(app: &App) -> Result<Status, Failure> {
    let found = app.wait_with_progress("listing", app.engine.workspaces()).await?;
    if app.output.json {
        let workspaces: Vec<_> = found.iter().map(value).collect();
        app.output.value(&json!({ "workspaces": workspaces }))?;
        return Ok(Status::Done);
    }
    let text = if app.output.style.columns {
        let columns = [
            Column::left("ID").styled(STRONG),
            Column::right("MEMORIES"),
            Column::right("SIZE").styled(FAINT),
            Column::left("WORKTREE"),
        ];
        let row = |workspace: &HostWorkspace| {
            let (id, memories) = (workspace.id.to_string(), workspace.memories.to_string());
            vec![id, memories, human_size(workspace.bytes), worktree(workspace)]
        };
        table::aligned(&columns, found.iter().map(row), app.output.style)
    } else {
        let line = |workspace: &HostWorkspace| {
            format!(
                "{}\t{}\t{}\t{}\n",
                workspace.id,
                workspace.memories,
                workspace.bytes,
                worktree(workspace)
            )
        };
        found.iter().map(line).collect()
    };
    app.output.text(&text)?;
    if found.is_empty() {
        app.output
            .note("no workspace has memories yet; `lukasa create workspace/NAME.md` creates one");
    }
    Ok(Status::Done)
}

fn value(workspace: &HostWorkspace) -> Value {
    json!({
        "id": workspace.id.to_string(),
        "checkout": workspace.checkout.as_ref().map(|folder| folder.display().to_string()),
        "checkout_exists": workspace.checkout_exists,
        "memories": workspace.memories,
        "bytes": workspace.bytes,
    })
}

/// Returns the folder of the worktree as text.
fn worktree(workspace: &HostWorkspace) -> String {
    let Some(folder) = &workspace.checkout else {
        return "none, named by --workspace-id".to_owned();
    };
    let gone = if workspace.checkout_exists { "" } else { " (no longer exists)" };
    format!("{}{gone}", sanitize::line(&folder.display().to_string()))
}

async fn remove(app: &App, args: &WorkspaceRm) -> Result<Status, Failure> {
    let found = app.engine.workspaces().await?;
    let chosen: Vec<&HostWorkspace> = if args.gone {
        found.iter().filter(|workspace| workspace.checkout_was_removed()).collect()
    } else {
        let mut chosen =
            args.ids.iter().map(|id| find_workspace(&found, id)).collect::<Result<Vec<_>, _>>()?;
        chosen.sort_by_key(|workspace| workspace.id.to_string());
        chosen.dedup_by(|workspace, other| workspace.id == other.id);
        chosen
    };
    if !confirm_remove(app, args, &chosen).await? {
        app.output.note("nothing was removed");
        return Ok(Status::Refused);
    }
    let (mut removals, mut failed) = (Vec::new(), None);
    for workspace in &chosen {
        // Boxed, since the future of a removal is too large for the stack of its callers.
        let removal =
            Box::pin(app.engine.remove_workspace(&workspace.id, Caller::person("cli"), &[]));
        // After a failure the loop ends, and the folders that were removed before are still reported.
        let removal = match app.finish_write("removing", removal).await {
            Ok(removal) => removal,
            Err(error) => {
                failed = Some(error);
                break;
            }
        };
        report(app, &workspace.id, &removal);
        removals.push(json!({
            "id": workspace.id.to_string(),
            "memories": removal.memories.iter().map(ToString::to_string).collect::<Vec<_>>(),
            "change": removal.change.map(|change| change.0),
            "remaining_folder": removal.remaining_folder,
        }));
    }
    if app.output.json {
        app.output.value(&json!({ "removed": removals }))?;
    } else if chosen.is_empty() {
        app.output.note("no workspace to remove: the worktrees of all workspaces exist");
    }
    failed.map_or(Ok(Status::Done), |error| Err(error.into()))
}

fn find_workspace<'a>(
    found: &'a [HostWorkspace],
    id: &WorkspaceId,
) -> Result<&'a HostWorkspace, Failure> {
    let workspace = found.iter().find(|workspace| workspace.id == *id);
    workspace.ok_or_else(|| WorkspaceRemovalError::NotFound(id.clone()).into())
}

/// Asks before memories are removed. If no question can be asked, this fails.
async fn confirm_remove(
    app: &App,
    args: &WorkspaceRm,
    chosen: &[&HostWorkspace],
) -> Result<bool, Failure> {
    if args.yes || chosen.is_empty() {
        return Ok(true);
    }
    let memories = chosen.iter().map(|workspace| workspace.memories).sum();
    let what = format!(
        "{} with {}",
        counted(chosen.len(), "workspace", "workspaces"),
        counted(memories, "memory", "memories")
    );
    if !ask::can_ask(app) {
        return Err(Failure::usage(format!("this removes {what}"))
            .help("use `-y` to skip the question; `lukasa --workspace-id ID undo CHANGE` restores memories"));
    }
    let ids: Vec<_> = chosen.iter().map(|workspace| workspace.id.to_string()).collect();
    ask::confirm(app, &format!("Remove {what} ({})?", ids.join(", "))).await
}

fn report(app: &App, id: &WorkspaceId, removal: &WorkspaceRemoval) {
    let memories = counted(removal.memories.len(), "memory", "memories");
    app.output.note(&match removal.change {
        Some(change) => format!(
            "removed the workspace {id} with {memories}; `lukasa --workspace-id {id} undo {change}` restores them"
        ),
        None => format!("removed the workspace {id}, which had no memories"),
    });
    if let Some(folder) = &removal.remaining_folder {
        let folder = sanitize::line(&folder.display().to_string()).into_owned();
        app.output
            .warning(&format!("{folder} was not removed: it holds files that are not memories"));
    }
}

impl From<WorkspaceRemovalError> for Failure {
    fn from(error: WorkspaceRemovalError) -> Self {
        let code = match error {
            WorkspaceRemovalError::NotFound(_) => {
                return Self::new(MemoryErrorCode::NotFound, error.to_string())
                    .help("`lukasa workspace ls` lists the workspaces");
            }
            WorkspaceRemovalError::Busy(_) => MemoryErrorCode::Locked,
            WorkspaceRemovalError::TooMany(_) => MemoryErrorCode::ScopeFull,
            WorkspaceRemovalError::Folder(ref source) => {
                let message = format!("{error}: {source}");
                return Self::new(MemoryErrorCode::StorageFailed, message);
            }
            WorkspaceRemovalError::Store(error) => return error.into(),
            WorkspaceRemovalError::State(error) => return error.into(),
        };
        Self::new(code, error.to_string())
    }
}
