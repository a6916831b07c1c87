//! What a memory says of itself: the name and the description that a listing shows.
//!
//! A new memory gets them from its first fact. Those that exist stay as a person or an agent wrote them, unless they
//! repeat an entry that is forgotten: it would still be read in every listing.

use std::collections::{HashMap, HashSet};

use memory::document;
use memory::path::{Layout, MemoryPath, Mount};
use memory::text::slice;

use super::lexicon::Class;
use super::snapshot::{ParsedEntry, ParsedText, Snapshot, StoredMemory};
use super::tokenize::{TextToken, TokenizedText};
use crate::request::MemoryTopic;

/// The most words of a fact that name its memory.
const SLUG_WORDS_MAX: usize = 4;

/// The longest name of a memory, in characters: shown whole in every listing.
const MEMORY_SLUG_CHARS_MAX: usize = 48;

/// The longest description, in characters: one line of a listing.
const WRITTEN_DESCRIPTION_CHARS_MAX: usize = 120;

/// How long a description may be in place of a shorter one, in characters.
const DESCRIPTION_CHARS_USUAL: usize = 40;

/// The longest beginning of an entry that an answer quotes, in characters.
const FIRST_WORDS_CHARS_MAX: usize = 60;

/// What parts the entries that a description names.
const DESCRIPTION_SEPARATOR: &str = "; ";

/// What ends a description that does not say all.
const ELLIPSIS: &str = " …";

/// Returns a memory of its own with this body; what it is called comes from the title.
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

/// The names that memories and their folders have. No two may differ in case alone.
pub(crate) struct PathAllocator {
    /// The paths of memories, and of whatever else is no folder, in lower case.
    used_paths: HashSet<String>,
    /// Folders as they are written, by their paths in lower case.
    folders: HashMap<String, String>,
}

impl PathAllocator {
    /// Returns the names of these memories and of what cannot be read.
    pub(crate) fn from_memories<'a>(
        memories: impl IntoIterator<Item = &'a StoredMemory>,
        snapshot: &'a Snapshot,
    ) -> Self {
        let paths = memories.into_iter().map(|stored| &stored.path).chain(&snapshot.occupied_paths);
        let (mut taken, mut folders) = (HashSet::new(), HashMap::new());
        for path in paths.map(ToString::to_string) {
            let mut above = path.as_str();
            while let Some((folder, _)) = above.rsplit_once('/') {
                folders.entry(folder.to_lowercase()).or_insert_with(|| folder.to_owned());
                above = folder;
            }
            taken.insert(path.to_lowercase());
        }
        Self { used_paths: taken, folders }
    }

    /// Returns a folder of this name, or of one with a number where something else has the name.
    fn free_folder(&self, root: &str, name: &str) -> Option<String> {
        (1..=self.used_paths.len() + 1).find_map(|number| {
            let folder = format!("{root}/{}", with_number(name, number));
            let key = folder.to_lowercase();
            let known = self.folders.get(&key).cloned();
            (!self.used_paths.contains(&key)).then(|| known.unwrap_or(folder))
        })
    }

    /// Returns a path that no memory has, from the first words of a fact or else its topic; it is taken then.
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

/// Returns a name with its number among others of the same name.
fn with_number(name: &str, number: usize) -> String {
    if number == 1 { name.to_owned() } else { format!("{name}-{number}") }
}

/// Returns a file name from the first words that say something.
fn slug(fact: &str) -> String {
    let text = TokenizedText::tokenize(fact);
    let is_word = |word: &str| word.chars().all(|c| c.is_alphanumeric() || c == '_');
    let mut slug = String::new();
    // A name without the `no` of its fact would say the opposite.
    let tells =
        |token: &TextToken| token.is(Class::Not) || (token.is_content() && !token.is(Class::Rule));
    let words = text.tokens.iter().filter(|token| tells(token) && is_word(&token.word));
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

/// Returns the text of a memory, some of whose entries are gone, with a head that does not repeat them.
/// It becomes no longer than the memory was.
pub(crate) fn refresh_frontmatter(before: &ParsedText, text: String) -> String {
    let bytes_max = before.len();
    let head = &before.parsed().header;
    if head.malformed.is_some() || (head.name.is_none() && head.description.is_empty()) {
        return text;
    }
    let after = ParsedText::from(text);
    let left = first_lines(&after);
    let gone: Vec<&str> = first_lines(before)
        .into_iter()
        .filter(|line| !left.iter().any(|one| is_same_text(one, line)))
        .collect();
    let mut text = after.to_string();
    if gone.iter().any(|line| repeats(&head.description, line)) {
        let chars = head.description.chars().count();
        let long = description(&left, chars.max(DESCRIPTION_CHARS_USUAL));
        let short = description(&left, chars);
        text = set_first_fitting(&text, "description", &[long, short], bytes_max);
    }
    let name_is_of = |line: &str| {
        head.name.as_deref().is_some_and(|old| old == name_from_fact(line) || repeats(old, line))
    };
    if gone.iter().any(|line| name_is_of(line)) {
        let first = left.first().copied().unwrap_or_default();
        text = set_first_fitting(&text, "name", &[name_from_fact(first)], bytes_max);
    }
    text
}

/// Sets a field to the first value by which the text does not become too long, or else to nothing.
fn set_first_fitting(text: &str, key: &str, values: &[String], bytes_max: usize) -> String {
    let set = values.iter().map(|value| document::set_field(text, key, value));
    let fitting = set.into_iter().find(|text| text.len() <= bytes_max);
    fitting.unwrap_or_else(|| document::set_field(text, key, ""))
}

/// Returns the text with a description that names its entries, if it has a head without one.
pub(crate) fn with_missing_description(stored: &StoredMemory) -> Option<String> {
    let head = &stored.text.parsed().header;
    let has_head = document::body(&stored.text).len() < stored.text.len();
    if !has_head || head.malformed.is_some() || !head.description.is_empty() {
        return None;
    }
    let new = default_description(&first_lines(&stored.text));
    if new.is_empty() {
        return None;
    }
    let text = document::set_field(&stored.text, "description", &new);
    let is_set = document::parse_header(text.as_bytes()).description == new;
    (is_set && document::body(&text) == document::body(&stored.text)).then_some(text)
}

/// Tells whether the description of a memory says no more than its entries, as one that was written for it.
pub(crate) fn has_generated_description(stored: &StoredMemory) -> bool {
    let description = &stored.text.parsed().header.description;
    let lines = first_lines(&stored.text);
    let first = lines.first().copied().unwrap_or_default();
    !description.is_empty()
        && [default_description(&lines), default_description(&[first])].contains(description)
}

/// Returns the text with a description of its entries as they are now.
pub(crate) fn with_generated_description(text: &ParsedText) -> ParsedText {
    document::set_field(text, "description", &default_description(&first_lines(text))).into()
}

fn default_description(lines: &[&str]) -> String {
    description(lines, WRITTEN_DESCRIPTION_CHARS_MAX)
}

/// Returns what a memory says of itself: its name, the name of its file, and its description.
pub(crate) fn memory_title(stored: &StoredMemory) -> String {
    let head = &stored.text.parsed().header;
    let name = head.name.as_deref().unwrap_or_default();
    format!("{name}\n{}\n{}", file_name_words(&stored.path), head.description)
}

/// Returns the name of a memory's file as words.
fn file_name_words(path: &MemoryPath) -> String {
    let name = path.relative().map_or("", |relative| relative.file_name());
    name.strip_suffix(".md").unwrap_or(name).replace(['-', '_'], " ")
}

fn first_lines(text: &ParsedText) -> Vec<&str> {
    text.parsed().entries.iter().map(|note: &ParsedEntry| note.entry.first_line.as_str()).collect()
}

/// The first lines of entries, as many as fit, on one line; the first is cut between words if it must be.
fn description(lines: &[&str], chars_max: usize) -> String {
    let heads: Vec<String> = lines.iter().map(|line| normalize_line(line)).collect();
    // A row of a table says nothing without the others.
    let is_told = |head: &&str| !head.is_empty() && !head.starts_with('|');
    let heads: Vec<&str> = heads.iter().map(String::as_str).filter(is_told).collect();
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

/// What a line says, on one line and without the stop.
fn normalize_line(line: &str) -> String {
    document::description_line(line).trim_end_matches(['.', ':', '。']).to_owned()
}

/// Returns the first words of an entry, on one line and without the stop, for people.
pub(crate) fn first_words(entry: &str) -> String {
    let line = normalize_line(entry.lines().next().unwrap_or_default());
    if line.chars().count() > FIRST_WORDS_CHARS_MAX {
        truncate_at_word(&line, FIRST_WORDS_CHARS_MAX)
    } else {
        line
    }
}

/// The text cut between words, so that with the mark of a cut it has no more characters than this.
fn truncate_at_word(text: &str, chars_max: usize) -> String {
    let kept = chars_max.saturating_sub(ELLIPSIS.chars().count());
    let end = text.char_indices().nth(kept).map_or(text.len(), |(end, _)| end);
    let cut = slice(text, ..end);
    let between_words = slice(text, end..).starts_with(' ');
    let cut = if between_words { cut } else { cut.rsplit_once(' ').map_or(cut, |(cut, _)| cut) };
    format!("{}{ELLIPSIS}", cut.trim_end())
}

/// The words, without regard to case, marks and white space.
fn lowercase_words(text: &str) -> String {
    let words = text.split(|c: char| !c.is_alphanumeric()).filter(|word| !word.is_empty());
    words.collect::<Vec<_>>().join(" ").to_lowercase()
}

fn is_same_text(a: &str, b: &str) -> bool {
    lowercase_words(a) == lowercase_words(b)
}

/// Whether a name or description says what a line does: the whole line among other words, or the line cut short.
fn repeats(description: &str, line: &str) -> bool {
    let (words, line) = (lowercase_words(description), lowercase_words(line));
    let is_within = format!(" {words} ").contains(&format!(" {line} "));
    !line.is_empty() && (is_within || is_truncation_of(description, &line))
}

/// Whether the last piece of a description is the beginning of a line, which is folded.
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
    fn a_description_names_as_many_entries_as_fit() {
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
    fn a_description_cut_to_its_own_length_is_the_same_again() {
        for chars_max in 2..70 {
            let once = description(HARBOUR, chars_max);
            assert!(once.chars().count() <= chars_max, "{once}");
            assert_eq!(description(HARBOUR, once.chars().count()), once);
        }
    }

    #[test]
    fn a_description_repeats_a_line_as_a_whole_or_cut_short() {
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
