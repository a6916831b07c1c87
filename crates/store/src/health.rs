//! Health checks of roots and state, and repairs that lose nothing.
//!
//! [`Memories::health`] and [`Memories::examine`] change nothing. They return findings, which a
//! person or [`Memories::repair`] fixes, and advice, which is harmless to ignore. A repair
//! completes recorded writes, and changes no memory otherwise.

use std::collections::HashSet;
use std::path::{Path, PathBuf};
use std::time::Duration;

use memory::change::ChangeId;
use memory::document::{conflict_line, second_frontmatter_line};
use memory::limits::{DISK_BYTES_LEFT_MIN, MEMORY_BYTES_MAX};
use memory::path::{Mount, RelativePath, Scope};
use memory::screen::{Policy, TextAuthor, ValueDigest};
use state::{StateError, Stats};

use crate::backend::local::{LocalBackend, Privacy, RootDir};
use crate::backend::{Backend as _, BackendError, Extent, SkipReason, SkippedEntry, WalkedFile};
use crate::binding::{PROJECT_FOLDER, other_checkouts};
use crate::cache::FileSummary;
use crate::checks::virtual_path;
use crate::error::StoreError;
use crate::host_fs;
use crate::memories::{BoundMount, Memories};
use crate::root::{Root, document_heads};

mod advice;

use self::advice::Adviser;

/// The kind of a finding.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HealthFindingKind {
    /// A name that no memory path can express; only a person can reach the file.
    UnaddressableName,
    /// A link; never followed.
    Link,
    /// A pipe, socket or device; never opened.
    NotAFile,
    /// A folder or file that cannot be read.
    Unreadable,
    /// A file larger than a memory may be.
    OverCap,
    /// A file that is not UTF-8 text.
    NotText,
    /// Frontmatter that cannot be understood; the memory has no description then.
    MalformedFrontmatter,
    /// An unresolved merge conflict.
    ConflictMarker,
    /// A second block of frontmatter, which is read as text.
    SecondFrontmatter,
    /// A temporary file that an interrupted write left over.
    LeftOverTemporary,
    /// Open changes of a writer that died, or from before the machine restarted.
    InterruptedCommit,
    /// Pins and usage of memories that are gone.
    OrphanedState,
    /// More memories than the scope may hold.
    OverFull,
    /// Text that looks like a secret or an attack on a model.
    Screened,
    /// The root cannot be used.
    RootRefused,
    /// The root, or the folder of the state, cannot be written.
    Unwritable,
    /// The disk of the root, or of the state, has no room for another memory.
    DiskFull,
    /// The state database is damaged.
    StateDamaged,
    /// The state database is not damaged, but cannot be used now.
    StateUnavailable,
    /// Advice: a value of the frontmatter that is not valid YAML and was read as text.
    UnquotedValue,
    /// Advice: a memory without a description.
    MissingDescription,
    /// Advice: an entry that repeats another entry.
    RepeatedEntry,
}

/// Delay before transient findings are checked a second time.
const RECHECK_DELAY: Duration = Duration::from_millis(300);

impl HealthFindingKind {
    /// Checks whether a running writer can cause this finding for a moment.
    const fn is_transient(self) -> bool {
        matches!(
            self,
            Self::LeftOverTemporary
                | Self::Unreadable
                | Self::OrphanedState
                | Self::InterruptedCommit
        )
    }

    /// Returns the stable public name.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::UnaddressableName => "unaddressable-name",
            Self::Link => "link",
            Self::NotAFile => "not-a-file",
            Self::Unreadable => "unreadable",
            Self::OverCap => "over-cap",
            Self::NotText => "not-text",
            Self::MalformedFrontmatter => "malformed-frontmatter",
            Self::ConflictMarker => "conflict-marker",
            Self::SecondFrontmatter => "second-frontmatter",
            Self::LeftOverTemporary => "left-over-temporary",
            Self::InterruptedCommit => "interrupted-commit",
            Self::OrphanedState => "orphaned-state",
            Self::OverFull => "over-full",
            Self::Screened => "screened",
            Self::RootRefused => "root-refused",
            Self::Unwritable => "unwritable",
            Self::DiskFull => "disk-full",
            Self::StateDamaged => "state-damaged",
            Self::StateUnavailable => "state-unavailable",
            Self::UnquotedValue => "unquoted-value",
            Self::MissingDescription => "missing-description",
            Self::RepeatedEntry => "repeated-entry",
        }
    }
}

/// A problem, or a piece of advice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HealthFinding {
    /// Kind of the finding.
    pub kind: HealthFindingKind,
    /// Mount of the root; `None` for the state.
    pub mount: Option<Mount>,
    /// Path or name that it is about. In a hostile checkout it may hold any character, so do not print it unescaped.
    pub subject: String,
    /// Meaning and remedy, in a sentence.
    pub detail: String,
    /// Whether [`Memories::repair`] fixes it.
    pub fixable: bool,
}

impl HealthFinding {
    /// Returns a finding that a person has to fix.
    fn new(kind: HealthFindingKind, mount: Option<Mount>, subject: String, detail: String) -> Self {
        Self { kind, mount, subject, detail, fixable: false }
    }
}

/// The condition of one root.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RootHealth {
    /// The mount.
    pub mount: Mount,
    /// Its folder.
    pub folder: Option<PathBuf>,
    /// Reason why it is unavailable, if it is.
    pub unavailable: Option<String>,
    /// Whether it exists yet.
    pub exists: bool,
    /// Number of memories.
    pub files: usize,
    /// Maximum number of memories.
    pub files_max: usize,
    /// Total bytes of the memories.
    pub bytes: u64,
    /// Description of the process that holds the write lock now.
    pub holder: Option<String>,
}

/// The result of a health check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// The roots, in the order of the scopes.
    pub roots: Vec<RootHealth>,
    /// Problems.
    pub findings: Vec<HealthFinding>,
    /// Possible improvements that are harmless to ignore; only a thorough check has them.
    pub advice: Vec<HealthFinding>,
    /// Counts and sizes of the state.
    pub state: Stats,
}

/// Result of a repair.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepairReport {
    /// Actions taken, as sentences.
    pub actions: Vec<String>,
    /// Findings that a person has to fix.
    pub remaining: Vec<HealthFinding>,
    /// Possible improvements that are harmless to ignore.
    pub advice: Vec<HealthFinding>,
}

/// Thoroughness of a health check.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depth {
    /// Checks names, sizes and the start of each file.
    Quick,
    /// Checks every byte, and the state database.
    Thorough,
}

impl Memories {
    /// Checks roots and state; changes nothing. A finding that a running writer can cause for a moment is reported
    /// only if a second check finds it again.
    pub async fn health(&self, depth: Depth) -> Result<Health, StoreError> {
        let first = self.examine(depth).await?;
        if !first.findings.iter().any(|finding| finding.kind.is_transient()) {
            return Ok(first);
        }
        tokio::time::sleep(RECHECK_DELAY).await;
        let mut second = self.examine(depth).await?;
        second.findings.retain(|finding| {
            let is_same = |known: &HealthFinding| {
                (known.kind, known.mount, &known.subject)
                    == (finding.kind, finding.mount, &finding.subject)
            };
            !finding.kind.is_transient() || first.findings.iter().any(is_same)
        });
        Ok(second)
    }

    /// Checks roots and state once. Has the same counts as [`Memories::health`], but may report findings that a running
    /// writer causes for a moment.
    pub async fn examine(&self, depth: Depth) -> Result<Health, StoreError> {
        let mut health = Health {
            roots: Vec::new(),
            findings: Vec::new(),
            advice: Vec::new(),
            state: Stats::default(),
        };
        for bound in &self.mounts {
            self.examine_mount(bound, depth, &mut health).await?;
        }
        self.examine_state(depth, &mut health).await;
        Ok(health)
    }

    async fn examine_state(&self, depth: Depth, health: &mut Health) {
        let folder = &self.store.folders.state;
        if !host_fs::is_writable(folder) {
            let subject = folder.display().to_string();
            health.findings.push(unwritable(None, subject));
        }
        health.findings.extend(disk_full(None, folder));
        match self.store.state.stats().await {
            Ok(stats) => health.state = stats,
            Err(error) => {
                health.findings.push(state_fault(&error));
                return;
            }
        }
        if depth == Depth::Thorough {
            match self.store.state.check().await {
                Ok(faults) => health.findings.extend(faults.into_iter().map(state_damage)),
                Err(error) => health.findings.push(state_fault(&error)),
            }
        }
    }

    async fn examine_mount(
        &self,
        bound: &BoundMount,
        depth: Depth,
        health: &mut Health,
    ) -> Result<(), StoreError> {
        let files_max = self.store.settings.files_max;
        let mut root_health = RootHealth {
            mount: bound.mount,
            folder: None,
            unavailable: None,
            exists: false,
            files: 0,
            files_max,
            bytes: 0,
            holder: None,
        };
        match &bound.root {
            Err(reason) => root_health.unavailable = Some(reason.clone()),
            Ok(root) => {
                root_health.folder = root.backend.folder();
                root_health.holder = root.backend.holder().await;
                match root.backend.walk(None, Extent::ALL).await {
                    Ok(walk) => {
                        root_health.exists = root
                            .backend
                            .exists()
                            .await
                            .map_err(StoreError::backend_error(root.mount))?;
                        let list = walk.files.iter().find(|file| root.is_list(&file.path));
                        root_health.files = walk.files_total - usize::from(list.is_some());
                        root_health.bytes =
                            walk.bytes_total - list.map_or(0, |list| list.stat.bytes);
                        let adviser = Adviser::new(root.mount, &mut health.advice);
                        let findings = &mut health.findings;
                        let conflicted = match depth {
                            Depth::Quick => conflicted(self, root, &walk.files).await,
                            Depth::Thorough => HashSet::new(),
                        };
                        let mut examined = RootExamination { root, findings, adviser, conflicted };
                        examined.check_counts(&root_health, walk.incomplete);
                        examined.add_skipped(&walk.skipped);
                        examined.check_writable();
                        examined.check_disk_room();
                        examined.check_files(self, &walk.files, depth).await?;
                        examined.check_state(self, &walk.files).await;
                    }
                    Err(error) => {
                        health.findings.push(root_refused(bound.mount, &error));
                        root_health.unavailable = Some(error.to_string());
                    }
                }
            }
        }
        health.roots.push(root_health);
        Ok(())
    }

    /// Repairs all that can be repaired without loss. It recovers interrupted writes, removes their left-overs, drops
    /// pins and usage of deleted memories, and prunes history.
    pub async fn repair(&self) -> Result<RepairReport, StoreError> {
        let mut repaired = RepairReport::default();
        for bound in &self.mounts {
            let Ok(root) = &bound.root else { continue };
            if !matches!(root.backend.exists().await, Ok(true)) {
                continue;
            }
            let to_error = StoreError::backend_error(root.mount);
            let recovered = {
                let mut locked = root.lock(&self.store).await?;
                crate::recovery::recover(&self.store, &mut locked).await?
            };
            if recovered.completed > 0 {
                repaired.actions.push(format!(
                    "{}: completed or removed {} left-overs of interrupted writes",
                    bound.mount, recovered.completed
                ));
            }
            for name in recovered.restored {
                repaired.actions.push(format!(
                    "{}: restored `{name}`, which was edited outside during an interrupted write",
                    bound.mount
                ));
            }
            let walk = root.backend.walk(None, Extent::ALL).await.map_err(&to_error)?;
            let orphaned = orphans(self, root, &walk.files).await;
            if !orphaned.is_empty() {
                self.store.state.drop_usage(&root.key.identity, Some(&orphaned)).await?;
                repaired.actions.push(format!(
                    "{}: dropped pins and usage of {} memories that are gone",
                    bound.mount,
                    orphaned.len()
                ));
            }
        }
        let pruned = self.store.prune().await?;
        if pruned.changes > 0 {
            repaired.actions.push(format!("history: dropped {} old changes", pruned.changes));
        }
        let health = self.health(Depth::Thorough).await?;
        repaired.remaining = health.findings;
        repaired.advice = health.advice;
        Ok(repaired)
    }
}

struct RootExamination<'a> {
    root: &'a Root,
    findings: &'a mut Vec<HealthFinding>,
    adviser: Adviser<'a>,
    /// The paths of memories with a merge conflict, as a quick check finds them.
    conflicted: HashSet<String>,
}

impl RootExamination<'_> {
    fn add(&mut self, kind: HealthFindingKind, subject: String, detail: &str, fixable: bool) {
        let finding = HealthFinding::new(kind, Some(self.root.mount), subject, detail.to_owned());
        self.findings.push(HealthFinding { fixable, ..finding });
    }

    fn check_counts(&mut self, health: &RootHealth, incomplete: bool) {
        if health.files > health.files_max {
            let detail = format!(
                "holds {} memories; {} are allowed, so no new ones can be created",
                health.files, health.files_max
            );
            self.add(HealthFindingKind::OverFull, self.root.mount.to_string(), &detail, false);
        }
        if incomplete {
            let detail = "holds too many files; not all of them were checked";
            self.add(HealthFindingKind::OverFull, self.root.mount.to_string(), detail, false);
        }
    }

    fn add_skipped(&mut self, skipped: &[SkippedEntry]) {
        for SkippedEntry { name, reason } in skipped {
            let (kind, detail, fixable) = match reason {
                SkipReason::Unaddressable => (
                    HealthFindingKind::UnaddressableName,
                    "no memory path can name it; rename it by hand",
                    false,
                ),
                SkipReason::TooDeep => (
                    HealthFindingKind::UnaddressableName,
                    "is too deep for a memory path; move it up by hand",
                    false,
                ),
                SkipReason::Link => {
                    (HealthFindingKind::Link, "is a link, and links are not followed", false)
                }
                SkipReason::Special => {
                    (HealthFindingKind::NotAFile, "is neither a file nor a folder", false)
                }
                SkipReason::Unreadable => (
                    HealthFindingKind::Unreadable,
                    "cannot be read; check its owner and permissions",
                    false,
                ),
                SkipReason::Temporary => (
                    HealthFindingKind::LeftOverTemporary,
                    "is a left-over of an interrupted write",
                    true,
                ),
            };
            self.add(kind, name.clone(), detail, fixable);
        }
    }

    fn check_writable(&mut self) {
        if let Some(folder) = self.root.backend.folder()
            && !host_fs::is_writable(&folder)
        {
            let mount = self.root.mount;
            self.findings.push(unwritable(Some(mount), mount.to_string()));
        }
    }

    fn check_disk_room(&mut self) {
        if let Some(folder) = self.root.backend.folder() {
            self.findings.extend(disk_full(Some(self.root.mount), &folder));
        }
    }

    async fn check_files(
        &mut self,
        memories: &Memories,
        files: &[WalkedFile],
        depth: Depth,
    ) -> Result<(), StoreError> {
        let heads = document_heads(self.root, files).await;
        let heads = heads.map_err(StoreError::backend_error(self.root.mount))?;
        for (file, head) in files.iter().zip(heads) {
            let Ok(path) = virtual_path(self.root.mount, file.path.clone()) else {
                let name = file.path.to_string();
                self.add_skipped(&[SkippedEntry { name, reason: SkipReason::TooDeep }]);
                continue;
            };
            let path = path.to_string();
            if usize::try_from(file.stat.bytes).is_ok_and(|bytes| bytes <= MEMORY_BYTES_MAX) {
                self.check_file(memories, (file, &head), path, depth).await?;
            } else {
                let detail = "is larger than a memory may be; it can be viewed in part, renamed \
                              or deleted, not edited";
                self.add(HealthFindingKind::OverCap, path, detail, false);
            }
        }
        Ok(())
    }

    async fn check_file(
        &mut self,
        memories: &Memories,
        (file, head): (&WalkedFile, &FileSummary),
        path: String,
        depth: Depth,
    ) -> Result<(), StoreError> {
        if head.is_text
            && let Some(why) = &head.head.malformed
        {
            let detail = format!("its frontmatter cannot be parsed: {why}");
            self.add(HealthFindingKind::MalformedFrontmatter, path.clone(), &detail, false);
        }
        let mut is_text = head.is_text;
        if depth == Depth::Quick && self.conflicted.contains(&path) {
            let detail = "has a merge conflict that was not resolved; keep what is right and \
                          remove its markers";
            self.add(HealthFindingKind::ConflictMarker, path.clone(), detail, false);
        }
        if depth == Depth::Thorough && is_text {
            let Ok(read) = self.root.backend.read(&file.path, MEMORY_BYTES_MAX).await else {
                self.add(HealthFindingKind::Unreadable, path, "cannot be read", false);
                return Ok(());
            };
            match str::from_utf8(&read.bytes) {
                Ok(text) if !text.contains('\0') => {
                    self.check_screening(memories, &path, text);
                    self.check_text(&path, head, text);
                }
                _ => is_text = false,
            }
        }
        if !is_text {
            let detail = "is not UTF-8 text; it is left alone";
            self.add(HealthFindingKind::NotText, path, detail, false);
        }
        Ok(())
    }

    /// Checks for traces of merges, and collects advice.
    fn check_text(&mut self, path: &str, head: &FileSummary, text: &str) {
        if head.generated {
            return;
        }
        if let Some(line) = conflict_line(text) {
            let detail = format!(
                "line {line} begins a merge conflict that was not resolved; keep what is right and \
                 remove its markers"
            );
            self.add(HealthFindingKind::ConflictMarker, path.to_owned(), &detail, false);
            // No advice: the sides of a conflict repeat entries.
            return;
        }
        if let Some(line) = second_frontmatter_line(text) {
            let detail = format!(
                "line {line} begins a second block of frontmatter, which is read as text; move its \
                 fields into the first"
            );
            self.add(HealthFindingKind::SecondFrontmatter, path.to_owned(), &detail, false);
        }
        self.adviser.examine(path, &head.head, text);
    }

    fn check_screening(&mut self, memories: &Memories, path: &str, text: &str) {
        let mut rules: Vec<_> = memories
            .store
            .screen
            .check(text, TextAuthor::Agent)
            .into_iter()
            .filter(|finding| finding.policy == Policy::Refuse)
            .map(|finding| (finding.rule, finding.line, ValueDigest::new(&finding, text)))
            .collect();
        rules.dedup_by_key(|finding| finding.0);
        for (rule, line, digest) in rules {
            let detail = format!(
                "line {line} matches the screening rule `{rule}`; if that is harmless, add \"{}\" to \
                 `allowed` under [screening] in config.toml",
                digest.as_str()
            );
            self.add(HealthFindingKind::Screened, path.to_owned(), &detail, false);
        }
    }

    async fn check_state(&mut self, memories: &Memories, files: &[WalkedFile]) {
        let orphaned = orphans(memories, self.root, files).await;
        for path in orphaned {
            let detail = "is gone, but its pin and usage are still recorded";
            self.add(HealthFindingKind::OrphanedState, path.to_string(), detail, true);
        }
        // The next checkpoint closes open changes of a write that ended. Only a dead writer is a finding.
        // Checked twice, because a live writer may start and end between the queries.
        let store = &memories.store;
        if self.root.may_be_interrupted(store).await
            && self.root.backend.holder().await.is_none()
            && self.root.may_be_interrupted(store).await
            && let Ok(open) = memories.store.state.open_changes(&self.root.key.place).await
            && !open.is_empty()
        {
            let detail = format!(
                "a write was interrupted: {} changes are recorded, but may not be on the disk yet",
                open.len()
            );
            let subject = self.root.mount.to_string();
            self.add(HealthFindingKind::InterruptedCommit, subject, &detail, true);
        }
    }
}

/// Returns the paths of memories with a merge conflict, without those that are too large.
async fn conflicted(memories: &Memories, root: &Root, files: &[WalkedFile]) -> HashSet<String> {
    let is_memory = |file: &&WalkedFile| {
        usize::try_from(file.stat.bytes).is_ok_and(|bytes| bytes <= MEMORY_BYTES_MAX)
    };
    let paths = files.iter().filter(is_memory);
    let paths: Vec<_> =
        paths.filter_map(|file| virtual_path(root.mount, file.path.clone()).ok()).collect();
    let found = memories.text_findings(&paths.iter().collect::<Vec<_>>()).await;
    let found = paths.iter().zip(found).filter(|(_, findings)| findings.in_conflict);
    found.map(|(path, _)| path.to_string()).collect()
}

/// Returns the paths with a pin or usage but no file, neither here nor in another checkout of the same project.
async fn orphans(memories: &Memories, root: &Root, files: &[WalkedFile]) -> Vec<RelativePath> {
    let existing: HashSet<&RelativePath> = files.iter().map(|file| &file.path).collect();
    let marks = memories.usage_by_path(&root.key).await;
    let mut missing = Vec::new();
    for path in marks.into_keys().filter(|path| !existing.contains(path)) {
        // The memory may exist in a folder that cannot be read.
        if !matches!(root.backend.kind(&path).await, Err(BackendError::Io { .. })) {
            missing.push(path);
        }
    }
    if missing.is_empty() {
        return missing;
    }
    // A memory that this root never had belongs to another worktree.
    let heads = memories.store.state.heads(&root.key.place, ChangeId(0)).await.unwrap_or_default();
    let recorded: HashSet<_> = heads.iter().map(|head| &head.path).collect();
    missing.retain(|path| recorded.contains(path));
    // A memory in another worktree may never have been recorded there, so check the files.
    for other in sibling_checkouts(root) {
        let mut still_missing = Vec::with_capacity(missing.len());
        for path in missing {
            if matches!(other.kind(&path).await, Ok(None) | Err(BackendError::WrongKind)) {
                still_missing.push(path);
            }
        }
        missing = still_missing;
    }
    missing.sort();
    missing
}

/// Returns the roots of the same project in other checkouts of its repository, for reading only.
fn sibling_checkouts(root: &Root) -> Vec<LocalBackend> {
    let Some(folder) = root.backend.folder() else { return Vec::new() };
    let in_checkout: PathBuf = PROJECT_FOLDER.iter().collect();
    if root.mount != Mount::Scope(Scope::Project) || !folder.ends_with(&in_checkout) {
        return Vec::new();
    }
    let Some(checkout) = folder.ancestors().nth(PROJECT_FOLDER.len()) else { return Vec::new() };
    let others = other_checkouts(checkout).into_iter();
    others
        .map(|other| {
            let root_dir = RootDir::new(other, &PROJECT_FOLDER, Privacy::Shared);
            // It is never locked, so it needs no lock file.
            LocalBackend::new(root_dir, PathBuf::new())
        })
        .collect()
}

fn root_refused(mount: Mount, error: &BackendError) -> HealthFinding {
    HealthFinding::new(
        HealthFindingKind::RootRefused,
        Some(mount),
        mount.to_string(),
        error_chain(error),
    )
}

fn unwritable(mount: Option<Mount>, subject: String) -> HealthFinding {
    let detail = "cannot be written; check its owner and permissions".to_owned();
    HealthFinding::new(HealthFindingKind::Unwritable, mount, subject, detail)
}

/// Returns a finding if the disk of a folder is full.
fn disk_full(mount: Option<Mount>, folder: &Path) -> Option<HealthFinding> {
    let left = host_fs::available_bytes(folder).filter(|&left| left < DISK_BYTES_LEFT_MIN)?;
    let detail = format!("its disk has {left} bytes left; free some space");
    let subject = folder.display().to_string();
    Some(HealthFinding::new(HealthFindingKind::DiskFull, mount, subject, detail))
}

fn state_damage(detail: String) -> HealthFinding {
    let subject = "the state database".to_owned();
    HealthFinding {
        fixable: true,
        ..HealthFinding::new(HealthFindingKind::StateDamaged, None, subject, detail)
    }
}

fn state_fault(error: &StateError) -> HealthFinding {
    let damage = state_damage(error_chain(error));
    match error {
        StateError::Damaged { .. } => damage,
        _ => HealthFinding { kind: HealthFindingKind::StateUnavailable, fixable: false, ..damage },
    }
}

/// Returns an error and its causes in one line.
fn error_chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text = format!("{text}: {error}");
        cause = error.source();
    }
    text
}
