//! The settings of who makes vectors for recall, and what can be wrong with them.
//!
//! The key is never among them: they name the variable of the environment that holds it.

use std::ops::Range;
use std::time::Duration;

use engine::{Address, BadUrl, Embeddings, Endpoint, Key, Reach};
use memory::limits::{EMBED_BATCH_MAX, EMBED_WAIT_MAX};
use serde::Deserialize;
use toml::Spanned;

use super::is_variable;

/// Who makes vectors.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Endpoints {
    url: Spanned<String>,
    model: Spanned<String>,
    key_variable: Option<Spanned<String>>,
    #[serde(default)]
    beyond_this_machine: bool,
    timeout_ms: Option<Spanned<u64>>,
    batch: Option<Spanned<usize>>,
}

impl Endpoints {
    /// Returns what is wrong, and where.
    pub(super) fn mistake(&self) -> Option<(Range<usize>, String)> {
        let url = &self.url;
        if let Err(error) = Address::parse(url.get_ref(), self.reach()) {
            let help = match error {
                BadUrl::Elsewhere(_) => ", or set `beyond_this_machine = true`",
                BadUrl::Shape => "",
            };
            return Some((url.span(), format!("embeddings.url: {error}{help}")));
        }
        let check =
            |is_wrong: bool, span: Range<usize>, what: String| is_wrong.then_some((span, what));
        let of_model = || {
            let what = "embeddings.model must name a model".to_owned();
            check(self.model.get_ref().trim().is_empty(), self.model.span(), what)
        };
        let of_key = || {
            let name = self.key_variable.as_ref()?;
            // What looks otherwise may be the key itself: it is not repeated.
            let what = "embeddings.key_variable must be the name of a variable of the environment, as in `OPENAI_API_KEY`";
            check(!is_variable(name.get_ref()), name.span(), what.to_owned())
        };
        let of_timeout = || {
            let (timeout, max) = (self.timeout_ms.as_ref()?, EMBED_WAIT_MAX.as_millis());
            let what = format!("embeddings.timeout_ms must be from 1 to {max}");
            let is_wrong = !(1..=max).contains(&u128::from(*timeout.get_ref()));
            check(is_wrong, timeout.span(), what)
        };
        let of_batch = || {
            let batch = self.batch.as_ref()?;
            let what = format!("embeddings.batch must be from 1 to {EMBED_BATCH_MAX}");
            check(!(1..=EMBED_BATCH_MAX).contains(batch.get_ref()), batch.span(), what)
        };
        of_model().or_else(of_key).or_else(of_timeout).or_else(of_batch)
    }

    const fn reach(&self) -> Reach {
        if self.beyond_this_machine { Reach::Network } else { Reach::ThisMachine }
    }

    /// Returns what was set; `None` if there is a mistake in it.
    pub(super) fn read(&self, variable: &impl Fn(&str) -> Option<String>) -> Option<Embeddings> {
        let key = self.key_variable.as_ref().map_or(Key::None, |name| {
            Key::of_variable(name.get_ref(), variable(name.get_ref()).as_deref())
        });
        let (url, model) = (self.url.get_ref(), self.model.get_ref());
        let address = Address::parse(url, self.reach()).ok()?;
        let mut embeddings = Embeddings::new(Endpoint::new(address, model, key));
        if let Some(timeout) = &self.timeout_ms {
            embeddings.wait = Duration::from_millis(*timeout.get_ref());
        }
        if let Some(batch) = &self.batch {
            embeddings.batch = *batch.get_ref();
        }
        Some(embeddings)
    }
}
