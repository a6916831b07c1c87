//! The settings file for the web page: single values are shown and written, and comments and order stay.
//!
//! A written text is parsed and validated before it replaces the file. Settings that decide where texts of memories are
//! sent can only be changed in the file itself.

use std::path::{Path, PathBuf};

use memory::feature::Feature;
use memory::screen::Family;
use parking_lot::Mutex;
use protocol::settings::{Setting, SettingKind, SettingSource, Settings as Shown};
use serde_json::Value as Json;
use server::http::{SettingsError, SettingsStore};
use strum::VariantArray as _;
use toml_edit::{Array, Document, DocumentMut, Item, RawString, Table, Value};

use super::setting_table::{KnownSetting, KnownTable, SETTING_TABLES, ValueKind};
use super::{ParsedSettings, line_of};
use crate::app::features::FeatureConfig;
use crate::exit::Failure;
use crate::files::{self, ReadAccess, ReplaceError};

/// The values of a screening policy, the default first.
const POLICIES: &[&str] = &["refuse", "warn", "off"];

/// The settings file, and its text when the process started.
#[derive(Debug)]
pub(crate) struct SettingsFile {
    path: PathBuf,
    features: FeatureConfig,
    /// The text at the start; a difference means that a restart is needed.
    text_at_start: Option<String>,
    /// Serializes writes.
    write_lock: Mutex<()>,
}

/// A setting with its full name, kind, default and meaning.
pub(super) struct NamedSetting {
    pub(super) table: &'static [&'static str],
    pub(super) key: String,
    pub(super) kind: ValueKind,
    pub(super) default: Json,
    pub(super) meaning: String,
    only_in_file: Option<&'static str>,
    feature: Option<Feature>,
}

impl SettingsFile {
    /// Opens the file that the features were read from.
    pub(crate) fn new(features: FeatureConfig) -> Result<Self, Failure> {
        let path = features.settings_file();
        // A link is followed and kept: some users keep their settings in a repository.
        let path = files::real_path(path).unwrap_or_else(|_| path.to_owned());
        let text_at_start = files::read_optional(&path)
            .map_err(|error| Failure::file("read the settings", &path, &error))?;
        Ok(Self { path, features, text_at_start, write_lock: Mutex::default() })
    }

    fn read(&self) -> Result<Option<String>, SettingsError> {
        files::read_optional(&self.path).map_err(|error| {
            SettingsError::Io(format!("cannot read {}: {error}", self.path.display()))
        })
    }

    fn shown(&self, text: Option<&str>) -> Result<Shown, SettingsError> {
        let file = self.path.display().to_string();
        let document = parse(text.unwrap_or_default(), &self.path)?;
        let setting = |named: &NamedSetting| {
            let item = named.item(document.as_table());
            let line = item.and_then(|(_, offset)| offset).map(|offset| {
                let text = text.unwrap_or_default();
                u64::try_from(line_of(text, offset)).expect("a length fits 64 bits")
            });
            let in_file = item.and_then(|(item, _)| item.as_value()).map(json);
            let by_variable = named.feature.and_then(|one| self.features.environment_override(one));
            let from = match (&by_variable, &in_file) {
                (Some(_), _) => SettingSource::Environment,
                (None, Some(_)) => SettingSource::File,
                (None, None) => SettingSource::Default,
            };
            let by_variable = by_variable.map(Json::from);
            let (min, max) = match named.kind {
                ValueKind::Number(min, max) => (Some(min), Some(max)),
                _ => (None, None),
            };
            let why = match from {
                SettingSource::Environment => {
                    Some("LUKASA_FEATURES in the environment of the daemon sets it.")
                }
                _ => named.only_in_file,
            };
            Setting {
                key: named.name(),
                kind: match named.kind {
                    ValueKind::Switch => SettingKind::Switch,
                    ValueKind::Number(..) => SettingKind::Number,
                    ValueKind::Choice(_) => SettingKind::Choice,
                    ValueKind::Text => SettingKind::Text,
                    ValueKind::List => SettingKind::List,
                },
                meaning: named.meaning.clone(),
                value: by_variable.or(in_file).unwrap_or_else(|| named.default.clone()),
                default: named.default.clone(),
                line: line.filter(|_| from == SettingSource::File),
                from,
                min,
                max,
                choices: match named.kind {
                    ValueKind::Choice(words) => words.iter().map(|&word| word.to_owned()).collect(),
                    _ => Vec::new(),
                },
                read_only: why.is_some(),
                why: why.map(str::to_owned),
                built: named.feature.is_none_or(Feature::is_built),
            }
        };
        let restart_needed = !has_same_settings(self.text_at_start.as_deref(), text);
        Ok(Shown { file, restart_needed, settings: all().iter().map(setting).collect() })
    }
}

impl SettingsStore for SettingsFile {
    fn show(&self) -> Result<Shown, SettingsError> {
        self.shown(self.read()?.as_deref())
    }

    fn set(
        &self,
        key: &str,
        value: &Json,
        expected: Option<&Json>,
    ) -> Result<Shown, SettingsError> {
        let refused = |what: String| SettingsError::Invalid(what);
        let named = all().into_iter().find(|named| named.name() == key);
        let named = named.ok_or_else(|| refused(format!("there is no setting `{key}`")))?;
        let by_variable = named.feature.and_then(|one| self.features.environment_override(one));
        if let Some(why) = named.only_in_file {
            return Err(refused(format!("`{key}` cannot be set here. {why}")));
        }
        if by_variable.is_some() {
            let what = "is set by LUKASA_FEATURES in the environment of the daemon";
            return Err(refused(format!("`{key}` {what}")));
        }
        let value = match value {
            Json::Null => None,
            value => {
                Some(named.kind.read(value).map_err(|what| refused(format!("`{key}` {what}")))?)
            }
        };
        let _writing = self.write_lock.lock();
        let before = self.read()?;
        let text = before.as_deref().unwrap_or_default();
        // Some editors write a byte order mark at the start of a file; it stays.
        let (mark, text) = match text.strip_prefix('\u{feff}') {
            Some(rest) => ("\u{feff}", rest),
            None => ("", text),
        };
        let mut document: DocumentMut = text
            .parse()
            .map_err(|error: toml_edit::TomlError| refused(unreadable(&self.path, &error)))?;
        if let Some(expected) = expected {
            let in_file = named.item(document.as_table()).and_then(|(item, _)| item.as_value());
            if in_file.map_or_else(|| named.default.clone(), json) != *expected {
                return Err(SettingsError::ValueChanged);
            }
        }
        named.set_value(&mut document, value)?;
        let after = format!("{mark}{document}");
        ParsedSettings::parse(&after, &self.path)
            .map_err(|failure| refused(failure_text(failure)))?;
        if before.as_deref() != Some(&*after) && !(before.is_none() && after.is_empty()) {
            files::replace(&self.path, before.as_deref(), Some(&after), ReadAccess::Owner)
                .map_err(|why| self.write_error(why))?;
        }
        self.shown(Some(&after))
    }
}

impl SettingsFile {
    fn write_error(&self, why: ReplaceError) -> SettingsError {
        let file = self.path.display();
        match why {
            ReplaceError::Changed => SettingsError::FileChanged,
            ReplaceError::ReadOnly => SettingsError::Invalid(format!("{file} is read-only")),
            ReplaceError::Link(to) => {
                SettingsError::Invalid(format!("{file} is a link to {}", to.display()))
            }
            ReplaceError::System(error) => {
                SettingsError::Io(format!("cannot write {file}: {error}"))
            }
        }
    }
}

/// Returns every setting, in display order.
pub(super) fn all() -> Vec<NamedSetting> {
    let features = Feature::VARIANTS.iter().map(|&feature| NamedSetting {
        table: &["features"],
        key: feature.as_ref().to_owned(),
        kind: ValueKind::Switch,
        default: true.into(),
        meaning: feature.meaning().to_owned(),
        only_in_file: None,
        feature: Some(feature),
    });
    let policies = Family::VARIANTS.iter().map(|family| NamedSetting {
        table: &["screening", "policies"],
        key: family.as_ref().to_owned(),
        kind: ValueKind::Choice(POLICIES),
        default: POLICIES[0].into(),
        meaning: format!("action for texts that match a rule of the family `{family}`"),
        only_in_file: None,
        feature: None,
    });
    let of_table = |table: &'static KnownTable| {
        table.settings.iter().map(|known| NamedSetting::new(&table.name, known))
    };
    features.chain(SETTING_TABLES.iter().flat_map(of_table)).chain(policies).collect()
}

impl NamedSetting {
    fn new(table: &'static &'static str, known: &KnownSetting) -> Self {
        let default = known.is_default.then(|| known.shown.parse::<Value>().ok()).flatten();
        Self {
            table: if table.is_empty() { &[] } else { std::slice::from_ref(table) },
            key: known.key.to_owned(),
            kind: known.kind,
            default: default.as_ref().map_or(Json::Null, json),
            meaning: known.meaning.to_owned(),
            only_in_file: known.only_in_file,
            feature: None,
        }
    }

    fn name(&self) -> String {
        let table = self.table.iter().copied();
        table.chain([self.key.as_str()]).collect::<Vec<_>>().join(".")
    }

    /// Returns the item of the setting in a document, and the offset of its key.
    fn item<'a>(&self, document: &'a Table) -> Option<(&'a Item, Option<usize>)> {
        let mut table: &dyn toml_edit::TableLike = document;
        for name in self.table {
            table = table.get(name)?.as_table_like()?;
        }
        let (key, item) = table.get_key_value(&self.key)?;
        Some((item, key.span().map(|span| span.start)))
    }

    /// Sets the value in a document, or removes it.
    fn set_value(
        &self,
        document: &mut DocumentMut,
        value: Option<Value>,
    ) -> Result<(), SettingsError> {
        let mut orphaned = None;
        {
            let mut table: &mut dyn toml_edit::TableLike = document.as_table_mut();
            for (depth, name) in self.table.iter().enumerate() {
                if table.get(name).is_none() {
                    if value.is_none() {
                        return Ok(());
                    }
                    let mut new = Table::new();
                    // A table that only holds another table needs no header.
                    new.set_implicit(depth + 1 < self.table.len());
                    table.insert(name, Item::Table(new));
                }
                let next = table.get_mut(name).and_then(Item::as_table_like_mut);
                table = next.ok_or_else(|| {
                    SettingsError::Invalid(format!("`{name}` in the settings file is not a table"))
                })?;
            }
            match (table.get_mut(&self.key), value) {
                (Some(Item::Value(current)), Some(mut value)) => {
                    *value.decor_mut() = current.decor().clone();
                    *current = value;
                }
                (_, Some(value)) => {
                    table.insert(&self.key, Item::Value(value));
                }
                (_, None) => orphaned = remove_key(table, &self.key),
            }
        }
        if let Some(remark) = orphaned {
            let end = document.trailing().as_str().unwrap_or_default().to_owned();
            document.set_trailing(format!("{remark}{end}"));
        }
        Ok(())
    }
}

/// Removes a key from a table. Comments above and after it stay, above the next key; they are returned if the table has
/// no next key.
fn remove_key(table: &mut dyn toml_edit::TableLike, key: &str) -> Option<String> {
    let text =
        |raw: Option<&RawString>| raw.and_then(RawString::as_str).unwrap_or_default().to_owned();
    let next = table.iter().map(|(name, _)| name.to_owned()).skip_while(|name| name != key).nth(1);
    let above = table.key(key).map(|key| text(key.leaf_decor().prefix())).unwrap_or_default();
    let item = table.remove(key)?;
    let behind = item.as_value().map(|value| text(value.decor().suffix())).unwrap_or_default();
    let behind = behind.trim();
    let mut remark = above;
    if !behind.is_empty() {
        remark = format!("{remark}{behind}\n");
    }
    if !remark.contains('#') {
        return None;
    }
    let next = next.and_then(|next| table.key_mut(&next));
    let Some(mut next) = next else { return Some(remark) };
    let prefix = text(next.leaf_decor().prefix());
    next.leaf_decor_mut().set_prefix(format!("{remark}{prefix}"));
    None
}

impl ValueKind {
    /// Converts a new value; the error describes valid values.
    fn read(self, value: &Json) -> Result<Value, String> {
        match (self, value) {
            (Self::Switch, Json::Bool(is_on)) => Ok((*is_on).into()),
            (Self::Switch, _) => Err("must be true or false".to_owned()),
            (Self::Number(min, max), value) => {
                let number = value.as_u64().filter(|number| (min..=max).contains(number));
                let number = number.and_then(|number| i64::try_from(number).ok());
                number
                    .map(Value::from)
                    .ok_or_else(|| format!("must be a whole number from {min} to {max}"))
            }
            (Self::Choice(words), value) => {
                let word = value.as_str().filter(|word| words.contains(word));
                word.map(Value::from).ok_or_else(|| format!("must be {}", words.join(" or ")))
            }
            (Self::Text, value) => {
                value.as_str().map(Value::from).ok_or_else(|| "must be a text".to_owned())
            }
            (Self::List, Json::Array(texts))
                if texts.iter().all(|text| text.as_str().is_some_and(|s| !s.trim().is_empty())) =>
            {
                Ok(Value::Array(texts.iter().filter_map(Json::as_str).collect::<Array>()))
            }
            (Self::List, _) => Err("must be a list of texts that are not empty".to_owned()),
        }
    }
}

fn parse<'a>(text: &'a str, path: &Path) -> Result<Document<&'a str>, SettingsError> {
    let read = Document::parse(text.strip_prefix('\u{feff}').unwrap_or(text));
    read.map_err(|error| SettingsError::Invalid(unreadable(path, &error)))
}

fn unreadable(path: &Path, error: &toml_edit::TomlError) -> String {
    format!("cannot parse {}: {}", path.display(), error.message())
}

/// Checks whether two texts have the same settings. Empty tables are ignored.
fn has_same_settings(one: Option<&str>, other: Option<&str>) -> bool {
    let read = |text: Option<&str>| {
        let text = text.unwrap_or_default();
        let mut read: toml::Table = text.strip_prefix('\u{feff}').unwrap_or(text).parse().ok()?;
        drop_empty(&mut read);
        Some(read)
    };
    read(one) == read(other)
}

fn drop_empty(table: &mut toml::Table) {
    table.retain(|_, value| {
        let toml::Value::Table(inner) = value else { return true };
        drop_empty(inner);
        !inner.is_empty()
    });
}

fn failure_text(failure: Failure) -> String {
    match failure {
        Failure::Message(error) => error.message,
        _ => "the settings would be invalid".to_owned(),
    }
}

fn json(value: &Value) -> Json {
    match value {
        Value::String(text) => text.value().clone().into(),
        Value::Integer(number) => (*number.value()).into(),
        Value::Float(number) => (*number.value()).into(),
        Value::Boolean(is_on) => (*is_on.value()).into(),
        Value::Datetime(time) => time.value().to_string().into(),
        Value::Array(values) => values.iter().map(json).collect(),
        Value::InlineTable(_) => Json::Null,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(before: &str, key: &str, value: impl Into<Json>) -> Result<String, String> {
        let value = value.into();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.toml");
        files::write_export(&path, before.as_bytes(), files::Overwrite::Always).unwrap();
        let features = FeatureConfig::new(path.clone(), Default::default(), None).unwrap();
        let file = SettingsFile::new(features).unwrap();
        match file.set(key, &value, None) {
            Ok(shown) => {
                let now = shown.settings.iter().find(|setting| setting.key == key).unwrap();
                let expected = if value.is_null() { &now.default } else { &value };
                assert_eq!(&now.value, expected);
                Ok(files::read_optional(&path).unwrap().unwrap())
            }
            Err(SettingsError::Invalid(what)) => {
                assert_eq!(files::read_optional(&path).unwrap().unwrap(), before);
                Err(what)
            }
            Err(other) => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_value_is_set_and_the_rest_of_the_file_stays() {
        let file =
            "# mine\nfiles_max = 5000 # many\n\n[retention] # kept\n# a quarter\ndays = 90\n";
        let check = |key: &str, value: Json, expected: &str| {
            assert_eq!(set(file, key, value).unwrap(), expected, "{key}");
        };
        check("files_max", 7.into(), &file.replace("5000", "7"));
        check("retention.days", 30.into(), &file.replace("90", "30"));
        check("retention.mib", 8.into(), &format!("{file}mib = 8\n"));
        check("features.recall", false.into(), &format!("{file}\n[features]\nrecall = false\n"));
        check(
            "screening.policies.secrets",
            "warn".into(),
            &format!("{file}\n[screening.policies]\nsecrets = \"warn\"\n"),
        );
        check(
            "context.file_names",
            serde_json::json!(["A.md", "B.md"]),
            &format!("{file}\n[context]\nfile_names = [\"A.md\", \"B.md\"]\n"),
        );
        check(
            "memory_list",
            false.into(),
            &file.replace("# many\n", "# many\nmemory_list = false\n"),
        );
        check("files_max", Json::Null, &file.replace("files_max = 5000 # many\n", "# many\n"));
        check(
            "retention.days",
            Json::Null,
            "# mine\nfiles_max = 5000 # many\n\n[retention] # kept\n# a quarter\n",
        );
        check("dream.schedule", Json::Null, file);
        assert_eq!(set("", "files_max", 3).unwrap(), "files_max = 3\n");
        assert_eq!(
            set("\u{feff}retention = { days = 1 }\n", "retention.days", 2).unwrap(),
            "\u{feff}retention = { days = 2 }\n"
        );
    }

    #[test]
    fn an_invalid_value_is_refused_and_nothing_is_written() {
        let check = |before: &str, key: &str, value: Json, expected: &str| {
            let what = set(before, key, value).unwrap_err();
            assert!(what.contains(expected), "{what}");
        };
        check("", "files_max", 0.into(), "must be a whole number from 1 to 100000");
        check("", "files_max", "many".into(), "must be a whole number");
        check("", "project_root", "cloud".into(), "must be repo or host");
        check("", "features.recall", 1.into(), "must be true or false");
        check("", "context.include", serde_json::json!(["rules"]), "paths that start with");
        let digests = "must be SHA-256 digests of 64 hex digits";
        check("", "screening.allowed", serde_json::json!(["junk"]), digests);
        check("", "context.file_names", serde_json::json!(["A.md", ""]), "that are not empty");
        check("", "embeddings.url", "http://localhost/v1".into(), "only the file can set it");
        check("", "no.such", 1.into(), "there is no setting `no.such`");
        check("a = = b", "files_max", 1.into(), "cannot parse");
        check("retention = 3\n", "retention.days", 1.into(), "is not a table");
    }

    #[test]
    fn a_value_that_was_changed_in_the_meantime_is_not_overwritten() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("config.toml");
        let features = FeatureConfig::new(path.clone(), Default::default(), None).unwrap();
        let file = SettingsFile::new(features).unwrap();
        let set = |key: &str, value: Json, expected: Json| {
            file.set(key, &value, Some(&expected)).map(|_| files::read_optional(&path).unwrap())
        };
        let list = |texts: &[&str]| serde_json::json!(texts);
        // A setting that is not in the file has its default, or null.
        set("context.include", list(&["/a"]), Json::Null).unwrap();
        assert_eq!(
            set("context.include", list(&["/b"]), Json::Null),
            Err(SettingsError::ValueChanged)
        );
        set("context.include", list(&["/a", "/b"]), list(&["/a"])).unwrap();
        assert_eq!(
            set("context.include", Json::Null, list(&["/a"])),
            Err(SettingsError::ValueChanged)
        );
        let now = set("files_max", 7.into(), 1000.into()).unwrap().unwrap();
        assert_eq!(now, "files_max = 7\n[context]\ninclude = [\"/a\", \"/b\"]\n");
    }

    #[test]
    fn the_defaults_in_the_help_are_those_in_use() {
        let mut shown = String::new();
        for table in SETTING_TABLES.iter().filter(|table| table.name != "embeddings") {
            let dot = if table.name.is_empty() { "" } else { "." };
            for KnownSetting { key, shown: value, .. } in
                table.settings.iter().filter(|one| one.is_default)
            {
                shown.extend([table.name, dot, key, " = ", value, "\n"]);
            }
        }
        let read = |text: &str| {
            let folders = engine::BaseFolders { data: "d".into(), state: "s".into() };
            let mut config = engine::Config::new(folders);
            ParsedSettings::parse(text, Path::new("config.toml"))
                .unwrap()
                .apply(&mut config, |_| None);
            format!("{config:?}")
        };
        assert_eq!(read(&shown), read(""));
    }
}
