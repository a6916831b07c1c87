//! Comparisons with other programs in process: the Python SDK's memory tool and Qwen Code.
//!
//! They run as their makers publish them. The conditions of each section name what they do not do, such as history,
//! durable writes and locks.

pub(crate) mod context_loader;

pub(crate) mod python_sdk;
