//! The memories one caller may touch.

use std::path::PathBuf;
use std::sync::Arc;

use memory::access::{Access, access};
use memory::change::{Actor, ChangeId, RootKey};
use memory::clock::Timestamp;
use memory::command::{CommandError, Warning};
use memory::document::Revision;
use memory::feature::{Feature, Features};
use memory::path::{Layout, MemoryPath, Mount, Scope};
use memory::screen::{UnknownRule, rule_or_family};
use memory::usage::Usage;

use crate::backend::local::LocalBackend;
use crate::backend::{Backend, Stamp};
use crate::binding::{Binding, RootSpec};
use crate::caller::Caller;
use crate::error::StoreError;
use crate::root::Root;
use crate::store::Store;

/// A memory as read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryText {
    /// Its text.
    pub text: String,
    /// The digest of its bytes.
    pub revision: Revision,
    /// When its file was last modified.
    pub modified_at: Timestamp,
}

/// What a save left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SavedMemory {
    /// The memory's revision afterwards.
    pub revision: Revision,
    /// The change recorded; `None` when the bytes were already these.
    pub change: Option<ChangeId>,
    /// Whether nothing was there before.
    pub created: bool,
    /// What screening warned of.
    pub warnings: Vec<Warning>,
}

/// A memory in a listing.
#[derive(Clone, Debug, PartialEq)]
pub struct MemoryEntry {
    /// Its path.
    pub path: MemoryPath,
    /// Its size.
    pub bytes: u64,
    /// When its file was last modified.
    pub modified_at: Timestamp,
    /// Its one-line description, or its first heading or line when it has none; empty when it has neither.
    pub description: String,
    /// Whether the description is its own.
    pub is_described: bool,
    /// Its `name`, if it has one.
    pub name: Option<String>,
    /// Its `type`, if it has one.
    pub kind: Option<String>,
    /// Whether a person pinned it.
    pub pinned: bool,
    /// How often it was used on this host.
    pub usage: Usage,
}

/// A listing of memories.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Listing {
    /// The memories, scope by scope, in byte order of their paths.
    pub memories: Vec<MemoryEntry>,
    /// How many more there are.
    pub omitted: usize,
    /// The mounts of which not all is listed: they are unavailable, or hold too much.
    pub incomplete_mounts: Vec<Mount>,
}

/// A memory that a survey came across.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScannedMemory {
    /// Its path.
    pub path: MemoryPath,
    /// Which version its file is; `None` if another write, of as many bytes, could leave the same stamp.
    pub stamp: Option<Stamp>,
    /// When its file was last modified.
    pub modified_at: Timestamp,
    /// Whether a person pinned it.
    pub pinned: bool,
    /// How often it was used.
    pub uses: u64,
    /// Whether it is not to be read: so much came with a repository that nobody trusts, and nobody here ever reviewed it.
    pub exceeds_untrusted_limit: bool,
}

/// One mount of a binding and what can be done with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountState {
    /// Which.
    pub mount: Mount,
    /// Why it is unavailable, in a sentence for people and models; `None` when it is available.
    pub unavailable: Option<String>,
    /// What this caller may do there.
    pub access: Access,
    /// The folder, for people; never shown to a model.
    pub folder: Option<PathBuf>,
    /// Its key in history.
    pub key: Option<RootKey>,
    /// How many memories it may hold.
    pub files_max: usize,
}

impl Store {
    /// Returns the memories that `binding` leads to, as `caller` may touch them.
    pub fn memories(self: &Arc<Self>, binding: Binding, caller: Caller) -> Memories {
        let read_only = binding.read_only;
        let mounts = binding.mounts.into_iter().map(|plan| {
            let access =
                if read_only { Access::ReadOnly } else { access(caller.class, plan.mount) };
            let mount = plan.mount;
            // Only a root in a checkout, or a flat one, never carries a listing.
            let in_checkout = mount != Mount::Flat
                && plan.root.as_ref().is_ok_and(|root| !root.may_generate_list);
            let root = plan.root.map(|root| self.local_root(mount, root));
            BoundMount { mount, access, root, in_checkout }
        });
        self.bind(binding.layout, mounts.collect(), caller)
    }

    fn bind(self: &Arc<Self>, layout: Layout, mounts: Vec<BoundMount>, caller: Caller) -> Memories {
        let (store, features) = (Arc::clone(self), Features::default());
        Memories { store, layout, mounts, caller, allowed_rules: Vec::new(), features }
    }

    /// Returns the root that a plan leads to; the same one for everybody in this process.
    fn local_root(&self, mount: Mount, plan: RootSpec) -> Arc<Root> {
        let mut roots = self.roots.lock();
        let root = roots.entry(plan.key.clone()).or_insert_with(|| {
            let lock = self.folders.lock_path(&plan.key.place);
            let has_list = plan.may_generate_list && self.settings.memory_list;
            let backend = Arc::new(LocalBackend::new(plan.root_dir, lock));
            Arc::new(
                Root::new(mount, plan.key, backend, has_list).with_checkout_record(plan.checkout),
            )
        });
        Arc::clone(root)
    }

    /// Returns the memories of roots that are given as they are; for backends other than folders
    /// of this machine, and for tests.
    pub fn memories_in(
        self: &Arc<Self>,
        roots: Vec<(Mount, RootKey, Arc<dyn Backend>)>,
        caller: Caller,
    ) -> Memories {
        let flat = roots.iter().any(|(mount, ..)| *mount == Mount::Flat);
        let mounts = roots.into_iter().map(|(mount, key, backend)| {
            let mut known = self.roots.lock();
            let has_list = self.settings.memory_list
                && matches!(mount, Mount::Scope(Scope::Global | Scope::Workspace));
            let root = known
                .entry(key.clone())
                .or_insert_with(|| Arc::new(Root::new(mount, key, backend, has_list)));
            let access = access(caller.class, mount);
            BoundMount { mount, access, root: Ok(Arc::clone(root)), in_checkout: false }
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
    /// The root, or why there is none.
    pub(crate) root: Result<Arc<Root>, String>,
    /// Whether its memories travel with a repository, so that anybody may have written them.
    pub(crate) in_checkout: bool,
}

/// The memories that one caller may touch. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Memories {
    pub(crate) store: Arc<Store>,
    pub(crate) layout: Layout,
    pub(crate) mounts: Vec<BoundMount>,
    pub(crate) caller: Caller,
    /// Rules and families that only warn this person; see [`Memories::with_allowed_rules`].
    pub(crate) allowed_rules: Vec<&'static str>,
    pub(crate) features: Features,
}

impl Memories {
    /// Returns how many memories a scope may hold.
    pub fn files_max(&self) -> usize {
        self.store.settings.files_max
    }

    /// Returns the same with only these features. Without memory, no scope is available.
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

    /// Returns which features are on.
    pub const fn features(&self) -> Features {
        self.features
    }

    /// Refuses if a feature is off.
    pub const fn check_feature(&self, feature: Feature) -> Result<(), CommandError> {
        if self.features.has(feature) {
            Ok(())
        } else {
            Err(CommandError::FeatureDisabled { feature })
        }
    }

    /// Returns what is mounted.
    pub const fn layout(&self) -> Layout {
        self.layout
    }

    /// Returns the mounts of this binding, available or not, in the order of the scopes.
    pub fn mounts(&self) -> Vec<MountState> {
        let state = |bound: &BoundMount| {
            let root = bound.root.as_ref();
            MountState {
                mount: bound.mount,
                unavailable: root.err().cloned(),
                access: bound.access,
                folder: root.ok().and_then(|root| root.backend.folder()),
                key: root.ok().map(|root| root.key.clone()),
                files_max: self.store.settings.files_max,
            }
        };
        self.mounts.iter().map(state).collect()
    }

    /// Returns the keys of the roots that are mounted.
    pub fn roots(&self) -> Vec<RootKey> {
        self.open_roots().map(|root| root.key.clone()).collect()
    }

    /// Returns the roots that are mounted and available.
    pub(crate) fn open_roots(&self) -> impl Iterator<Item = &Arc<Root>> {
        self.mounts.iter().filter_map(|bound| bound.root.as_ref().ok())
    }

    /// Returns who asks.
    pub const fn caller(&self) -> &Caller {
        &self.caller
    }

    /// Checks that the caller is a person who may write in these roots, as far as they are mounted.
    pub fn check_person(&self, roots: &[RootKey]) -> Result<(), StoreError> {
        let is_person = self.caller.provenance.actor == Actor::Person;
        let closed = self.mounts.iter().find(|bound| {
            let is_named = bound.root.as_ref().is_ok_and(|root| roots.contains(&root.key));
            is_named && !(is_person && bound.access == Access::ReadWrite)
        });
        match closed {
            Some(bound) => Err(CommandError::ReadOnly { mount: bound.mount }.into()),
            None => Ok(()),
        }
    }

    /// Returns these memories with screening rules, or families of them, that warn where they would
    /// refuse: the person has looked at the text and answers for it. Means nothing for an agent.
    pub fn with_allowed_rules(mut self, rules: &[String]) -> Result<Self, UnknownRule> {
        for rule in rules {
            self.allowed_rules.push(rule_or_family(rule)?);
        }
        Ok(self)
    }

    /// Returns these memories as another caller may touch them.
    #[must_use]
    pub fn for_caller(&self, caller: Caller) -> Self {
        let mut memories = Self { caller, allowed_rules: Vec::new(), ..self.clone() };
        for bound in &mut memories.mounts {
            // A binding that is read-only stays so, whoever calls.
            if bound.access == Access::ReadWrite {
                bound.access = access(memories.caller.class, bound.mount);
            }
        }
        memories
    }
}
