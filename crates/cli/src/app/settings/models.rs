//! The settings of models that work on tasks, and their validation.
//!
//! A model is named `PROVIDER/MODEL`. Common providers are built in; other providers, or other addresses of
//! built-in ones, have a table of their own. The settings never hold a key itself, only the environment variable with the
//! key, or the command that prints it.

use std::collections::BTreeMap;
use std::ops::Range;

use engine::{Address, AgentModels, ApiKey, Chat, ChatProtocol, Fallback, ModelJob};
use serde::Deserialize;
use strum::VariantArray as _;
use toml::Spanned;

use super::{NO_VARIABLE, allowed_hosts, is_variable, wrong_url};

/// The value that selects the rules instead of a model.
const RULES: &str = "rules";

/// The settings of models.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(super) struct ModelSettings {
    default: Option<Spanned<String>>,
    remember: Option<Spanned<String>>,
    forget: Option<Spanned<String>>,
    dream: Option<Spanned<String>>,
    review: Option<Spanned<String>>,
    recall: Option<Spanned<String>>,
    fallback: Option<Spanned<String>>,
    background_tokens: Option<u64>,
    providers: BTreeMap<String, ProviderSettings>,
}

/// A provider with a table in the settings.
#[derive(Debug, Default, Deserialize)]
#[serde(default, deny_unknown_fields)]
struct ProviderSettings {
    api: Option<Spanned<String>>,
    url: Option<Spanned<String>>,
    key_variable: Option<Spanned<String>>,
    key_command: Option<Spanned<Vec<String>>>,
    beyond_this_machine: bool,
}

/// A built-in provider.
struct KnownProvider {
    name: &'static str,
    wire: ChatProtocol,
    url: &'static str,
    key_variable: Option<&'static str>,
}

/// The built-in providers. The addresses of local servers are the defaults in their documentation.
const PROVIDERS: [KnownProvider; 9] = [
    hosted(
        "anthropic",
        ChatProtocol::Anthropic,
        ChatProtocol::Anthropic.default_url(),
        "ANTHROPIC_API_KEY",
    ),
    hosted("openai", ChatProtocol::OpenAi, ChatProtocol::OpenAi.default_url(), "OPENAI_API_KEY"),
    hosted(
        "openai-responses",
        ChatProtocol::OpenAiResponses,
        ChatProtocol::OpenAiResponses.default_url(),
        "OPENAI_API_KEY",
    ),
    hosted("gemini", ChatProtocol::Gemini, ChatProtocol::Gemini.default_url(), "GEMINI_API_KEY"),
    hosted(
        "openrouter",
        ChatProtocol::OpenAi,
        "https://openrouter.ai/api/v1",
        "OPENROUTER_API_KEY",
    ),
    local("ollama", "http://127.0.0.1:11434/v1"),
    local("lmstudio", "http://127.0.0.1:1234/v1"),
    local("llamacpp", "http://127.0.0.1:8080/v1"),
    local("vllm", "http://127.0.0.1:8000/v1"),
];

const fn hosted(
    name: &'static str,
    wire: ChatProtocol,
    url: &'static str,
    key_variable: &'static str,
) -> KnownProvider {
    KnownProvider { name, wire, url, key_variable: Some(key_variable) }
}

const fn local(name: &'static str, url: &'static str) -> KnownProvider {
    KnownProvider { name, wire: ChatProtocol::OpenAi, url, key_variable: None }
}

fn known_provider(name: &str) -> Option<&'static KnownProvider> {
    PROVIDERS.iter().find(|known| known.name == name)
}

impl ModelSettings {
    fn model_for(&self, job: ModelJob) -> Option<&Spanned<String>> {
        match job {
            ModelJob::Remember => self.remember.as_ref(),
            ModelJob::Forget => self.forget.as_ref(),
            ModelJob::Dream => self.dream.as_ref(),
            ModelJob::Review => self.review.as_ref(),
            ModelJob::Recall => self.recall.as_ref(),
        }
    }

    /// Returns the first error, with its range.
    pub(super) fn validation_error(&self) -> Option<(Range<usize>, String)> {
        for (name, provider) in &self.providers {
            if let Some((span, what)) = provider.validation_error(name) {
                return Some((span, format!("models.providers.{name}.{what}")));
            }
        }
        let named = ModelJob::VARIANTS.iter().map(|job| (job.as_ref(), self.model_for(*job)));
        for (key, named) in std::iter::once(("default", self.default.as_ref())).chain(named) {
            let Some(named) = named else { continue };
            if let Err(what) = self.parse(named.get_ref()) {
                return Some((named.span(), format!("models.{key}: {what}")));
            }
        }
        let fallback = self.fallback.as_ref()?;
        let is_wrong = fallback.get_ref().parse::<Fallback>().is_err();
        is_wrong.then(|| (fallback.span(), "models.fallback must be `none` or `rules`".to_owned()))
    }

    /// Parses the name of a model into provider and model; `None` for the rules.
    pub(super) fn parse<'a>(&self, named: &'a str) -> Result<Option<(&'a str, &'a str)>, String> {
        if named == RULES {
            return Ok(None);
        }
        let parts = named
            .split_once('/')
            .filter(|(provider, model)| !provider.is_empty() && !model.trim().is_empty());
        let (provider, model) = parts.ok_or_else(|| {
            format!("expected a model such as `anthropic/MODEL` or `ollama/MODEL`, or `{RULES}` for none")
        })?;
        if !self.providers.contains_key(provider) && known_provider(provider).is_none() {
            let listed: Vec<&str> = PROVIDERS.iter().map(|known| known.name).collect();
            return Err(format!(
                "unknown provider `{provider}`; use a built-in one ({}) or add the table `[models.providers.{provider}]`",
                listed.join(", ")
            ));
        }
        Ok(Some((provider, model)))
    }

    /// Returns the configured models; invalid ones are left out.
    pub(super) fn read(&self, variable: &impl Fn(&str) -> Option<String>) -> AgentModels {
        let mut models = AgentModels::default();
        for &job in ModelJob::VARIANTS {
            let default = self.default.as_ref().filter(|_| job.has_default());
            let named = self.model_for(job).or(default);
            let parsed = named.and_then(|named| self.parse(named.get_ref()).ok()?);
            if let Some((provider, model)) = parsed {
                models.set(job, self.chat(provider, model, variable));
            }
        }
        if let Some(fallback) = &self.fallback {
            models.fallback = fallback.get_ref().parse().unwrap_or_default();
        }
        if let Some(tokens) = self.background_tokens {
            models.background_tokens = tokens;
        }
        models
    }

    /// Returns the model for a name from another setting; `None` for the rules.
    pub(super) fn chat_by_name(
        &self,
        named: &str,
        variable: &impl Fn(&str) -> Option<String>,
    ) -> Option<Chat> {
        let (provider, model) = self.parse(named).ok()??;
        self.chat(provider, model, variable)
    }

    /// Returns the environment variables with the keys of configured models, and whether a command prints one.
    pub(super) fn keys(&self) -> (Vec<String>, bool) {
        let (mut variables, mut has_command) = (Vec::new(), false);
        for &job in ModelJob::VARIANTS {
            let named = self.model_for(job).or(self.default.as_ref());
            let parsed = named.and_then(|named| self.parse(named.get_ref()).ok()?);
            let Some((provider, _)) = parsed else { continue };
            let set = self.providers.get(provider);
            has_command |= set.is_some_and(|set| set.key_command.is_some());
            let of_set = set.and_then(|set| set.key_variable.as_ref());
            let variable = match of_set {
                Some(name) => Some(name.get_ref().clone()),
                // As in `chat`: the key of a provider is not sent to another address.
                None if set.is_some_and(|set| set.url.is_some() || set.key_command.is_some()) => {
                    None
                }
                None => {
                    known_provider(provider).and_then(|known| known.key_variable).map(str::to_owned)
                }
            };
            variables.extend(variable);
        }
        variables.sort();
        variables.dedup();
        (variables, has_command)
    }

    fn chat(
        &self,
        provider: &str,
        model: &str,
        variable: &impl Fn(&str) -> Option<String>,
    ) -> Option<Chat> {
        let known = known_provider(provider);
        let set = self.providers.get(provider);
        let wire = set
            .and_then(ProviderSettings::wire)
            .or(known.map(|known| known.wire))
            .unwrap_or(ChatProtocol::OpenAi);
        let url = set.and_then(|set| set.url.as_ref()).map(|url| url.get_ref().as_str());
        let reach = allowed_hosts(set.is_some_and(|set| set.beyond_this_machine));
        let address = Address::parse(url.or(known.map(|known| known.url))?, reach).ok()?;
        let key = match set.and_then(|set| set.key(variable)) {
            Some(key) => key,
            // The key of a provider is sent to another address only if the settings name the key.
            None if url.is_some() => ApiKey::None,
            None => known.and_then(|known| known.key_variable).map_or(ApiKey::None, |name| {
                ApiKey::from_variable(name, variable(name).as_deref())
            }),
        };
        Some(Chat::new(wire, address, model, key).with_name(&format!("{provider}/{model}")))
    }
}

impl ProviderSettings {
    fn wire(&self) -> Option<ChatProtocol> {
        self.api.as_ref()?.get_ref().parse().ok()
    }

    fn key(&self, variable: &impl Fn(&str) -> Option<String>) -> Option<ApiKey> {
        if let Some(command) = &self.key_command {
            return Some(ApiKey::from_command(command.get_ref().clone()));
        }
        let name = self.key_variable.as_ref()?.get_ref();
        Some(ApiKey::from_variable(name, variable(name).as_deref()))
    }

    fn validation_error(&self, name: &str) -> Option<(Range<usize>, String)> {
        if let Some(api) = &self.api
            && self.wire().is_none()
        {
            let words: Vec<String> =
                ChatProtocol::VARIANTS.iter().map(|wire| format!("`{}`", wire.as_ref())).collect();
            return Some((api.span(), format!("api must be one of {}", words.join(", "))));
        }
        if let Some(url) = &self.url {
            if let Some(what) = wrong_url(url.get_ref(), self.beyond_this_machine) {
                return Some((url.span(), format!("url: {what}")));
            }
        } else if known_provider(name).is_none() {
            return Some((0..0, "url must be set".to_owned()));
        }
        if let Some(variable) = &self.key_variable
            && !is_variable(variable.get_ref())
        {
            return Some((variable.span(), NO_VARIABLE.to_owned()));
        }
        let command = self.key_command.as_ref()?;
        if self.key_variable.is_some() {
            return Some((
                command.span(),
                "key_command and key_variable are both set; remove one".to_owned(),
            ));
        }
        let has_program = command.get_ref().first().is_some_and(|program| !program.is_empty());
        (!has_program).then(|| (command.span(), "key_command must be a program and its arguments, as in `[\"pass\", \"show\", \"openai\"]`".to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<AgentModels, String> {
        let named: ModelSettings = toml::from_str(text).unwrap();
        match named.validation_error() {
            Some((_, what)) => Err(what),
            None => {
                Ok(named.read(&|name: &str| name.ends_with("_API_KEY").then(|| "sk-1".to_owned())))
            }
        }
    }

    fn shown(models: &AgentModels, job: ModelJob) -> String {
        let text = |chat: &Chat| {
            format!("{} at {} by {}", chat.name(), chat.location(), chat.protocol().as_ref())
        };
        models.of(job).map_or_else(|| "rules".to_owned(), text)
    }

    #[test]
    fn only_the_keys_of_configured_models_are_listed() {
        let keys = |text: &str| toml::from_str::<ModelSettings>(text).unwrap().keys();
        let named = |names: &[&str]| names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
        assert_eq!(keys(""), (named(&[]), false));
        assert_eq!(keys("default = 'ollama/a'"), (named(&[]), false));
        let text = "default = 'openai/a'\ndream = 'anthropic/b'\nforget = 'rules'";
        assert_eq!(keys(text), (named(&["ANTHROPIC_API_KEY", "OPENAI_API_KEY"]), false));
        let text = "remember = 'openai/a'\n[providers.openai]\nurl = 'http://127.0.0.1:9/v1'\n\
                    [providers.unused]\nurl = 'http://127.0.0.1:8/v1'\nkey_variable = 'UNUSED'\n";
        assert_eq!(keys(text), (named(&[]), false));
        let text = "default = 'work/a'\n[providers.work]\nurl = 'http://127.0.0.1:9/v1'\n\
                    key_command = ['pass', 'work']\n";
        assert_eq!(keys(text), (named(&[]), true));
    }

    #[test]
    fn the_default_model_does_all_jobs_without_their_own() {
        let models =
            read("default = 'ollama/qwen3:8b'\nforget = 'rules'\ndream = 'anthropic/large'\n")
                .unwrap();
        let ollama = "ollama/qwen3:8b at 127.0.0.1:11434/v1 by openai";
        assert_eq!(shown(&models, ModelJob::Remember), ollama);
        assert_eq!(shown(&models, ModelJob::Forget), "rules");
        assert_eq!(
            shown(&models, ModelJob::Dream),
            "anthropic/large at api.anthropic.com/v1 by anthropic"
        );
        assert_eq!(
            shown(&models, ModelJob::Recall),
            "rules",
            "a question for each prompt is named"
        );
        assert_eq!(models.fallback, Fallback::None);
        assert!(read("").unwrap().is_empty());
        let models = read("recall = 'openai/small'\n").unwrap();
        let small = "openai/small at api.openai.com/v1 by openai";
        assert_eq!(shown(&models, ModelJob::Recall), small);
        assert_eq!(shown(&models, ModelJob::Remember), "rules");
        let models = read("default = 'ollama/m'\nrecall = 'rules'\n").unwrap();
        assert_eq!(shown(&models, ModelJob::Recall), "rules");
    }

    #[test]
    fn a_table_sets_another_provider_or_another_address() {
        let text = "default = 'work/org/some-model'\nforget = 'openai/small'\nfallback = 'rules'\n\
            [providers.work]\napi = 'gemini'\nurl = 'https://models.example.com/v1'\nkey_command = ['pass', 'work']\n\
            [providers.openai]\nurl = 'http://127.0.0.1:9/v1'\n";
        let models = read(text).unwrap();
        let work = "work/org/some-model at models.example.com/v1 by gemini";
        assert_eq!(shown(&models, ModelJob::Remember), work);
        assert_eq!(shown(&models, ModelJob::Forget), "openai/small at 127.0.0.1:9/v1 by openai");
        assert_eq!(models.fallback, Fallback::Rules);
        // The key of a provider is not sent to another address that is set under its name.
        let chat = format!("{:?}", models.of(ModelJob::Forget).unwrap());
        assert!(chat.contains("key: None"), "{chat}");
        assert!(!format!("{models:?}").contains("sk-1"));
    }

    #[test]
    fn errors_name_the_setting_and_never_repeat_a_key() {
        let check = |text: &str, expected: &str| {
            let what = read(text).unwrap_err();
            assert!(what.starts_with(expected), "{what}");
            assert!(!what.contains("sk-1"), "{what}");
        };
        check("default = 'small'", "models.default: expected a model such as");
        check("default = 'ollama/'", "models.default: expected a model such as");
        check(
            "dream = 'other/m'",
            "models.dream: unknown provider `other`; use a built-in one (anthropic, ",
        );
        check("recall = 'small'", "models.recall: expected a model such as");
        check("fallback = 'maybe'", "models.fallback must be");
        let of = |lines: &str| format!("[providers.work]\n{lines}");
        check(&of("api = 'openai'"), "models.providers.work.url must");
        check(
            &of("url = 'http://10.0.0.7/v1'"),
            "models.providers.work.url: `10.0.0.7` is another machine",
        );
        check(
            &of("url = 'https://a.example/v1'\napi = 'grpc'"),
            "models.providers.work.api must be one of",
        );
        check(
            &of("url = 'https://a.example/v1'\nkey_variable = 'sk-1'"),
            "models.providers.work.key_variable must",
        );
        check(
            &of("url = 'https://a.example/v1'\nkey_command = []"),
            "models.providers.work.key_command must",
        );
    }
}
