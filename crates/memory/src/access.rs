//! Access rules: the commands that each class of agent may use in each scope.
//!
//! A rule depends only on the class of the agent and the mount, never on files. It is checked before the store touches
//! anything.

use crate::path::{Mount, Scope};

/// The class of the calling agent, in descending order of rights. A person is always [`AgentClass::Exec`].
#[derive(strum::AsRefStr, strum::EnumString, strum::IntoStaticStr, strum::VariantArray)]
#[strum(serialize_all = "snake_case")]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum AgentClass {
    /// Executes work: may write everywhere.
    Exec,
    /// Plans work: may not write the memories that a project shares.
    Plan,
    /// Explores: may only read. Also the default for an unknown class, or none.
    Explore,
}

impl AgentClass {
    /// Parses the class in a request; an unknown word or none means [`AgentClass::Explore`].
    pub fn from_name(name: Option<&str>) -> Self {
        name.and_then(|name| name.parse().ok()).unwrap_or(Self::Explore)
    }

    /// Checks whether a caller of this class may act as one of `other`: every class has all rights of the classes after
    /// it.
    pub fn includes(self, other: Self) -> bool {
        self <= other
    }
}

/// The access of a caller to one mount.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// Every command.
    ReadWrite,
    /// `view` only.
    ReadOnly,
}

/// Returns the access of an agent of `class` to `mount`.
///
/// A flat mount may hold anything, so only an executing agent writes there.
pub fn access(class: AgentClass, mount: Mount) -> Access {
    match (class, mount) {
        (AgentClass::Exec, _)
        | (AgentClass::Plan, Mount::Scope(Scope::Global | Scope::Workspace)) => Access::ReadWrite,
        (AgentClass::Plan, Mount::Scope(Scope::Project) | Mount::Flat)
        | (AgentClass::Explore, _) => Access::ReadOnly,
    }
}

#[cfg(test)]
mod tests {
    use strum::VariantArray as _;

    use super::*;

    fn check(class: Option<&str>, expected: [Access; 4]) {
        let class = AgentClass::from_name(class);
        let mounts = [
            Mount::Scope(Scope::Global),
            Mount::Scope(Scope::Project),
            Mount::Scope(Scope::Workspace),
            Mount::Flat,
        ];
        assert_eq!(mounts.map(|mount| access(class, mount)), expected, "{class:?}");
    }

    #[test]
    fn a_class_includes_those_without_further_rights() {
        let mounts = Scope::VARIANTS.iter().copied().map(Mount::Scope).chain([Mount::Flat]);
        let mounts: Vec<_> = mounts.collect();
        for (class, other) in
            AgentClass::VARIANTS.iter().flat_map(|a| AgentClass::VARIANTS.iter().map(|b| (*a, *b)))
        {
            let writes = |class, mount| access(class, mount) == Access::ReadWrite;
            let may_all = mounts.iter().all(|&it| writes(class, it) || !writes(other, it));
            assert_eq!(class.includes(other), may_all, "{class:?} {other:?}");
            assert_eq!(class.as_ref().parse(), Ok(class));
        }
        assert!("robot".parse::<AgentClass>().is_err());
    }

    #[test]
    fn only_an_executing_agent_writes_everywhere() {
        use Access::{ReadOnly, ReadWrite};
        check(Some("exec"), [ReadWrite; 4]);
        check(Some("plan"), [ReadWrite, ReadOnly, ReadWrite, ReadOnly]);
        check(Some("explore"), [ReadOnly; 4]);
        check(Some("EXEC"), [ReadOnly; 4]);
        check(Some(""), [ReadOnly; 4]);
        check(None, [ReadOnly; 4]);
    }
}
