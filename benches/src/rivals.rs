//! Comparisons with other programs: npm's server-memory, the Python SDK's memory tool and Qwen Code.
//!
//! They run as their makers publish them. The conditions of each section name what they do not do, such as history,
//! durable writes and locks.

pub(crate) mod context_loader;

pub(crate) mod server_memory;

pub(crate) mod python_sdk;
