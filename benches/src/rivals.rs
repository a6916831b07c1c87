//! Other memories, side by side with ours. They are driven as their makers publish them, with what
//! they offer; what they do not do (history, durable writes, locks) is said beside the figures.

pub(crate) mod context_loader;

pub(crate) mod server_memory;

pub(crate) mod python_sdk;
