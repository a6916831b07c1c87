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
use crate::files::{self, ReadAccess};
use crate::install::agents::{ConfigTarget, InstallScope};
use crate::install::{self, ConfigPart};

/// The path of a memory, of which git is asked. It need not exist.
const MEMORY: &str = ".lukasa/memory/a.md";

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
    let user = clone.folder.join("info/attributes");
    let project = clone.checkout.join(".gitattributes");
    let (attributes, others) = match args.scope {
        InstallScope::User => (user, project),
        InstallScope::Project => (project, user),
    };
    let mut targets = vec![(attributes, ConfigPart::GitAttributes, Some(clone.checkout.as_path()))];
    let stays = action == InstallAction::Uninstall && selects_driver(&others)?;
    if !stays {
        targets.push((clone.folder.join("config"), program, None));
    }
    let record = read_record()?;
    let mut changes = Vec::new();
    for (path, part, checkout) in targets {
        let checkout = checkout.filter(|checkout| path.starts_with(checkout));
        let target = ConfigTarget { path, parts: vec![part] };
        changes.push(change(target, action, &record, checkout)?);
    }
    let foreign = changes.iter().flat_map(|change| &change.edited.notes).next();
    if let Some(foreign) = foreign.filter(|_| action == InstallAction::Install) {
        return Err(Failure::usage(foreign.clone())
            .help("remove or rename the section `[merge \"lukasa\"]` in `.git/config` first"));
    }
    let plan = InstallPlan {
        title: "git",
        word: "git".to_owned(),
        next: (args.scope == InstallScope::Project).then_some(
            "commit `.gitattributes`; in each clone, `lukasa install git --scope project` adds the driver",
        ),
        action,
        changes,
        declined: Vec::new(),
        readers: ReadAccess::Default,
        names_program: true,
    };
    let status = execute(app, &plan, args).await?;
    if args.dry_run || !matches!(status, Status::Done) {
        return Ok(status);
    }
    if stays {
        app.output.note(&format!(
            "the driver stays in this clone, because {} selects it, too",
            others.display()
        ));
    }
    if action == InstallAction::Install { clone.report_effect(app) } else { Ok(status) }
}

/// Checks whether a file of attributes selects the driver.
fn selects_driver(attributes: &Path) -> Result<bool, Failure> {
    let text = files::read_optional(attributes)
        .map_err(|error| Failure::file("read", attributes, &error))?;
    Ok(text.is_some_and(|text| install::selects_driver(&text)))
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

    /// Says whether git merges memories by entry now. Other attributes may decide otherwise.
    fn report_effect(&self, app: &App) -> Result<Status, Failure> {
        let mut git = Command::new("git");
        git.current_dir(&self.checkout).stdin(Stdio::null());
        let ended = git.args(["check-attr", "merge", "--", MEMORY]).output();
        let ended = ended.map_err(|error| Failure::usage(format!("cannot run `git`: {error}")))?;
        let answer = String::from_utf8_lossy(&ended.stdout);
        let chosen = answer.trim_end().rsplit_once(": ").map_or("", |(_, chosen)| chosen);
        if chosen == "lukasa" {
            app.output.note("git merges memories by entry in this clone now");
            return Ok(Status::Done);
        }
        app.output.warning(&format!(
            "git does not use the driver: `git check-attr merge {MEMORY}` says `{chosen}`, so a later line of the attributes, \
             or another file of them, decides otherwise"
        ));
        Ok(Status::Refused)
    }
}
