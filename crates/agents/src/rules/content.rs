//! Reads what is to be remembered: one fact, or a text with a form of its own.
//!
//! The wording stays as it is. Only a greeting and a request to remember around a fact are cut, and a sentence that
//! announces its items by their number (`three things: …`) becomes an entry for each.

use memory::document;
use memory::text::slice;

use super::duplicate::is_numbered;
use super::lexicon::Class;
use super::tokenize::TokenizedText;

/// A text without what is said around the fact itself: a greeting and a request to remember in front of it, thanks
/// behind it.
pub(crate) fn strip_lead_in(text: &str) -> &str {
    let text = strip_courtesy(text);
    (0..LEADS_MAX).fold(text, |text, _| strip_lead_phrase(text))
}

/// How many of them may stand in front of a fact: `Hey, quick one: please remember that …`.
const LEADS_MAX: usize = 3;

/// A text without the clauses around it that only greet, say thanks, or ask whether that is fine. They are cut only where a
/// mark parts them from the rest, and where they are not inside of quotes or brackets.
fn strip_courtesy(text: &str) -> &str {
    let read = TokenizedText::tokenize(text);
    let Some(last) = read.tokens.last().map(|token| token.clause) else { return text };
    let of = |clause: usize| read.tokens.iter().filter(move |token| token.clause == clause);
    // A clause without words is a mark of the text itself, such as `!!!` or `:::`.
    let says = |clause: &usize| {
        of(*clause).next().is_none() || of(*clause).any(|token| !token.is(Class::Polite))
    };
    let (Some(first), Some(final_one)) = ((0..=last).find(says), (0..=last).rev().find(says))
    else {
        return "";
    };
    let start = first.checked_sub(1).map_or(0, |before| {
        let end = of(before).next_back().map_or(0, |token| token.range.end);
        text.len() - after_separator(slice(text, end..)).len()
    });
    let thanks = of(final_one + 1).next().map_or(text.len(), |token| token.range.start);
    let said = slice(text, start..thanks).trim_end();
    let is_parted = said.ends_with(['.', '!', '?', '。', '！', '？', ',', ';', '，', '、']);
    let is_one_line = !slice(text, thanks..).trim_end().contains('\n');
    if thanks == text.len() || !is_parted || !is_one_line || !is_balanced(said) {
        return slice(text, start..);
    }
    said.trim_end_matches([',', ';', '，', '、'])
}

/// Returns the text after a separator, such as the comma of `Hi, …`. A mark at the beginning of the text itself stays
/// (`.env`, `--flag`).
pub(crate) fn after_separator(rest: &str) -> &str {
    let marks: &[char] = &[',', '.', '!', ':', '：', '，', '、', '！', '。'];
    let rest = rest.trim_start_matches(marks).trim_start();
    let dash = rest.strip_prefix(['-', '–', '—']).filter(|behind| behind.starts_with(' '));
    dash.map_or(rest, str::trim_start)
}

/// Tells whether what is opened in a text is closed in it: quotes, brackets and code.
fn is_balanced(text: &str) -> bool {
    let count = |c: char| text.matches(c).count();
    let pairs = [('(', ')'), ('[', ']'), ('{', '}'), ('“', '”'), ('«', '»'), ('「', '」')];
    count('"') % 2 == 0
        && count('`') % 2 == 0
        && pairs.into_iter().all(|(open, close)| count(open) == count(close))
}

/// A text without the request to remember in front of it, by the words of the lexicon.
fn strip_lead_phrase(text: &str) -> &str {
    let read = TokenizedText::tokenize(text);
    let lead = read
        .lexicon_matches
        .iter()
        .filter(|hit| hit.tokens.start == 0 && hit.classes.has(Class::Lead))
        .max_by_key(|hit| hit.tokens.end);
    let Some(lead) = lead else { return text };
    let Some(last) = read.tokens.get(lead.tokens.end - 1) else { return text };
    let rest = slice(text, last.range.end..);
    let marked =
        rest.trim_start().starts_with([':', ',', '!', '：', '，', '、', '！', '-', '–', '—']);
    let one_word =
        lead.tokens.len() == 1 && !matches!(read.tokens[0].word.chars().next(), Some('\u{3040}'..));
    let bare = after_separator(rest.trim_start());
    // `note the port` may be an order of its own; `note: the port` is not.
    if (one_word && !marked) || bare.is_empty() { text } else { bare }
}

/// Returns what a content says, without a head such as a memory has: name, description and type.
pub(crate) fn content_body(content: &str) -> String {
    let content = content.replace("\r\n", "\n").replace('\r', "\n");
    let content = content.trim_start_matches('\u{FEFF}');
    let head = document::parse_header(content.as_bytes());
    let is_head = head.malformed.is_none()
        && (head.name.is_some() || !head.description.is_empty() || head.kind.is_some())
        && !document::has_other_fields(content);
    let body = if is_head { document::body(content) } else { "" };
    let body = if body.trim().is_empty() { content } else { body };
    // The indentation of the first line may be that of code.
    let start = body.len() - body.trim_start().len();
    let start = slice(body, ..start).rfind('\n').map_or(0, |at| at + 1);
    let body = slice(body, start..).trim_end();
    if body.contains('\n') { body.to_owned() } else { body.trim_start().to_owned() }
}

/// A text as it will be kept.
pub(crate) enum RememberContent {
    /// One statement, which becomes an entry; its reasons belong to it.
    Fact(String),
    /// Lists, headings, tables, code or several paragraphs: kept as they are.
    Section(String),
}

/// Reads what was said; `None` if it states nothing.
pub(crate) fn parse_content(body: &str) -> Option<RememberContent> {
    let states = |text: &str| text.chars().any(|c| c.is_alphanumeric() || !c.is_ascii());
    if document::body(body).len() < body.len() {
        // What looks like a head is a part of what was said.
        return states(body).then(|| RememberContent::Section(format!("\n{body}")));
    }
    let entries = document::entries(body);
    let Some((first, more)) = entries.split_first() else {
        // A heading alone states what it says.
        let has_words = |line: &&str| line.chars().any(char::is_alphanumeric);
        return states(body).then(|| match body.lines().filter(has_words).count() {
            1 => RememberContent::Fact(title_line(body)),
            _ => RememberContent::Section(body.to_owned()),
        });
    };
    let whole = first.full_text(body);
    let is_alone = more.is_empty() && !has_heading(body) && !is_step(body, first);
    if is_alone && !is_block(slice(body, first.range.clone()), whole) {
        let fact = strip_lead_in(whole);
        return states(fact).then(|| RememberContent::Fact(fact.to_owned()));
    }
    states(body).then(|| RememberContent::Section(body.trim_matches('\n').to_owned()))
}

/// Tells whether lines have a layout that an item of a list would not keep: a block of Markdown, or of something that
/// Markdown does not know, such as a diff, data, code without a fence, a formula or verse.
///
/// `all` is the entry with its bullet, `whole` without.
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
    // What an item has below it is a list, not its reasons.
    let has_items = whole.lines().skip(1).any(|line| {
        let line = line.trim_start();
        line.starts_with(['-', '*', '+']) || is_numbered(line)
    });
    begins_block || has_items || (!is_item && whole.contains('\n') && !whole.lines().all(is_text))
}

/// Tells whether a body has more than its entries: headings, breaks.
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

/// The items of a list that a sentence announces with their number, `three things: a, b and c`; the text
/// itself otherwise.
pub(crate) fn announced_items(text: &str) -> Vec<String> {
    let whole = || vec![text.to_owned()];
    let Some((announcement, list)) = text.split_once([':', '：']) else { return whole() };
    if announcement.contains("//") || announcement.split_whitespace().count() > 12 {
        return whole();
    }
    let read = TokenizedText::tokenize(announcement);
    let thing = read.tokens.iter().any(|token| token.is(Class::Thing));
    let number = read
        .tokens
        .iter()
        .filter_map(|token| token.key.parse::<usize>().ok())
        .find(|n| (2..=9).contains(n));
    let items = split_items(list);
    match number {
        Some(number) if thing && items.len() == number => items,
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
    // The last `and` stands with or without a comma in front of it.
    if let Some(last) = items.pop() {
        let read = TokenizedText::tokenize(&last);
        match read.tokens.iter().position(|token| token.is(Class::And)) {
            Some(0) => {
                let at = read.tokens[0].range.end;
                items.push(slice(&last, at..).trim().to_owned());
            }
            Some(index) => {
                let at = &read.tokens[index].range;
                items.push(slice(&last, ..at.start).trim().to_owned());
                items.push(slice(&last, at.end..).trim().to_owned());
            }
            None => items.push(last),
        }
    }
    items
}

/// Returns the sentences of a fact when each can stand alone: none begins with a word that points back.
pub(crate) fn split_sentences(fact: &str) -> Vec<String> {
    if fact.contains('\n') {
        return vec![fact.to_owned()];
    }
    let mut sentences: Vec<String> = Vec::new();
    let mut start = 0;
    let chars: Vec<(usize, char)> = fact.char_indices().collect();
    for (index, (at, c)) in chars.iter().enumerate() {
        let next = chars.get(index + 1).map(|(_, c)| *c);
        let ends = match c {
            '.' | '!' | '?' => next.is_none_or(char::is_whitespace),
            '。' | '！' | '？' => true,
            _ => false,
        };
        if ends {
            let end = at + c.len_utf8();
            sentences.push(slice(fact, start..end).trim().to_owned());
            start = end;
        }
    }
    sentences.push(slice(fact, start..).trim().to_owned());
    sentences.retain(|sentence| !sentence.is_empty());
    let stand_alone = sentences.iter().skip(1).all(|sentence| {
        let read = TokenizedText::tokenize(sentence);
        let names_site = read.tokens.iter().take(3).any(|token| token.is(Class::Site));
        read.tokens.len() >= 3 && (names_site || !read.tokens[0].is(Class::Opener))
    });
    if stand_alone { sentences } else { vec![fact.to_owned()] }
}

/// Returns what a text with a form of its own is called: its first heading or line.
pub(crate) fn title_line(text: &str) -> String {
    let first = text.lines().map(str::trim).find(|line| line.chars().any(char::is_alphanumeric));
    let line = first.unwrap_or_default();
    line.trim_start_matches(['#', '-', '*', '+', '>', '|', ' '])
        .trim_end_matches([':', '：', '|', ' '])
        .to_owned()
}
