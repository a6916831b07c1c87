//! Extracts the sentences that a person wrote themselves from a message: without code, quotations, logs, pasted
//! text.
//!
//! Only the layout decides, so it works in every language. Quotations inside a sentence stay in it and are marked.

use std::ops::Range;

use memory::text::slice;

use super::tokenize::{is_month_name, normalize};

/// Maximum number of lines of a message that is read as a whole. A longer one is mostly pasted, and only its first
/// and last paragraph are read.
const OWN_LINES_MAX: usize = 10;

/// Maximum number of lines of such a paragraph.
const PARAGRAPH_LINES_MAX: usize = 3;

/// Maximum length of a sentence, in bytes; a longer one is pasted, or not a statement to keep.
const SENTENCE_BYTES_MAX: usize = 600;

/// Maximum length of a line, in bytes; a longer one is pasted.
const LINE_BYTES_MAX: usize = 4096;

/// Maximum length of a day number, after which a full stop may not end the sentence.
const ABBREVIATION_CHARS_MAX: usize = 2;

/// A sentence in a person's own words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MessageSentence<'a> {
    pub(crate) text: &'a str,
    /// Byte ranges in the sentence of quotations and code.
    pub(crate) quoted: Vec<Range<usize>>,
    /// Whether its line ends with a colon after it, so that it introduces the next lines.
    pub(crate) ends_with_colon: bool,
}

/// Returns the sentences of a message that are a person's own words.
pub(crate) fn own_sentences(message: &str) -> Vec<MessageSentence<'_>> {
    let mut sentences = Vec::new();
    for line in own_lines(message).into_iter().filter(|line| line.len() <= LINE_BYTES_MAX) {
        let quoted = quotations(line);
        let ends = sentence_ends(line, &quoted);
        let mut start = 0;
        for (index, end) in ends.iter().enumerate() {
            let whole = slice(line, start..*end);
            let from = start + (whole.len() - whole.trim_start().len());
            let text = whole.trim();
            let inside = quoted.iter().filter(|range| range.start >= from && range.end <= *end);
            let quoted = inside.map(|range| range.start - from..range.end - from).collect();
            let introduces = index + 1 == ends.len() && text.ends_with([':', '：']);
            if !text.is_empty() && text.len() <= SENTENCE_BYTES_MAX {
                sentences.push(MessageSentence { text, quoted, ends_with_colon: introduces });
            }
            start = *end;
        }
    }
    sentences
}

/// Returns the lines that are no code, quotation or program output, without their bullets.
fn own_lines(message: &str) -> Vec<&str> {
    let mut fence: Option<&str> = None;
    let mut own: Vec<Option<&str>> = Vec::new();
    for line in message.lines() {
        let text = line.trim();
        let mark = ["```", "~~~"].into_iter().find(|mark| text.starts_with(mark));
        match (fence, mark) {
            (Some(open), Some(mark)) if open == mark => fence = None,
            (None, Some(mark)) => fence = Some(mark),
            (None, None) if text.is_empty() => own.push(None),
            (None, None) if !is_quoted_layout(line) => own.push(Some(without_bullet(text))),
            (Some(_), _) | (None, None) => {}
        }
    }
    let labeled = own.iter().flatten().filter(|line| is_labeled(line)).count();
    let is_dialogue = labeled > 1;
    let own: Vec<Option<&str>> =
        own.into_iter().filter(|line| !(is_dialogue && line.is_some_and(is_labeled))).collect();
    if own.iter().flatten().count() <= OWN_LINES_MAX {
        return own.into_iter().flatten().collect();
    }
    let mut paragraphs: Vec<Vec<&str>> = own
        .split(Option::is_none)
        .map(|lines| lines.iter().copied().flatten().collect())
        .filter(|lines: &Vec<&str>| !lines.is_empty())
        .collect();
    let last = paragraphs.pop();
    paragraphs.truncate(1);
    paragraphs.extend(last);
    paragraphs.retain(|lines| lines.len() <= PARAGRAPH_LINES_MAX);
    paragraphs.concat()
}

/// Checks whether a line has the layout of code, a quotation, a heading or output.
fn is_quoted_layout(line: &str) -> bool {
    let text = line.trim_start();
    let is_indented = line.starts_with("    ") || line.starts_with('\t');
    let marks = [
        "<", ">", "{", "}", "[", "|", "$ ", "# ", "##", "#!", "//", "/*", "@@", "+++", "---", "+ ",
        "％ ", "% ",
    ];
    let is_dated = text.starts_with(|c: char| c.is_ascii_digit())
        && text.split_whitespace().next().is_some_and(|word| {
            word.len() >= 8
                && !word.contains(|c: char| !(c.is_ascii_digit() || "-:/.TZ+,".contains(c)))
        });
    is_indented || is_dated || marks.iter().any(|mark| text.starts_with(mark))
}

/// Checks whether a line begins with a name and a colon, as in a dialogue or a mail header.
fn is_labeled(line: &str) -> bool {
    let Some((label, rest)) = line.split_once(": ") else { return false };
    !rest.trim().is_empty()
        && label.split_whitespace().count() <= 2
        && label.starts_with(char::is_uppercase)
}

fn without_bullet(line: &str) -> &str {
    let bullet = ["- ", "* ", "• ", "– "].into_iter().find_map(|mark| line.strip_prefix(mark));
    let number = || {
        let digits = line.trim_start_matches(|c: char| c.is_ascii_digit());
        let is_short = (1..=2).contains(&(line.len() - digits.len()));
        digits.strip_prefix(". ").or_else(|| digits.strip_prefix(") ")).filter(|_| is_short)
    };
    bullet.or_else(number).unwrap_or(line).trim_start()
}

/// Returns the ranges of quotations and code in a line, with their marks. An unclosed one ends with the line.
fn quotations(line: &str) -> Vec<Range<usize>> {
    let mut ranges = Vec::new();
    let mut open: Option<(usize, char)> = None;
    let mut last = ' ';
    let mut chars = line.char_indices().peekable();
    while let Some((index, c)) = chars.next() {
        let next = chars.peek().map(|(_, next)| *next);
        let ends_word = next.is_none_or(|next| !next.is_alphanumeric());
        if let Some((start, close)) = open {
            let closes = match close {
                '”' => ['”', '“', '"'].contains(&c),
                '\'' | '’' => c == close && ends_word,
                _ => c == close,
            };
            if closes {
                ranges.push(start..index + c.len_utf8());
                open = None;
            }
        } else {
            let begins_word = !last.is_alphanumeric();
            open = match c {
                '"' if !last.is_ascii_digit() => Some((index, '"')),
                '`' => Some((index, '`')),
                '“' | '„' => Some((index, '”')),
                '«' => Some((index, '»')),
                '»' => Some((index, '«')),
                '「' => Some((index, '」')),
                '『' => Some((index, '』')),
                '《' => Some((index, '》')),
                '\'' if begins_word && !ends_word => Some((index, '\'')),
                '‘' => Some((index, '’')),
                _ => None,
            };
        }
        last = c;
    }
    // An apostrophe at the beginning of a word (`'tis`) is no quotation mark.
    ranges.extend(open.filter(|(_, close)| *close != '\'').map(|(start, _)| start..line.len()));
    ranges
}

/// Returns the offsets at which the sentences of a line end.
fn sentence_ends(line: &str, quoted: &[Range<usize>]) -> Vec<usize> {
    let mut ends = Vec::new();
    let mut chars = line.char_indices().peekable();
    while let Some((index, c)) = chars.next() {
        if quoted.iter().any(|range| range.start <= index && index + c.len_utf8() < range.end) {
            continue;
        }
        let end = index + c.len_utf8();
        let next = chars.peek().map(|(_, next)| *next);
        let is_followed = next.is_none_or(|c| c.is_whitespace() || c == '(');
        let is_end = match c {
            '.' => is_followed && !is_abbreviated(slice(line, ..index), slice(line, end..)),
            '!' | '?' | '…' | '؟' => next.is_none_or(|c| !"!?.".contains(c)),
            '。' | '！' | '？' => true,
            _ => false,
        };
        if is_end {
            ends.push(end);
        }
    }
    if ends.last().is_none_or(|last| *last < line.len()) {
        ends.push(line.len());
    }
    ends
}

/// Checks whether the word before a full stop is an abbreviation or a day number.
fn is_abbreviated(before: &str, after: &str) -> bool {
    let (is_first, word) = match before.rsplit_once(char::is_whitespace) {
        Some((_, word)) => (false, word),
        None => (true, before),
    };
    let word = word.trim_start_matches(['(', '"', '\'']);
    let next = after.trim_start();
    let next_word = next.split(|c: char| !c.is_alphanumeric()).next().unwrap_or_default();
    let is_number =
        word.chars().all(|c| c.is_ascii_digit()) && is_month_name(&normalize(next_word));
    let is_known =
        ["e.g", "i.e", "z.B", "d.h", "u.a", "bzw", "etc", "vgl", "approx", "incl", "p.ex"];
    let count = word.chars().count();
    let is_initial = count == 1 && word.chars().all(char::is_alphabetic) && word != "I";
    count > 0
        && ((is_number && count <= ABBREVIATION_CHARS_MAX)
            || is_initial
            || is_known.contains(&word)
            || ["Dr", "Mr", "Ms", "St", "No", "Nr", "Sr", "ca", "vs"].contains(&word) && !is_first)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(message: &str) -> Vec<&str> {
        own_sentences(message).into_iter().map(|sentence| sentence.text).collect()
    }

    #[test]
    fn only_a_persons_own_words_are_read() {
        for (message, expected) in [
            ("One. Two!  Three?", vec!["One.", "Two!", "Three?"]),
            ("> theirs\nmine", vec!["mine"]),
            ("```\ncode. more\n```\nmine", vec!["mine"]),
            ("- first\n2. second", vec!["first", "second"]),
            ("Ada: hi\nTobe: never\nmine", vec!["mine"]),
            ("He wrote \"Stop. Go.\" to me. Fine.", vec!["He wrote \"Stop. Go.\" to me.", "Fine."]),
            ("Es gilt ab 4. Mai, z.B. hier. Gut", vec!["Es gilt ab 4. Mai, z.B. hier.", "Gut"]),
            ("<p>page</p>\n2026-01-02T03:04:05Z start\n", vec![]),
            ("これは一つ。二つ", vec!["これは一つ。", "二つ"]),
        ] {
            assert_eq!(texts(message), expected, "{message}");
        }
        let pasted = "mine\n\n".to_owned() + &"line\n".repeat(20);
        assert_eq!(texts(&pasted), ["mine"]);
    }
}
