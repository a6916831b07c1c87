//! The grammar of the commands about models: `models` and `runs`.

/// List and test the models that work on tasks
///
/// `[models]` in config.toml names them. Each model is asked to call a tool. The answer shows whether it can be reached,
/// accepts the key and can call tools, and how long that takes. It costs some hundred tokens.
#[derive(Debug, clap::Args)]
pub(crate) struct ModelsArgs {
    /// List the models without testing them
    #[arg(long)]
    pub(crate) no_check: bool,
}

/// List the runs of models for tasks and prompts
///
/// Each line has the duration, the tokens, the cost if the provider reports it, and the result.
#[derive(Debug, clap::Args)]
pub(crate) struct Runs {
    /// List at most the last N runs
    #[arg(long, short = 'n', value_name = "N", default_value_t = 20)]
    pub(crate) max: usize,
}
