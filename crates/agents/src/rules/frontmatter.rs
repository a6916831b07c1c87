//! Generates a memory's frontmatter: the name and the description that listings show.
//!
//! A new memory gets them from its first fact, and they follow the entries that they were generated from. Existing ones
//! stay as a person or an agent wrote them, unless they repeat an entry that is gone, which would otherwise still be
//! shown in every listing.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

use memory::document;
use memory::path::{Layout, MemoryPath, Mount};
use memory::text::slice;

use super::fingerprints::TokenFingerprint;
use super::lexicon::Class;
use super::snapshot::{ParsedEntry, ParsedText, Snapshot, StoredMemory};
use super::tokenize::{TextToken, TokenizedText};
use crate::request::{CuratorEdit, MemoryTopic};

/// Maximum number of words in a generated name.
const SLUG_WORDS_MAX: usize = 4;

/// Maximum length of a generated name, in characters: listings show it whole.
const MEMORY_SLUG_CHARS_MAX: usize = 48;

/// Maximum length of a generated description, in characters: one line of a listing.
const WRITTEN_DESCRIPTION_CHARS_MAX: usize = 120;

/// Length up to which a new description may exceed the one that it replaces, in characters.
const DESCRIPTION_CHARS_USUAL: usize = 40;

/// Maximum length of the beginning of an entry in a report, in characters.
const FIRST_WORDS_CHARS_MAX: usize = 60;

/// Separator between the entries in a description.
const DESCRIPTION_SEPARATOR: &str = "; ";

/// End of a truncated description.
const ELLIPSIS: &str = " …";

/// Returns the text of a new memory with this body; its name and description come from the title.
pub(crate) fn new_memory_text(body: &str, title: &str, topic: MemoryTopic) -> String {
    let mut text = format!("\n{}\n", body.trim_matches('\n'));
    let description = default_description(&[title]);
    for (key, value) in
        [("type", topic.as_ref()), ("description", &description), ("name", &name_from_fact(title))]
    {
        text = document::set_field(&text, key, value);
    }
    text
}

/// Allocator of paths for new memories. No two paths may differ only in case.
pub(crate) struct PathAllocator {
    /// Paths of memories and other files, in lower case.
    used_paths: HashSet<String>,
    /// Folders as written, by their path in lower case.
    folders: HashMap<String, String>,
}

impl PathAllocator {
    /// Collects the paths of memories and of files that cannot be read.
    pub(crate) fn from_memories<'a>(
        memories: impl IntoIterator<Item = &'a StoredMemory>,
        snapshot: &'a Snapshot,
    ) -> Self {
        let paths = memories.into_iter().map(|stored| &stored.path).chain(&snapshot.occupied_paths);
        let (mut used_paths, mut folders) = (HashSet::new(), HashMap::new());
        let mut last_folder = String::new();
        for path in paths.map(ToString::to_string) {
            let mut above = path.as_str();
            // Most memories are in the folder of the one before them.
            while let Some((folder, _)) =
                above.rsplit_once('/').filter(|(of, _)| *of != last_folder)
            {
                folders.entry(folder.to_lowercase()).or_insert_with(|| folder.to_owned());
                above = folder;
            }
            if let Some((folder, _)) = path.rsplit_once('/')
                && folder != last_folder
            {
                folder.clone_into(&mut last_folder);
            }
            used_paths.insert(path.to_lowercase());
        }
        Self { used_paths, folders }
    }

    /// Returns a folder with this name, or with a number if a file has the name.
    fn free_folder(&self, root: &str, name: &str) -> Option<String> {
        (1..=self.used_paths.len() + 1).find_map(|number| {
            let folder = format!("{root}/{}", with_number(name, number));
            let key = folder.to_lowercase();
            let existing = self.folders.get(&key).cloned();
            (!self.used_paths.contains(&key)).then(|| existing.unwrap_or(folder))
        })
    }

    /// Returns an unused path, named by the first words of a fact or else its topic, and marks it as used.
    pub(crate) fn allocate(
        &mut self,
        fact: &str,
        mount: Mount,
        topic: MemoryTopic,
    ) -> Option<MemoryPath> {
        let (root, layout) = match mount {
            Mount::Scope(scope) => (format!("/memories/{scope}"), Layout::Scoped),
            Mount::Flat => ("/memories".to_owned(), Layout::Flat),
        };
        let folder = self.free_folder(&root, topic.as_ref())?;
        let count = self.used_paths.len();
        [slug(fact), topic.as_ref().to_owned()].into_iter().find_map(|slug| {
            (1..=count + 1).find_map(|number| {
                let name = with_number(&slug, number);
                let path = MemoryPath::parse(&format!("{folder}/{name}.md"), layout).ok()?;
                self.used_paths.insert(path.to_string().to_lowercase()).then_some(path)
            })
        })
    }
}

/// Appends a number, except 1, to a name.
fn with_number(name: &str, number: usize) -> String {
    if number == 1 { name.to_owned() } else { format!("{name}-{number}") }
}

/// Returns a file name from the first content words.
fn slug(fact: &str) -> String {
    let text = TokenizedText::tokenize(fact);
    let is_word = |word: &str| word.chars().all(|c| c.is_alphanumeric() || c == '_');
    let mut slug = String::new();
    // Without the negation of its fact a name would say the opposite.
    let is_significant =
        |token: &TextToken| token.is(Class::Not) || (token.is_content() && !token.is(Class::Rule));
    let words = text.tokens.iter().filter(|token| is_significant(token) && is_word(&token.word));
    for token in words.take(SLUG_WORDS_MAX) {
        if slug.chars().count() + token.word.chars().count() > MEMORY_SLUG_CHARS_MAX {
            break;
        }
        if !slug.is_empty() {
            slug.push('-');
        }
        slug.push_str(&token.word.replace('_', "-"));
    }
    if slug.is_empty() { "note".to_owned() } else { slug }
}

fn name_from_fact(fact: &str) -> String {
    slug(fact).replace('-', " ")
}

/// Returns the edit that gives a memory another text: its removal if no entries are left. Every edit of a stored memory
/// by the rules is made here, so that none leaves a generated name or description behind.
pub(crate) fn memory_edit(stored: &StoredMemory, text: String) -> CuratorEdit {
    let path = stored.path.clone();
    if document::entries(&text).is_empty() {
        CuratorEdit::Remove { path }
    } else {
        CuratorEdit::Write { path, text: refresh_frontmatter(&stored.text, text) }
    }
}

/// Updates the name and description of a memory after an edit of its entries.
///
/// They change only if they were generated from an entry that is gone or has another text, or if they repeat it. A
/// generated description also changes with each entry that is added or changed. It then consists of the newest entry
/// alone, because an earlier one may say what no longer holds. A name or description that the edit itself sets stays. If
/// entries were only removed, the text becomes no longer than before.
pub fn refresh_frontmatter(before: &ParsedText, text: String) -> String {
    let head = &before.parsed().header;
    if head.malformed.is_some() || (head.name.is_none() && head.description.is_empty()) {
        return text;
    }
    let after = ParsedText::from(text);
    let (old, new) = (first_lines(before), first_lines(&after));
    let is_gone = |line: &&str| !new.iter().any(|other| is_same_text(other, line));
    let gone: Vec<&str> = old.iter().copied().filter(is_gone).collect();
    let is_removal = new.iter().all(|line| old.contains(line));
    let bytes_max = if is_removal { before.len() } else { usize::MAX };
    let mut text = after.to_string();
    let description = &head.description;
    let added = new.iter().rfind(|line| !old.contains(line));
    let is_added = added.is_some();
    let newest = added.or(new.last()).map_or(&[][..], std::slice::from_ref);
    let is_generated = is_generated_from(description, &old);
    let is_outdated = !description.is_empty()
        && after.parsed().header.description == *description
        && (gone.iter().any(|line| repeats(description, line))
            || (is_generated && (is_added || !is_generated_from(description, &new))));
    if is_outdated {
        let chars = description.chars().count();
        let long = if is_removal {
            chars.max(DESCRIPTION_CHARS_USUAL)
        } else {
            WRITTEN_DESCRIPTION_CHARS_MAX
        };
        let values = [long, chars].map(|chars| self::description(newest, chars));
        text = set_first_fitting(&text, "description", &values, bytes_max);
    }
    let name_is_of = |line: &&str| {
        head.name.as_deref().is_some_and(|old| old == name_from_fact(line) || repeats(old, line))
    };
    if after.parsed().header.name == head.name && gone.iter().any(name_is_of) {
        let first = new.first().copied().unwrap_or_default();
        text = set_first_fitting(&text, "name", &[name_from_fact(first)], bytes_max);
    }
    text
}

/// Sets a field to the first value that keeps the text within the limit, or else to the empty string.
fn set_first_fitting(text: &str, key: &str, values: &[String], bytes_max: usize) -> String {
    let set = values.iter().map(|value| document::set_field(text, key, value));
    let fitting = set.into_iter().find(|text| text.len() <= bytes_max);
    fitting.unwrap_or_else(|| document::set_field(text, key, ""))
}

/// Returns the text with a generated description, if it has frontmatter without one.
pub(crate) fn with_missing_description(stored: &StoredMemory) -> Option<String> {
    let head = &stored.text.parsed().header;
    if head.malformed.is_some() || !head.description.is_empty() {
        return None;
    }
    let has_head = document::body(&stored.text).len() < stored.text.len();
    if !has_head {
        return None;
    }
    let lines = first_lines(&stored.text);
    // An earlier entry may say what no longer holds.
    let new = default_description(lines.last().map_or(&[][..], std::slice::from_ref));
    if new.is_empty() {
        return None;
    }
    let text = document::set_field(&stored.text, "description", &new);
    let is_set = document::parse_header(text.as_bytes()).description == new;
    (is_set && document::body(&text) == document::body(&stored.text)).then_some(text)
}

/// Checks whether the description of a memory was generated from its entries.
pub(crate) fn has_generated_description(text: &ParsedText) -> bool {
    is_generated_from(&text.parsed().header.description, &first_lines(text))
}

/// Checks whether a description was generated from the first of these lines, or from any one. More may have been added
/// since, and the length may have been limited.
fn is_generated_from(description: &str, lines: &[&str]) -> bool {
    let chars = description.chars().count();
    // A truncated description depends on one more line than it shows.
    let count_max = description.split(DESCRIPTION_SEPARATOR).count() + 1;
    let first = (1..=lines.len().min(count_max)).map(|count| &lines[..count]);
    let mut sources = first.chain(lines.iter().map(std::slice::from_ref));
    !description.is_empty() && sources.any(|lines| self::description(lines, chars) == description)
}

/// Returns the text with a description generated from its current entries.
pub(crate) fn with_generated_description(text: &ParsedText) -> ParsedText {
    document::set_field(text, "description", &default_description(&first_lines(text))).into()
}

fn default_description(lines: &[&str]) -> String {
    description(lines, WRITTEN_DESCRIPTION_CHARS_MAX)
}

/// Returns a memory's name, file name and description.
pub(crate) fn memory_title(stored: &StoredMemory) -> String {
    let head = &stored.text.parsed().header;
    let name = head.name.as_deref().unwrap_or_default();
    format!("{name}\n{}\n{}", file_name_words(&stored.path), head.description)
}

/// Returns the tokens of [`memory_title`].
pub(crate) fn title_fingerprints(stored: &StoredMemory) -> Cow<'_, [TokenFingerprint]> {
    stored.text.title_fingerprints(&file_name_words(&stored.path), || memory_title(stored))
}

/// Returns the words of a memory's file name.
fn file_name_words(path: &MemoryPath) -> String {
    let name = path.relative().map_or("", |relative| relative.file_name());
    name.strip_suffix(".md").unwrap_or(name).replace(['-', '_'], " ")
}

fn first_lines(text: &ParsedText) -> Vec<&str> {
    text.parsed().entries.iter().map(ParsedEntry::first_line).collect()
}

/// Joins the first lines of entries, as many as fit; the first is cut between words if necessary.
fn description(lines: &[&str], chars_max: usize) -> String {
    let heads: Vec<String> = lines.iter().map(|line| normalize_line(line)).collect();
    // A table row is meaningless without the others.
    let is_meaningful = |head: &&str| !head.is_empty() && !head.starts_with('|');
    let heads: Vec<&str> = heads.iter().map(String::as_str).filter(is_meaningful).collect();
    let Some((first, rest)) = heads.split_first() else { return String::new() };
    let count = |text: &str| text.chars().count();
    let cut_chars = count(ELLIPSIS);
    if count(first) > chars_max || (count(first) + cut_chars > chars_max && !rest.is_empty()) {
        return truncate_at_word(first, chars_max);
    }
    let mut line = (*first).to_owned();
    for (index, head) in rest.iter().enumerate() {
        let is_last = index + 1 == rest.len();
        let more = count(DESCRIPTION_SEPARATOR) + count(head) + if is_last { 0 } else { cut_chars };
        if count(&line) + more > chars_max {
            line.push_str(ELLIPSIS);
            break;
        }
        line.push_str(DESCRIPTION_SEPARATOR);
        line.push_str(head);
    }
    line
}

/// Returns a line without markup and final punctuation.
fn normalize_line(line: &str) -> String {
    document::description_line(line).trim_end_matches(['.', ':', '。']).to_owned()
}

/// Returns the first words of an entry for a message, on one line and without final punctuation.
pub(crate) fn first_words(entry: &str) -> String {
    let line = normalize_line(entry.lines().next().unwrap_or_default());
    if line.chars().count() > FIRST_WORDS_CHARS_MAX {
        truncate_at_word(&line, FIRST_WORDS_CHARS_MAX)
    } else {
        line
    }
}

/// Cuts a text between words, so that it fits with the ellipsis.
fn truncate_at_word(text: &str, chars_max: usize) -> String {
    let kept = chars_max.saturating_sub(ELLIPSIS.chars().count());
    let end = text.char_indices().nth(kept).map_or(text.len(), |(end, _)| end);
    let cut = slice(text, ..end);
    let between_words = slice(text, end..).starts_with(' ');
    let cut = if between_words { cut } else { cut.rsplit_once(' ').map_or(cut, |(cut, _)| cut) };
    format!("{}{ELLIPSIS}", cut.trim_end())
}

/// Returns the words in lower case, without punctuation and white space.
fn lowercase_words(text: &str) -> String {
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(" ").to_lowercase()
}

fn is_same_text(a: &str, b: &str) -> bool {
    lowercase_words(a) == lowercase_words(b)
}

/// Checks whether a name or description repeats a line: the whole line among other words, or its beginning.
fn repeats(description: &str, line: &str) -> bool {
    let (words, line) = (lowercase_words(description), lowercase_words(line));
    let is_within = format!(" {words} ").contains(&format!(" {line} "));
    !line.is_empty() && (is_within || is_truncation_of(description, &line))
}

/// Checks whether the last part of a description is the beginning of a line in lower case.
fn is_truncation_of(description: &str, line: &str) -> bool {
    let last = description.rsplit(DESCRIPTION_SEPARATOR).next().unwrap_or_default();
    let Some(start) = last.trim_end().strip_suffix('…') else { return false };
    let start = lowercase_words(start);
    !start.is_empty() && line.starts_with(&start)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HARBOUR: &[&str] = &["The pier gate opens at six.", "Gates are green", "The lamp burns"];

    #[test]
    fn a_description_has_as_many_entries_as_fit() {
        for (chars_max, expected) in [
            (120, "The pier gate opens at six; Gates are green; The lamp burns"),
            (59, "The pier gate opens at six; Gates are green; The lamp burns"),
            (58, "The pier gate opens at six; Gates are green …"),
            (45, "The pier gate opens at six; Gates are green …"),
            (44, "The pier gate opens at six …"),
            (28, "The pier gate opens at six …"),
            (27, "The pier gate opens at …"),
            (0, " …"),
        ] {
            assert_eq!(description(HARBOUR, chars_max), expected, "{chars_max}");
        }
        assert_eq!(description(&["", "a\u{200b}b  c:"], 9), "ab c");
        assert_eq!(description(&[], 9), "");
    }

    #[test]
    fn truncating_a_description_to_its_own_length_changes_nothing() {
        for chars_max in 2..70 {
            let once = description(HARBOUR, chars_max);
            assert!(once.chars().count() <= chars_max, "{once}");
            assert_eq!(description(HARBOUR, once.chars().count()), once);
        }
    }

    #[test]
    fn a_description_repeats_a_line_as_a_whole_or_truncated() {
        for (description, line, expected) in [
            ("Lives in Porto", "lives  in Porto.", true),
            ("Has a dog; lives in Porto", "Lives in Porto", true),
            ("Olives in Porto", "lives in Porto", false),
            ("The staging cluster", "The staging cluster resets itself", false),
            ("The staging cluster …", "The staging cluster resets itself", true),
            ("…", "anything", false),
            ("Anything", "", false),
        ] {
            assert_eq!(repeats(description, line), expected, "{description} | {line}");
        }
    }
}
