//! What a client is told when the machine failed: a code and a sentence that is the same for every
//! such failure. The log gets the chain of causes, which may name folders.

use engine::StoreError;
use memory::code::Code;

use crate::chain;

/// Logs a failure, which goes no further, and returns its code.
pub(super) fn log(what: &str, error: &StoreError) -> Code {
    let code = error.code();
    tracing::error!(what, %code, error = chain(error), "the machine failed");
    code
}
