//! What a client is told when the machine failed: a code and a sentence that is the same for every
//! such failure. The log gets the chain of causes, which may name folders.

use std::error::Error;
use std::fmt::Write as _;

use engine::StoreError;
use memory::code::Code;

/// Logs a failure, which goes no further, and returns its code.
pub(super) fn log(what: &str, error: &StoreError) -> Code {
    let code = error.code();
    tracing::error!(what, %code, error = chain(error), "the machine failed");
    code
}

/// Returns an error's message with those of its causes.
pub(super) fn chain(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        // Writing to a string cannot fail.
        let _written = write!(text, ": {error}");
        cause = error.source();
    }
    text
}
