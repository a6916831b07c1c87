//! Cuts what somebody said into facts, one entry each.
//!
//! The form of the text decides where it has one: list items, paragraphs, steps below a heading, code with
//! what introduces it. Prose stays together unless it announces a list (`three things: …`), speaks of the
//! person in one sentence and of the work in the next, or of things that have nothing in common. The wording
//! stays as it is.

use std::collections::HashSet;
use std::sync::LazyLock;

use memory::document;
use regex::Regex;

use super::lexicon::Class;
use super::likeness::{fingerprint, is_correction};
use super::words::{Text, Token};

/// A text without what is said around the fact itself: a greeting and a request to remember in front of it, thanks
/// behind it.
pub(crate) fn bare(text: &str) -> &str {
    let text = without_courtesy(text);
    (0..LEADS_MAX).fold(text, |text, _| without_lead(text))
}

/// How many of them may stand in front of a fact: `Hey, quick one: please remember that …`.
const LEADS_MAX: usize = 3;

/// A text without the clauses around it that only greet, say thanks, or ask whether that is fine.
fn without_courtesy(text: &str) -> &str {
    let read = Text::read(text);
    let Some(last) = read.tokens.last().map(|token| token.clause) else { return text };
    let of = |clause: usize| read.tokens.iter().filter(move |token| token.clause == clause);
    let says = |clause: &usize| of(*clause).any(|token| !token.is(Class::Polite));
    let (Some(first), Some(final_one)) = ((0..=last).find(says), (0..=last).rev().find(says))
    else {
        return "";
    };
    let ends = |clause: usize| of(clause).next_back().map_or(0, |token| token.at.end);
    let start = first.checked_sub(1).map_or(0, |before| {
        let rest = text.get(ends(before)..).unwrap_or_default();
        text.len()
            - rest.trim_start_matches(|c: char| c.is_whitespace() || ",.!:".contains(c)).len()
    });
    let rest = text.get(ends(final_one)..).unwrap_or_default();
    if final_one == last || rest.contains('\n') {
        return text.get(start..).unwrap_or(text);
    }
    let stop =
        rest.chars().next().filter(|c| matches!(c, '.' | '!' | '?')).map_or(0, char::len_utf8);
    text.get(start..text.len() - rest.len() + stop).unwrap_or(text)
}

/// A text without the request to remember in front of it, by the words of the lexicon.
fn without_lead(text: &str) -> &str {
    let read = Text::read(text);
    let lead = read
        .hits
        .iter()
        .filter(|hit| hit.tokens.start == 0 && hit.classes.has(Class::Lead))
        .max_by_key(|hit| hit.tokens.end);
    let Some(lead) = lead else { return text };
    let Some(last) = read.tokens.get(lead.tokens.end - 1) else { return text };
    let rest = text.get(last.at.end..).unwrap_or_default();
    let marked =
        rest.trim_start().starts_with([':', ',', '!', '：', '，', '、', '！', '-', '–', '—']);
    let one_word =
        lead.tokens.len() == 1 && !matches!(read.tokens[0].word.chars().next(), Some('\u{3040}'..));
    let bare =
        rest.trim_start_matches(|c: char| c.is_whitespace() || ":,!：，、！-–—。".contains(c));
    // `note the port` may be an order of its own; `note: the port` is not.
    if (one_word && !marked) || bare.is_empty() { text } else { bare }
}

/// Returns what a content says, without what looks like the frontmatter of a memory.
pub(crate) fn said(content: &str) -> String {
    let content = content.replace("\r\n", "\n").replace('\r', "\n");
    let body = document::body(content.trim_start_matches('\u{FEFF}')).trim_matches('\n');
    if body.trim().is_empty() { content.trim().to_owned() } else { body.to_owned() }
}

/// Returns the facts of what was said, each as it will stand in its entry.
pub(crate) fn facts(body: &str) -> Vec<String> {
    let mut facts: Vec<String> = Vec::new();
    let mut heading: Option<String> = None;
    for block in blocks(body) {
        match block {
            Block::Heading(text) => heading = Some(text),
            Block::Item(text) => facts.push(bare(text.trim()).to_owned()),
            Block::Steps(text) => {
                let title = heading.take().or_else(|| introduction(&mut facts));
                facts.push(match title {
                    Some(title) => format!("{}:\n{text}", title.trim_end_matches([':', '：'])),
                    None => text,
                });
            }
            Block::Code(text) => match facts.last_mut() {
                Some(last) => *last = format!("{last}\n\n{text}"),
                None => facts.push(text),
            },
            Block::Reasons(text) => match facts.last_mut() {
                Some(last) => *last = format!("{last}\n{text}"),
                None => facts.push(text),
            },
            Block::Paragraph(text) => {
                facts.extend(lines_apart(&text).into_iter().flat_map(announced));
            }
        }
    }
    facts.retain(|fact| fact.chars().any(|c| c.is_alphanumeric() || !c.is_ascii()));
    facts
}

/// A paragraph that only introduces what follows.
fn introduction(facts: &mut Vec<String>) -> Option<String> {
    facts.pop_if(|last| last.ends_with([':', '：']))
}

/// A piece of a content.
enum Block {
    Heading(String),
    Item(String),
    /// A numbered list: steps that belong together.
    Steps(String),
    Code(String),
    /// Why, and how to apply.
    Reasons(String),
    Paragraph(String),
}

static BULLET: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"^ {0,3}(?:[-*+•]|--) +").ok());
static STEP: LazyLock<Option<Regex>> = LazyLock::new(|| Regex::new(r"^ {0,3}\d{1,3}[.)] +\S").ok());
static REASON: LazyLock<Option<Regex>> =
    LazyLock::new(|| Regex::new(r"(?i)^[ \t]*[*_]*(?:why|how[ _]to[ _]apply)[*_]*:").ok());

/// Whether a fact says why it is so, or how to apply it.
pub(crate) fn explains(fact: &str) -> bool {
    fact.lines().any(|line| is(&REASON, line))
}

fn is(pattern: &LazyLock<Option<Regex>>, line: &str) -> bool {
    pattern.as_ref().is_some_and(|pattern| pattern.is_match(line))
}

fn blocks(body: &str) -> Vec<Block> {
    let mut blocks: Vec<Block> = Vec::new();
    let mut fence: Option<String> = None;
    let mut after_blank = true;
    for line in body.lines() {
        let bare = line.trim_start();
        if let Some(open) = &fence {
            let closes = bare.starts_with(open.as_str());
            if let Some(Block::Code(text)) = blocks.last_mut() {
                text.push('\n');
                text.push_str(line);
            }
            if closes {
                fence = None;
            }
            continue;
        }
        if bare.starts_with("```") || bare.starts_with("~~~") {
            fence = Some(bare.chars().take(3).collect());
            blocks.push(Block::Code(line.to_owned()));
        } else if bare.is_empty() {
            after_blank = true;
            continue;
        } else {
            line_of_text(&mut blocks, line, after_blank);
        }
        after_blank = false;
    }
    blocks
}

fn line_of_text(blocks: &mut Vec<Block>, line: &str, after_blank: bool) {
    // What somebody is quoted with is said all the same.
    let line = line.strip_prefix("> ").unwrap_or(line);
    let bare = line.trim_start();
    if let Some(found) = BULLET.as_ref().and_then(|pattern| pattern.find(line)) {
        blocks.push(Block::Item(line.get(found.end()..).unwrap_or_default().to_owned()));
    } else if matches!(bare, "-" | "*" | "+" | "---" | "***" | "...") {
    } else if is(&STEP, line) {
        match blocks.last_mut() {
            Some(Block::Steps(text)) => {
                text.push('\n');
                text.push_str(line);
            }
            _ => blocks.push(Block::Steps(line.to_owned())),
        }
    } else if bare.starts_with('#') && bare.trim_start_matches('#').starts_with(' ') {
        blocks.push(Block::Heading(bare.trim_start_matches('#').trim().to_owned()));
    } else if is(&REASON, line) {
        blocks.push(Block::Reasons(line.trim().to_owned()));
    } else {
        let indented = line.starts_with([' ', '\t']);
        match blocks.last_mut() {
            Some(Block::Item(text) | Block::Steps(text)) if indented || !after_blank => {
                text.push('\n');
                text.push_str(line);
            }
            Some(Block::Paragraph(text) | Block::Reasons(text)) if !after_blank => {
                text.push('\n');
                text.push_str(line);
            }
            _ => blocks.push(Block::Paragraph(line.to_owned())),
        }
    }
}

/// The lines of a paragraph, if each ends as a sentence does; else all of it.
fn lines_apart(text: &str) -> Vec<&str> {
    let ends = |line: &str| line.trim_end().ends_with(['.', '!', '?', '。', '！', '？', ':']);
    let lines: Vec<&str> = text.lines().map(|line| bare(line.trim())).collect();
    if lines.len() > 1 && text.lines().all(ends) { lines } else { vec![bare(text.trim())] }
}

/// The items of a list that a sentence announces with their number, `three things: a, b and c`; the text
/// itself otherwise.
fn announced(text: &str) -> Vec<String> {
    let whole = || vec![text.to_owned()];
    let Some((announcement, list)) = text.split_once([':', '：']) else { return whole() };
    if announcement.contains("//") || announcement.split_whitespace().count() > 12 {
        return whole();
    }
    let read = Text::read(announcement);
    let thing = read.tokens.iter().any(|token| token.is(Class::Thing));
    let number = read
        .tokens
        .iter()
        .filter_map(|token| token.key.parse::<usize>().ok())
        .find(|n| (2..=9).contains(n));
    let items = items(list);
    match number {
        Some(number) if thing && items.len() == number => items,
        _ => whole(),
    }
}

fn items(list: &str) -> Vec<String> {
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
        let read = Text::read(&last);
        match read.tokens.iter().position(|token| token.is(Class::And)) {
            Some(0) => {
                let at = read.tokens[0].at.end;
                items.push(last.get(at..).unwrap_or_default().trim().to_owned());
            }
            Some(index) => {
                let at = &read.tokens[index].at;
                items.push(last.get(..at.start).unwrap_or_default().trim().to_owned());
                items.push(last.get(at.end..).unwrap_or_default().trim().to_owned());
            }
            None => items.push(last),
        }
    }
    items
}

/// What a speaker says of themselves, clause by clause, if each begins with them: `I live here, and I bake`.
fn of_speaker(fact: &str) -> Option<Vec<String>> {
    let read = Text::read(fact);
    let (first, last) = (read.tokens.first()?, read.tokens.last()?);
    if first.sentence != last.sentence {
        return None;
    }
    let mut clauses = Vec::new();
    for clause in 0..=last.clause {
        let of_clause = |token: &&Token| token.clause == clause;
        let mut words = read.tokens.iter().filter(of_clause).skip_while(|one| one.is(Class::And));
        let start = words.next().filter(|one| one.is(Class::Oneself) && one.is(Class::Function))?;
        words.clone().find(|one| one.is_content() && !one.is(Class::Asking))?;
        let end = words.last()?.at.end;
        let end = if clause == last.clause { fact.len() } else { end };
        clauses.push(fact.get(start.at.start..end)?.to_owned());
    }
    (clauses.len() > 1).then_some(clauses)
}

/// Returns the sentences of a fact when each can stand alone: none begins with a word that points back.
pub(crate) fn sentences(fact: &str) -> Vec<String> {
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
            sentences.push(fact.get(start..end).unwrap_or_default().trim().to_owned());
            start = end;
        }
    }
    sentences.push(fact.get(start..).unwrap_or_default().trim().to_owned());
    sentences.retain(|sentence| !sentence.is_empty());
    let stand_alone = sentences.iter().skip(1).all(|sentence| {
        let read = Text::read(sentence);
        let names_site = read.tokens.iter().take(3).any(|token| token.is(Class::Site));
        read.tokens.len() >= 3 && (names_site || !read.tokens[0].is(Class::Opener))
    });
    if stand_alone { sentences } else { vec![fact.to_owned()] }
}

/// Returns the facts of a text, each an entry of its own: all of it as one unless it says things that have nothing to
/// do with each other.
pub(crate) fn apart(fact: &str) -> Vec<String> {
    let sentences = sentences(fact);
    let is_apart = are_apart(&sentences);
    let apart = if is_apart { Some(sentences) } else { of_speaker(fact) };
    apart.unwrap_or_else(|| vec![fact.to_owned()])
}

/// The fewest words of a sentence that may be an entry of its own, and of those that say something.
const SENTENCE_WORDS_MIN: (usize, usize) = (4, 2);

/// Whether sentences have nothing to do with each other: each says enough, none points back or sets a condition
/// for the next, none corrects anything, and no two have a word in common.
fn are_apart(sentences: &[String]) -> bool {
    let mut words = HashSet::new();
    sentences.len() > 1
        && sentences.iter().enumerate().all(|(index, sentence)| {
            let text = Text::read(sentence);
            let keys: HashSet<String> =
                fingerprint(&text).into_iter().map(|(key, _)| key).collect();
            let is_new = keys.is_disjoint(&words);
            words.extend(keys);
            let (all, telling) = SENTENCE_WORDS_MIN;
            is_new
                && text.tokens.len() >= all
                && text.content().count() >= telling
                && !is_correction(&text)
                && (index == 0 || !points_back(&text))
                && !text.tokens[0].is(Class::Condition)
        })
}

/// Whether a text speaks of something that another one named; so it is taken to where it has no small word of a
/// language whose words for that are listed.
fn points_back(text: &Text) -> bool {
    let mut tokens = text.tokens.iter().peekable();
    let mut points = false;
    while let Some(token) = tokens.next() {
        let is_site =
            token.is(Class::This) && tokens.peek().is_some_and(|next| next.is(Class::Site));
        points |= token.is(Class::Back) && !is_site;
    }
    let is_read = |token: &Token| token.is(Class::Function) && token.knows_what_points_back();
    points || !text.tokens.iter().any(is_read)
}
