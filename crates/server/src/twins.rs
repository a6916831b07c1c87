//! Conversions between enums of the engine and enums of the wire with the same values.
//!
//! The wire's crate depends on no other crate, so such enums are defined twice. A value that only one side has is a
//! compile error here.

use engine::feed::ContextWrite;
use engine::{
    ContextMode, ImportStyle, LoadScope, MemoryTopic, MessageRole, Order, Status, TaskKind,
};
use protocol::context_files::{self, ImportFormat, WriteMode};
use protocol::conversation::TurnRole;
use protocol::memories::Sort;
use protocol::task::{self, TaskStatus, WorkKind};

/// An enum that has the same values as `T`.
pub(crate) trait Twin<T> {
    /// Returns the same value on the other side.
    fn twin(self) -> T;
}

macro_rules! twins {
    ($($engine:ty = $wire:ty { $($value:ident),+ })+) => {$(
        impl Twin<$wire> for $engine {
            fn twin(self) -> $wire {
                match self { $(Self::$value => <$wire>::$value,)+ }
            }
        }

        impl Twin<$engine> for $wire {
            fn twin(self) -> $engine {
                match self { $(Self::$value => <$engine>::$value,)+ }
            }
        }
    )+};
}

twins! {
    TaskKind = WorkKind { Remember, Forget, Dream, Review }
    Status = TaskStatus { Queued, Running, Completed, Failed }
    MemoryTopic = task::Topic { User, Feedback, Project, Reference }
    ContextMode = task::ContextMode { Workspace, Clean }
    LoadScope = context_files::LoadScope { Global, Project, Included, Extension }
    ContextWrite = WriteMode { Append, Replace }
    ImportStyle = ImportFormat { Tree, Flat }
    MessageRole = TurnRole { User, Assistant, Tool }
    Order = Sort { Path, Modified, Uses, Bytes }
}
