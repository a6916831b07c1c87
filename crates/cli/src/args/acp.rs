//! The grammar of tasks over the Agent Client Protocol.

use clap::Args;

/// Do tasks for a client that speaks the Agent Client Protocol on stdin and stdout
///
/// A client starts this; so does the daemon, which has tasks decided in a process of their own. It offers what
/// `quipu remember`, `forget` and `dream` do as the ext-methods `qwen/control/workspace/memory/…`, and holds no
/// conversation: asking for a session is an error. The project is that of the current folder, or the `cwd` of a call,
/// unless `--project` or `--flat` says which.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  quipu acp
  quipu --acp                        the same, for clients that know no commands
  quipu acp --project ~/src/app")]
pub(crate) struct Acp {}
