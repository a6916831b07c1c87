//! Parses the content of a remember request: one fact, or a text with its own structure.
//!
//! The wording does not change. Only greetings and requests to remember around a fact are cut. A sentence that
//! announces its items by their number (`three things: …`) becomes one entry per item.

use memory::document;
use memory::text::slice;

use super::duplicate::is_numbered;
use super::lexicon::Class;
use super::tokenize::TokenizedText;

/// Removes the text around a fact: a greeting and a request to remember before it, thanks after it.
pub(crate) fn strip_lead_in(text: &str) -> &str {
    let text = strip_courtesy(text);
    (0..LEADS_MAX).fold(text, |text, _| strip_lead_phrase(text))
}

/// Maximum number of lead-in phrases before a fact: `Hey, quick one: please remember that …`.
const LEADS_MAX: usize = 3;

/// Removes leading and trailing clauses that only greet, say thanks, or ask for confirmation. They are cut only at
/// punctuation outside quotes and brackets.
fn strip_courtesy(text: &str) -> &str {
    let tokenized = TokenizedText::tokenize(text);
    let Some(last) = tokenized.tokens.last().map(|token| token.clause) else { return text };
    let of = |clause: usize| tokenized.tokens.iter().filter(move |token| token.clause == clause);
    // A clause without words is punctuation of the text itself, such as `!!!` or `:::`.
    let has_content = |clause: &usize| {
        of(*clause).next().is_none() || of(*clause).any(|token| !token.is(Class::Polite))
    };
    let (Some(first), Some(last_content)) =
        ((0..=last).find(has_content), (0..=last).rev().find(has_content))
    else {
        return "";
    };
    let start = first.checked_sub(1).map_or(0, |before| {
        let end = of(before).next_back().map_or(0, |token| token.range.end);
        text.len() - after_separator(slice(text, end..)).len()
    });
    let thanks = of(last_content + 1).next().map_or(text.len(), |token| token.range.start);
    let fact = slice(text, start..thanks).trim_end();
    let is_separated = fact.ends_with(['.', '!', '?', '。', '！', '？', ',', ';', '，', '、']);
    let is_one_line = !slice(text, thanks..).trim_end().contains('\n');
    if thanks == text.len() || !is_separated || !is_one_line || !is_balanced(fact) {
        return slice(text, start..);
    }
    fact.trim_end_matches([',', ';', '，', '、'])
}

/// Returns the text after a separator, such as the comma of `Hi, …`. Punctuation that begins the text itself stays
/// (`.env`, `--flag`).
pub(crate) fn after_separator(rest: &str) -> &str {
    let marks: &[char] = &[',', '.', '!', ':', '：', '，', '、', '！', '。'];
    let rest = rest.trim_start_matches(marks).trim_start();
    let dash = rest.strip_prefix(['-', '–', '—']).filter(|rest| rest.starts_with(' '));
    dash.map_or(rest, str::trim_start)
}

/// Checks whether quotes, brackets and code are closed in a text.
fn is_balanced(text: &str) -> bool {
    let count = |c: char| text.matches(c).count();
    let pairs = [('(', ')'), ('[', ']'), ('{', '}'), ('“', '”'), ('«', '»'), ('「', '」')];
    count('"') % 2 == 0
        && count('`') % 2 == 0
        && pairs.into_iter().all(|(open, close)| count(open) == count(close))
}

/// Removes a request to remember before a fact, by the lexicon.
fn strip_lead_phrase(text: &str) -> &str {
    let tokenized = TokenizedText::tokenize(text);
    let lead = tokenized
        .lexicon_matches
        .iter()
        .filter(|hit| hit.tokens.start == 0 && hit.classes.has(Class::Lead))
        .max_by_key(|hit| hit.tokens.end);
    let Some(lead) = lead else { return text };
    let Some(last) = tokenized.tokens.get(lead.tokens.end - 1) else { return text };
    let rest = slice(text, last.range.end..);
    let has_separator =
        rest.trim_start().starts_with([':', ',', '!', '：', '，', '、', '！', '-', '–', '—']);
    let is_one_word = lead.tokens.len() == 1
        && !matches!(tokenized.tokens[0].word.chars().next(), Some('\u{3040}'..));
    let bare = after_separator(rest.trim_start());
    // `note the port` may be an order of its own; `note: the port` cannot.
    if (is_one_word && !has_separator) || bare.is_empty() { text } else { bare }
}

/// Returns the content without a memory's frontmatter: name, description and type.
pub(crate) fn content_body(content: &str) -> String {
    let content = content.replace("\r\n", "\n").replace('\r', "\n");
    let content = content.trim_start_matches('\u{FEFF}');
    let header = document::parse_header(content.as_bytes());
    let is_frontmatter = header.malformed.is_none()
        && (header.name.is_some() || !header.description.is_empty() || header.kind.is_some())
        && !document::has_other_fields(content);
    let body = if is_frontmatter { document::body(content) } else { "" };
    let body = if body.trim().is_empty() { content } else { body };
    // The indentation of the first line may belong to code.
    let start = body.len() - body.trim_start().len();
    let start = slice(body, ..start).rfind('\n').map_or(0, |newline| newline + 1);
    let body = slice(body, start..).trim_end();
    if body.contains('\n') { body.to_owned() } else { body.trim_start().to_owned() }
}

/// Parsed content.
pub(crate) enum RememberContent {
    /// One statement, which becomes an entry, with its reasons.
    Fact(String),
    /// Lists, headings, tables, code or several paragraphs, kept as they are.
    Section(String),
}

/// Parses a body; `None` if it states nothing.
pub(crate) fn parse_content(body: &str) -> Option<RememberContent> {
    let has_statement = |text: &str| text.chars().any(|c| c.is_alphanumeric() || !c.is_ascii());
    if document::body(body).len() < body.len() {
        // Other frontmatter is part of the content.
        return has_statement(body).then(|| RememberContent::Section(format!("\n{body}")));
    }
    let entries = document::entries(body);
    let Some((first, more)) = entries.split_first() else {
        // A lone heading is a statement.
        let has_words = |line: &&str| line.chars().any(char::is_alphanumeric);
        return has_statement(body).then(|| match body.lines().filter(has_words).count() {
            1 => RememberContent::Fact(title_line(body)),
            _ => RememberContent::Section(body.to_owned()),
        });
    };
    let whole = first.full_text(body);
    let is_alone = more.is_empty() && !has_heading(body) && !is_step(body, first);
    if is_alone && !is_block(slice(body, first.range.clone()), whole) {
        let fact = strip_lead_in(whole);
        return has_statement(fact).then(|| RememberContent::Fact(fact.to_owned()));
    }
    has_statement(body).then(|| RememberContent::Section(body.trim_matches('\n').to_owned()))
}

/// Checks whether lines have a layout that a list item would not preserve: Markdown blocks, and formats such as
/// diffs, data, code without a fence, formulas or verse.
///
/// `all` is the entry with its bullet, `whole` without it.
fn is_block(all: &str, whole: &str) -> bool {
    let before = all.split(whole).next().unwrap_or_default();
    let is_item = !before.trim().is_empty();
    let is_indented = !before.is_empty() && !is_item && whole.contains('\n');
    let begins_block = is_indented
        || whole.starts_with(['|', '>', '<', '#'])
        || ["```", "~~~", "$$", "!!!", ":::", "+++"].iter().any(|mark| whole.starts_with(mark));
    let is_text = |line: &str| {
        line.starts_with(|c: char| c.is_alphanumeric() || !c.is_ascii() || "\"'([`*_".contains(c))
            && !line.ends_with("  ")
            && !line.contains('\t')
    };
    // Indented text below an item may be a nested list, not reasons.
    let has_items = whole.lines().skip(1).any(|line| {
        let line = line.trim_start();
        line.starts_with(['-', '*', '+']) || is_numbered(line)
    });
    begins_block || has_items || (!is_item && whole.contains('\n') && !whole.lines().all(is_text))
}

/// Checks whether a body has text outside its entries: headings, breaks.
fn has_heading(body: &str) -> bool {
    let entries = document::entries(body);
    let start = entries.first().map_or(0, |first| first.range.start);
    let end = entries.last().map_or(0, |last| last.range.end);
    let around = [slice(body, ..start), slice(body, end..)];
    around
        .into_iter()
        .flat_map(str::lines)
        .any(|line| !line.trim().is_empty() && !matches!(line.trim(), "-" | "*" | "+"))
}

fn is_step(body: &str, entry: &document::Entry) -> bool {
    is_numbered(slice(body, entry.range.clone()).trim_start())
}

/// Returns the items that a sentence announces with their number, `three things: a, b and c`; else the whole text.
pub(crate) fn announced_items(text: &str) -> Vec<String> {
    let whole = || vec![text.to_owned()];
    let Some((announcement, list)) = text.split_once([':', '：']) else { return whole() };
    if announcement.contains("//") || announcement.split_whitespace().count() > 12 {
        return whole();
    }
    let tokenized = TokenizedText::tokenize(announcement);
    let has_thing = tokenized.tokens.iter().any(|token| token.is(Class::Thing));
    let number = tokenized
        .tokens
        .iter()
        .filter_map(|token| token.key.parse::<usize>().ok())
        .find(|n| (2..=9).contains(n));
    let items = split_items(list);
    match number {
        Some(number) if has_thing && items.len() == number => items,
        _ => whole(),
    }
}

fn split_items(list: &str) -> Vec<String> {
    let separators: &[char] =
        if list.contains([';', '；']) { &[';', '；'] } else { &[',', '，', '、'] };
    let mut items: Vec<String> = list
        .trim()
        .trim_end_matches(['.', '。'])
        .split(separators)
        .map(|item| item.trim().to_owned())
        .filter(|item| !item.is_empty())
        .collect();
    // The last `and` may follow a comma or not.
    if let Some(last) = items.pop() {
        let tokenized = TokenizedText::tokenize(&last);
        match tokenized.tokens.iter().position(|token| token.is(Class::And)) {
            Some(0) => {
                let and_end = tokenized.tokens[0].range.end;
                items.push(slice(&last, and_end..).trim().to_owned());
            }
            Some(index) => {
                let and = &tokenized.tokens[index].range;
                items.push(slice(&last, ..and.start).trim().to_owned());
                items.push(slice(&last, and.end..).trim().to_owned());
            }
            None => items.push(last),
        }
    }
    items
}

/// Returns the sentences of a fact if each can stand alone: none begins with a word that refers back.
pub(crate) fn split_sentences(fact: &str) -> Vec<String> {
    if fact.contains('\n') {
        return vec![fact.to_owned()];
    }
    let mut sentences: Vec<String> = Vec::new();
    let mut start = 0;
    let chars: Vec<(usize, char)> = fact.char_indices().collect();
    for (index, (offset, c)) in chars.iter().enumerate() {
        let next = chars.get(index + 1).map(|(_, c)| *c);
        let ends = match c {
            '.' | '!' | '?' => next.is_none_or(char::is_whitespace),
            '。' | '！' | '？' => true,
            _ => false,
        };
        if ends {
            let end = offset + c.len_utf8();
            sentences.push(slice(fact, start..end).trim().to_owned());
            start = end;
        }
    }
    sentences.push(slice(fact, start..).trim().to_owned());
    sentences.retain(|sentence| !sentence.is_empty());
    let stand_alone = sentences.iter().skip(1).all(|sentence| {
        let tokenized = TokenizedText::tokenize(sentence);
        let names_site = tokenized.tokens.iter().take(3).any(|token| token.is(Class::Site));
        tokenized.tokens.len() >= 3 && (names_site || !tokenized.tokens[0].is(Class::Opener))
    });
    if stand_alone { sentences } else { vec![fact.to_owned()] }
}

/// Returns the title of a structured text: its first heading or line.
pub(crate) fn title_line(text: &str) -> String {
    let first = text.lines().map(str::trim).find(|line| line.chars().any(char::is_alphanumeric));
    let line = first.unwrap_or_default();
    line.trim_start_matches(['#', '-', '*', '+', '>', '|', ' '])
        .trim_end_matches([':', '：', '|', ' '])
        .to_owned()
}
