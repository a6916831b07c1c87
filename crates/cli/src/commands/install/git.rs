//! `lukasa install git`: the merge driver of memories in a clone, so that git merges them by entry.
//!
//! The attributes of the user's own clone or of the project select the driver. The configuration of the clone names
//! the program; git does not share it between clones, since it would run programs of other people.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::app::App;
use crate::args::{Globals, Installation};
use crate::commands::install::{
    InstallAction, InstallPlan, change, execute, program_of, project_folder, read_record,
};
use crate::exit::{Failure, Status};
use crate::files::ReadAccess;
use crate::install::ConfigPart;
use crate::install::agents::{ConfigTarget, InstallScope};

/// Adds the merge driver to a clone, or removes it.
pub(super) async fn run(
    app: &App,
    args: &Installation,
    action: InstallAction,
) -> Result<Status, Failure> {
    let Globals { project_root, workspace_id, flat, .. } = &app.globals;
    if project_root.is_some() || workspace_id.is_some() || flat.is_some() {
        return Err(Failure::usage("`install git` takes no flags that select memories")
            .help("it merges the memories of the project, in `.lukasa/memory`"));
    }
    let clone = GitClone::new(&project_folder(app)?)?;
    let program = ConfigPart::GitDriver { program: program_of(app)? };
    let attributes = match args.scope {
        InstallScope::User => clone.folder.join("info/attributes"),
        InstallScope::Project => clone.checkout.join(".gitattributes"),
    };
    let record = read_record()?;
    let targets = [
        (attributes, ConfigPart::GitAttributes, Some(clone.checkout.as_path())),
        (clone.folder.join("config"), program, None),
    ];
    let mut changes = Vec::new();
    for (path, part, checkout) in targets {
        let checkout = checkout.filter(|checkout| path.starts_with(checkout));
        let target = ConfigTarget { path, parts: vec![part] };
        changes.push(change(target, action, &record, checkout)?);
    }
    let plan = InstallPlan {
        title: "git",
        word: "git".to_owned(),
        next: match args.scope {
            InstallScope::User => "git merges memories by entry in this clone now",
            InstallScope::Project => {
                "commit `.gitattributes`; in each clone, `lukasa install git --scope project` adds the driver"
            }
        },
        action,
        changes,
        declined: Vec::new(),
        readers: ReadAccess::Default,
        names_program: true,
    };
    execute(app, &plan, args).await
}

/// The folders of a clone.
struct GitClone {
    /// The top of the checkout.
    checkout: PathBuf,
    /// The folder of git's data, which all worktrees share.
    folder: PathBuf,
}

impl GitClone {
    fn new(project: &Path) -> Result<Self, Failure> {
        let mut git = Command::new("git");
        git.current_dir(project).stdin(Stdio::null());
        git.args(["rev-parse", "--path-format=absolute", "--show-toplevel", "--git-common-dir"]);
        let ended = git.output().map_err(|error| {
            Failure::usage(format!("cannot run `git`: {error}")).help("install git first")
        })?;
        let answer = String::from_utf8(ended.stdout).ok().filter(|_| ended.status.success());
        let paths = answer.as_deref().and_then(|answer| answer.trim_end().split_once('\n'));
        let Some((checkout, folder)) = paths else {
            let why = String::from_utf8_lossy(&ended.stderr);
            let why = why.lines().next().unwrap_or("its folders have unusual names");
            return Err(Failure::usage(format!(
                "`{}` is not in a git checkout: {why}",
                project.display()
            ))
            .help("run it in a checkout, or name one with `--project DIR`"));
        };
        Ok(Self { checkout: checkout.into(), folder: folder.into() })
    }
}
