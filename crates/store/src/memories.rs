//! The memories that one caller may use, as a value.
//!
//! [`Store::memories`] combines a binding and a caller to [`Memories`]. This file defines that
//! type, its mounts and the types of its results. The operations are in other files: reads in
//! `view`, writes in `apply` and `draft`, undo in `history`, and review in `unreviewed`.

use std::collections::HashMap;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::SystemTime;

use memory::access::{Access, access};
use memory::change::{Actor, ChangeId, RootKey};
use memory::clock::Timestamp;
use memory::command::{CommandError, Warning};
use memory::document::{Revision, Rules};
use memory::feature::{Feature, Features};
use memory::path::{Layout, MemoryPath, Mount, Scope};
use memory::screen::{UnknownRule, rule_or_family};
use memory::usage::Usage;

use crate::backend::local::LocalBackend;
use crate::backend::remote::{ConnectError, KnownPlace, RemoteBackend, RemoteContext};
use crate::backend::{Backend, Freshness, ListVersion, Stamp};
use crate::binding::{
    Binding, RootFiles, RootSpec, WorkspaceId, remote_place, workspace_of_identity,
};
use crate::caller::Caller;
use crate::context_files::RemoteProjectFiles;
use crate::error::StoreError;
use crate::host_fs;
use crate::remote_folder::RemoteFolder;
use crate::root::Root;
use crate::store::Store;

/// The text of a memory, with its revision and time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryText {
    /// Its text.
    pub text: String,
    /// The digest of its bytes.
    pub revision: Revision,
    /// Time of its last modification.
    pub modified_at: Timestamp,
}

/// Result of a save.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedMemory {
    /// The memory's revision afterwards.
    pub revision: Revision,
    /// The recorded change; `None` if the memory already had these bytes.
    pub change: Option<ChangeId>,
    /// Whether the memory is new.
    pub created: bool,
    /// Warnings of screening.
    pub warnings: Vec<Warning>,
}

/// A memory in a listing.
#[derive(Clone, Debug, PartialEq)]
pub struct MemoryEntry {
    /// Its path.
    pub path: MemoryPath,
    /// Size in bytes.
    pub bytes: u64,
    /// Time of its last modification.
    pub modified_at: Timestamp,
    /// Its one-line description, or its first heading or line when it has none; empty when it has neither.
    pub description: String,
    /// Whether the description is from its frontmatter.
    pub is_described: bool,
    /// Its `name`, if it has one.
    pub name: Option<String>,
    /// Its `type`, if it has one.
    pub kind: Option<String>,
    /// The rules for agents that it holds. Headings beyond the start of the file are not seen.
    pub rules: Rules,
    /// Whether a person pinned it.
    pub pinned: bool,
    /// Its usage on this host.
    pub usage: Usage,
}

/// A listing of memories.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Listing {
    /// The memories, scope by scope, in byte order of their paths.
    pub memories: Vec<MemoryEntry>,
    /// Number of memories that are not listed.
    pub omitted: usize,
    /// Mounts whose listing is incomplete: they are unavailable, or hold too much.
    pub incomplete_mounts: Vec<Mount>,
}

/// A memory that a scan found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScannedMemory {
    /// Its path.
    pub path: MemoryPath,
    /// Stamp of its file; `None` if another write of the same size could leave the same stamp.
    pub stamp: Option<Stamp>,
    /// Time of its last modification.
    pub modified_at: Timestamp,
    /// Whether a person pinned it.
    pub pinned: bool,
    /// Number of uses.
    pub uses: u64,
    /// Whether it must not be read: it was never reviewed on this host, and its untrusted project holds more than
    /// the limit.
    pub exceeds_untrusted_limit: bool,
}

/// A version of all that a caller may be shown. While it is equal, no memory, record or trusted folder changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoriesVersion {
    /// The list of files and the number of writes of each available root.
    roots: Vec<(ListVersion, u64)>,
    trust: Option<SystemTime>,
}

/// A memory whose file may have changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChangedMemory {
    /// Its path.
    pub path: MemoryPath,
    /// Whether there is a file.
    pub exists: bool,
    /// Stamp of its file, as in [`ScannedMemory`].
    pub stamp: Option<Stamp>,
}

impl MemoriesVersion {
    /// Returns the version of the list of each available root, in the order of the mounts.
    pub(crate) fn lists(&self) -> impl Iterator<Item = ListVersion> {
        self.roots.iter().map(|(list, _)| *list)
    }
}

/// One mount of a binding, with the access of the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountState {
    /// The mount.
    pub mount: Mount,
    /// Reason why it is unavailable, as a sentence for people and models; `None` if it is available.
    pub unavailable: Option<String>,
    /// Access of this caller.
    pub access: Access,
    /// Its folder, for people. It is never shown to a model.
    pub folder: Option<PathBuf>,
    /// Its key in history.
    pub key: Option<RootKey>,
    /// Maximum number of memories.
    pub files_max: usize,
}

/// The folder in the state with the identities of remote folders.
const REMOTES_FOLDER: &str = "remotes";

impl Store {
    /// Returns the memories of `binding`, as `caller` may use them.
    pub fn memories(self: &Arc<Self>, binding: Binding, caller: Caller) -> Memories {
        let read_only = binding.read_only;
        let mounts = binding.mounts.into_iter().map(|spec| {
            let access =
                if read_only { Access::ReadOnly } else { access(caller.class, spec.mount) };
            let mount = spec.mount;
            // Roots in a checkout and flat roots never carry a generated index.
            let in_checkout =
                mount != Mount::Flat && spec.root.as_ref().is_ok_and(|root| !root.is_hosted);
            let root = spec.root.map(|root| self.open_root(mount, root));
            BoundMount { mount, access, root, in_checkout }
        });
        self.bind(binding.layout, mounts.collect(), caller)
    }

    fn bind(self: &Arc<Self>, layout: Layout, mounts: Vec<BoundMount>, caller: Caller) -> Memories {
        let (store, features) = (Arc::clone(self), Features::default());
        Memories { store, layout, mounts, caller, allowed_rules: Vec::new(), features }
    }

    /// Returns the root for a spec. All callers in this process share it.
    fn open_root(&self, mount: Mount, mut spec: RootSpec) -> Arc<Root> {
        let hosted = self.settings.hosted.as_ref().filter(|_| spec.is_hosted);
        if hosted.is_some() {
            // All daemons of a database give a root the same place, whatever their folders are.
            spec.key.place.clone_from(&spec.key.identity);
        }
        let mut roots = self.roots.lock();
        let root = roots.entry(spec.key.clone()).or_insert_with(|| {
            if let Some(hosted) = hosted {
                let backend = hosted.root(&spec.key.place);
                return Arc::new(Root::new(mount, spec.key, backend, false));
            }
            let has_list = spec.is_hosted && self.settings.memory_list;
            let remote = match &spec.files {
                RootFiles::Local(_) => None,
                RootFiles::Remote(folder) => Some(folder.clone()),
            };
            let backend = self.backend(spec.files, &spec.key.place);
            let root = Root::new(mount, spec.key, backend, has_list).with_remote(remote);
            Arc::new(root.with_checkout_record(spec.checkout))
        });
        Arc::clone(root)
    }

    /// Returns the workspaces with rows in the database, in order of their ids; `None` if workspaces are folders.
    pub async fn hosted_workspaces(&self) -> Result<Option<Vec<WorkspaceId>>, StoreError> {
        let Some(hosted) = &self.settings.hosted else { return Ok(None) };
        let to_error = StoreError::backend_error(Mount::Scope(Scope::Workspace));
        // The place of such a root is its identity.
        let places = hosted.places().await.map_err(to_error)?;
        let ids = places.iter().filter_map(|place| workspace_of_identity(place)).collect();
        Ok(Some(ids))
    }

    /// Forgets the identity of the folder at an address, so that another one is accepted there. Returns whether it had
    /// one.
    pub fn forget_remote(&self, folder: &RemoteFolder) -> io::Result<bool> {
        match host_fs::remove_file(&self.identity_file(&remote_place(folder))) {
            Ok(()) => Ok(true),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Connects to the machine of a folder now, unless it is connected.
    pub async fn connect(&self, folder: &RemoteFolder) -> Result<(), ConnectError> {
        self.link(folder.host()).connect().await
    }

    /// Returns a loader of the context files of a project on another machine.
    pub fn remote_context(&self, folder: &RemoteFolder) -> Arc<dyn RemoteProjectFiles> {
        let place = KnownPlace::new(self.identity_file(&remote_place(folder)));
        Arc::new(RemoteContext::new(self.link(folder.host()), folder.clone(), place))
    }

    fn identity_file(&self, place: &str) -> PathBuf {
        self.folders.state.join(REMOTES_FOLDER).join(place)
    }

    fn backend(&self, files: RootFiles, place: &str) -> Arc<dyn Backend> {
        match files {
            RootFiles::Local(root_dir) => {
                let (lock, observer) = (self.folders.lock_path(place), Arc::clone(&self.observer));
                Arc::new(LocalBackend::with_observer(root_dir, lock, observer))
            }
            RootFiles::Remote(folder) => {
                let identity_file = self.identity_file(place);
                let link = self.link(folder.host());
                Arc::new(RemoteBackend::new(link, folder.path().to_vec(), identity_file))
            }
        }
    }

    /// Returns the memories of these roots; for backends other than local folders, and for tests.
    pub fn memories_in(
        self: &Arc<Self>,
        roots: Vec<(Mount, RootKey, Arc<dyn Backend>)>,
        caller: Caller,
    ) -> Memories {
        let flat = roots.iter().any(|(mount, ..)| *mount == Mount::Flat);
        let mounts = roots.into_iter().map(|(mount, key, backend)| {
            let mut open_roots = self.roots.lock();
            let has_list = self.settings.memory_list
                && matches!(mount, Mount::Scope(Scope::Global | Scope::Workspace));
            let root = open_roots
                .entry(key.clone())
                .or_insert_with(|| Arc::new(Root::new(mount, key, backend, has_list)));
            let access = access(caller.class, mount);
            let in_checkout = mount == Mount::Scope(Scope::Project);
            BoundMount { mount, access, root: Ok(Arc::clone(root)), in_checkout }
        });
        let layout = if flat { Layout::Flat } else { Layout::Scoped };
        self.bind(layout, mounts.collect(), caller)
    }
}

/// One mount of a caller.
#[derive(Clone, Debug)]
pub(crate) struct BoundMount {
    pub(crate) mount: Mount,
    pub(crate) access: Access,
    /// The root, or the reason why there is none.
    pub(crate) root: Result<Arc<Root>, String>,
    /// Whether its memories travel with a repository, so that their writers are unknown.
    pub(crate) in_checkout: bool,
}

impl BoundMount {
    /// Returns the reason why the mount is unavailable. A machine that is out of reach may be back with the next call.
    fn unavailable(&self) -> Option<String> {
        match &self.root {
            Ok(root) => root.backend.unreachable(),
            Err(reason) => Some(reason.clone()),
        }
    }
}

/// The memories that one caller may use. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Memories {
    pub(crate) store: Arc<Store>,
    pub(crate) layout: Layout,
    pub(crate) mounts: Vec<BoundMount>,
    pub(crate) caller: Caller,
    /// Screening rules and families that only warn this person; see [`Memories::with_allowed_rules`].
    pub(crate) allowed_rules: Vec<&'static str>,
    pub(crate) features: Features,
}

impl Memories {
    /// Returns the maximum number of memories in a scope.
    pub fn files_max(&self) -> usize {
        self.store.settings.files_max
    }

    /// Returns these memories with only these features. Without the feature `Memory`, no scope is available.
    #[must_use]
    pub fn with_features(mut self, features: Features) -> Self {
        self.features = self.features.and(features);
        if !self.features.has(Feature::Memory) {
            for bound in &mut self.mounts {
                bound.root = Err("memory is switched off".to_owned());
            }
        }
        self
    }

    /// Returns the enabled features.
    pub const fn features(&self) -> Features {
        self.features
    }

    /// Returns an error if the feature is disabled.
    pub const fn check_feature(&self, feature: Feature) -> Result<(), CommandError> {
        if self.features.has(feature) {
            Ok(())
        } else {
            Err(CommandError::FeatureDisabled { feature })
        }
    }

    /// Returns the layout of the mounts.
    pub const fn layout(&self) -> Layout {
        self.layout
    }

    /// Returns the mounts of this binding, available or not, in the order of the scopes.
    pub fn mounts(&self) -> Vec<MountState> {
        let state = |bound: &BoundMount| {
            let root = bound.root.as_ref();
            MountState {
                mount: bound.mount,
                unavailable: bound.unavailable(),
                access: bound.access,
                folder: root.ok().and_then(|root| root.backend.folder()),
                key: root.ok().map(|root| root.key.clone()),
                files_max: self.store.settings.files_max,
            }
        };
        self.mounts.iter().map(state).collect()
    }

    /// Returns the keys of the available roots.
    pub fn roots(&self) -> Vec<RootKey> {
        self.open_roots().map(|root| root.key.clone()).collect()
    }

    /// Returns the version of these memories. It costs little where the system reports changes of files. Returns
    /// `None` while a write is in progress, and where a version is unknown. Pins and uses have no version.
    pub async fn version(&self) -> Option<MemoriesVersion> {
        // Read first, so that a change in between gives another version next time.
        let trust = self.trust_version();
        let mut roots = Vec::with_capacity(self.mounts.len());
        for root in self.open_roots() {
            let (writes, list) = tokio::join!(
                root.backend.write_count(Freshness::Noticed),
                root.backend.list(Freshness::Noticed)
            );
            roots.push((list.ok()?.version, writes?));
        }
        Some(MemoriesVersion { roots, trust })
    }

    /// Returns a number that rises with each use that this process notes.
    pub fn uses_noted(&self) -> u64 {
        self.store.uses_noted.load(Ordering::Relaxed)
    }

    /// Returns the number of uses of each memory that was used.
    pub async fn use_counts(&self) -> HashMap<MemoryPath, u64> {
        let mut counts = HashMap::new();
        for bound in &self.mounts {
            let Ok(root) = &bound.root else { continue };
            let rows = self.usage_by_path(&root.key).await.into_iter();
            let used = rows.filter(|(_, row)| row.usage.uses > 0);
            counts.extend(used.filter_map(|(path, row)| {
                Some((MemoryPath::inside(bound.mount, path).ok()?, row.usage.uses))
            }));
        }
        counts
    }

    /// Returns the available roots.
    pub(crate) fn open_roots(&self) -> impl Iterator<Item = &Arc<Root>> {
        self.mounts.iter().filter_map(|bound| bound.root.as_ref().ok())
    }

    /// Returns the caller.
    pub const fn caller(&self) -> &Caller {
        &self.caller
    }

    /// Checks that the caller is a person who may write in these roots, as far as they are mounted.
    pub fn check_person(&self, roots: &[RootKey]) -> Result<(), StoreError> {
        let is_person = self.caller.provenance.actor == Actor::Person;
        let denied = self.mounts.iter().find(|bound| {
            let is_named = bound.root.as_ref().is_ok_and(|root| roots.contains(&root.key));
            is_named && !(is_person && bound.access == Access::ReadWrite)
        });
        match denied {
            Some(bound) => Err(CommandError::ReadOnly { mount: bound.mount }.into()),
            None => Ok(()),
        }
    }

    /// Returns these memories with screening rules, or families of rules, that only warn: the person has checked
    /// the text and answers for it. Has no effect for an agent.
    pub fn with_allowed_rules(mut self, rules: &[String]) -> Result<Self, UnknownRule> {
        for rule in rules {
            self.allowed_rules.push(rule_or_family(rule)?);
        }
        Ok(self)
    }

    /// Returns these memories as another caller may use them.
    #[must_use]
    pub fn for_caller(&self, caller: Caller) -> Self {
        let mut memories = Self { caller, allowed_rules: Vec::new(), ..self.clone() };
        for bound in &mut memories.mounts {
            // A read-only binding stays read-only for every caller.
            if bound.access == Access::ReadWrite {
                bound.access = access(memories.caller.class, bound.mount);
            }
        }
        memories
    }
}
