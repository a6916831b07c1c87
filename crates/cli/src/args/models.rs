//! The commands about models.

/// List the models that do the work of agents, and ask each whether it is there
///
/// `[models]` in config.toml names them. Each is asked to call a tool: the answer shows whether it is reached, whether
/// the key is taken, how long it takes, and whether it can do the work at all. That costs some hundred tokens.
#[derive(Debug, clap::Args)]
pub(crate) struct ModelsArgs {
    /// List them without asking
    #[arg(long)]
    pub(crate) no_check: bool,
}

/// List what models did for tasks and prompts: how long it took, tokens, cost where the provider tells it, and how it ended
#[derive(Debug, clap::Args)]
pub(crate) struct Runs {
    /// At most N, the latest
    #[arg(long, short = 'n', value_name = "N", default_value_t = 20)]
    pub(crate) max: usize,
}
