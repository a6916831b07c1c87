//! The settings of the embedding endpoint for recall, and their validation.
//!
//! They never hold the key itself, only the name of the environment variable with the key.

use std::ops::Range;
use std::time::Duration;

use engine::{Address, ApiKey, EmbeddingEndpoint, Embeddings};
use serde::Deserialize;
use toml::Spanned;

use super::{NO_VARIABLE, allowed_hosts, is_variable, wrong_url};

/// The settings of the endpoint that computes vectors.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct EmbeddingSettings {
    url: Spanned<String>,
    model: Spanned<String>,
    key_variable: Option<Spanned<String>>,
    #[serde(default)]
    beyond_this_machine: bool,
    timeout_ms: Option<u64>,
    batch: Option<usize>,
}

impl EmbeddingSettings {
    /// Returns the first error, with its range.
    pub(super) fn validation_error(&self) -> Option<(Range<usize>, String)> {
        let url = &self.url;
        if let Some(what) = wrong_url(url.get_ref(), self.beyond_this_machine) {
            return Some((url.span(), format!("embeddings.url: {what}")));
        }
        if self.model.get_ref().trim().is_empty() {
            return Some((self.model.span(), "embeddings.model must name a model".to_owned()));
        }
        let name = self.key_variable.as_ref().filter(|name| !is_variable(name.get_ref()))?;
        Some((name.span(), format!("embeddings.{NO_VARIABLE}")))
    }

    /// Returns the configured endpoint; `None` if the settings are invalid.
    pub(super) fn read(&self, variable: &impl Fn(&str) -> Option<String>) -> Option<Embeddings> {
        let key = self.key_variable.as_ref().map_or(ApiKey::None, |name| {
            ApiKey::from_variable(name.get_ref(), variable(name.get_ref()).as_deref())
        });
        let (url, model) = (self.url.get_ref(), self.model.get_ref());
        let address = Address::parse(url, allowed_hosts(self.beyond_this_machine)).ok()?;
        let mut embeddings = Embeddings::new(EmbeddingEndpoint::new(address, model, key));
        if let Some(timeout) = self.timeout_ms {
            embeddings.wait = Duration::from_millis(timeout);
        }
        if let Some(batch) = self.batch {
            embeddings.batch = batch;
        }
        Some(embeddings)
    }
}
