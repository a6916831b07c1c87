//! `lukasa acp`: runs tasks for a client of the Agent Client Protocol, which may be the daemon.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use engine::{NullFeed, ProjectRoot, Workspace};
use memory::command::CommandError;
use memory::error_code::MemoryErrorCode;
use memory::feature::Feature;
use memory::limits::CHILD_MEMORY_BYTES_MAX;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use server::acp::{AcpConfig, serve_stdio};
use tokio_util::sync::CancellationToken;

use crate::app::{App, workspace_of};
use crate::exit::{Failure, Status, chain};
use crate::files;

/// Serves until the client leaves.
pub(crate) async fn run(app: &App) -> Result<Status, Failure> {
    if !app.engine.switches().global().has(Feature::Child) {
        return Err(CommandError::FeatureDisabled { feature: Feature::Child }.into());
    }
    bound_memory(app);
    // The runner is never a child, since this process may be one.
    let lanes = app.engine.lanes(app.engine.lane_settings(), Arc::new(NullFeed));
    let default = app.workspace();
    // A project or folder named on the command line takes precedence over the client's.
    let is_named = app.globals.project.is_some() || app.globals.flat.is_some();
    let project_root = app.binding.project_root;
    let find = move |folder: Option<&Path>| match folder.filter(|_| !is_named) {
        None => Ok(default.clone()),
        Some(folder) => workspace(folder, project_root),
    };
    let host = AcpConfig::new(lanes.clone(), Arc::new(find), env!("CARGO_PKG_VERSION"));
    let stop = CancellationToken::new();
    let mut serving = std::pin::pin!(serve_stdio(host, stop.clone()));
    let ended = tokio::select! {
        ended = &mut serving => ended,
        _ = app.interrupts.wait_for_signal() => {
            stop.cancel();
            serving.await
        }
    };
    // Tasks without a waiting client stay queued for the next process that works in the lane.
    lanes.drain(Duration::ZERO).await;
    match ended {
        Ok(()) => Ok(Status::Done),
        Err(error) => Err(Failure::new(MemoryErrorCode::StorageFailed, chain(&error))),
    }
}

/// Limits the memory of this process: the model library reads a whole reply, however long it is. A process that exceeds
/// the limit is ended alone, without other processes.
fn bound_memory(app: &App) {
    let Rlimit { current, maximum } = getrlimit(Resource::Data);
    let least = |limit: Option<u64>| {
        Some(limit.map_or(CHILD_MEMORY_BYTES_MAX, |limit| limit.min(CHILD_MEMORY_BYTES_MAX)))
    };
    let bound = Rlimit { current: least(current), maximum: least(maximum) };
    if let Err(error) = setrlimit(Resource::Data, bound) {
        app.output.warning(&format!("cannot limit the memory of this process: {error}"));
    }
}

/// Returns the workspace of a folder that a client names.
fn workspace(folder: &Path, project_root: ProjectRoot) -> Result<Workspace, String> {
    let wrong = || format!("`cwd` is not a folder: {}", folder.display());
    let real: PathBuf = files::real_path(folder).map_err(|_| wrong())?;
    if files::is_not_folder(&real) {
        return Err(wrong());
    }
    Ok(workspace_of(real, project_root))
}
