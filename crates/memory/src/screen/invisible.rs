//! Rules for invisible characters, which a model reads but a person does not see.
//!
//! Most of them have legitimate uses: joiners in Persian and in family emoji, direction marks in Hebrew, tags in the
//! flags of Scotland and Wales. Each rule accepts the legitimate uses and reports the others. Adjacent characters that
//! break the same rule are one finding.

use super::pattern::RuleHit;
use super::{Family, Rule};
use crate::text::slice;

/// The rules, in the order of the documentation.
pub(super) const RULES: &[Rule] = &[
    BIDI_CONTROL,
    ZERO_WIDTH,
    TAG_CHARACTERS,
    BYTE_ORDER_MARK,
    CONTROL_CHARACTER,
    VARIATION_SELECTORS,
    BLANK_LETTER,
    DEPRECATED_FORMAT,
];

const BIDI_CONTROL: Rule = rule(
    "injection.bidi-control",
    "characters that turn the direction of writing, except plain marks beside a right-to-left script",
);
const ZERO_WIDTH: Rule = rule(
    "injection.zero-width",
    "zero-width characters that neither join emoji nor letters of a script that needs them",
);
const TAG_CHARACTERS: Rule =
    rule("injection.tag-characters", "tag characters (invisible ASCII) outside of emoji flags");
const BYTE_ORDER_MARK: Rule =
    rule("injection.byte-order-mark", "a byte order mark that is not the first character");
const CONTROL_CHARACTER: Rule =
    rule("injection.control-character", "control characters other than tab and line break");
const VARIATION_SELECTORS: Rule = rule(
    "injection.variation-selectors",
    "variation selectors that follow each other or nothing that has variants",
);
const BLANK_LETTER: Rule =
    rule("injection.blank-letter", "letters that show as nothing, such as Hangul fillers");
const DEPRECATED_FORMAT: Rule = rule(
    "injection.deprecated-format",
    "deprecated and special formatting characters, such as annotation anchors",
);

const fn rule(id: &'static str, about: &'static str) -> Rule {
    Rule { id, family: Family::Injection, about }
}

/// The distance to a right-to-left letter that makes a direction mark legitimate, in characters.
const DIRECTION_CONTEXT_CHARS: usize = 24;

/// The most letters and digits of the region in an emoji flag.
const FLAG_TAGS_MAX: usize = 6;

/// Adds every invisible character without a legitimate use at its position.
pub(super) fn find(text: &str, hits: &mut Vec<RuleHit>) {
    if is_clean_ascii(text.as_bytes()) {
        return;
    }
    let first = hits.len();
    let mut flag_end = 0;
    for (position, character) in text.char_indices() {
        if is_visible(character) {
            if character == '\u{1F3F4}' {
                flag_end = position + flag_bytes(slice(text, position..));
            }
            continue;
        }
        let end = position + character.len_utf8();
        if position < flag_end {
            continue;
        }
        let before = slice(text, ..position);
        let after = slice(text, end..);
        let Some(rule) = broken_rule(character, before, after) else { continue };
        match hits.get_mut(first..).and_then(<[RuleHit]>::last_mut) {
            Some(last) if last.rule == rule && last.range.end == position => last.range.end = end,
            _ => hits.push(RuleHit { rule, range: position..end }),
        }
    }
}

/// Checks whether a character is invisible in every context. Folding removes these.
pub(super) fn is_invisible(character: char) -> bool {
    matches!(character,
        '\u{AD}' | '\u{34F}' | '\u{61C}' | '\u{115F}'..='\u{1160}' | '\u{17B4}'..='\u{17B5}'
        | '\u{180B}'..='\u{180F}' | '\u{200B}'..='\u{200F}' | '\u{202A}'..='\u{202E}'
        | '\u{2060}'..='\u{206F}' | '\u{3164}' | '\u{FE00}'..='\u{FE0F}' | '\u{FEFF}'
        | '\u{FFA0}' | '\u{FFF0}'..='\u{FFFB}' | '\u{1BCA0}'..='\u{1BCA3}'
        | '\u{1D173}'..='\u{1D17A}' | '\u{E0000}'..='\u{E0FFF}')
}

/// Checks whether the bytes are ASCII without control characters, as in nearly every text.
///
/// Counts all bytes instead of stopping at the first other one, so that the compiler can vectorize the loop.
fn is_clean_ascii(bytes: &[u8]) -> bool {
    let is_clean = |byte: &&u8| matches!(byte, b' '..=b'~' | b'\n' | b'\t' | b'\r');
    bytes.iter().filter(is_clean).count() == bytes.len()
}

/// Checks whether a character is certainly visible.
fn is_visible(character: char) -> bool {
    match character {
        '\t' | '\n' | '\r' | ' '..='~' => true,
        '\0'..='\u{9F}' => false,
        _ => !is_invisible(character),
    }
}

/// Returns the rule that an invisible character breaks in its context, if any.
fn broken_rule(character: char, before: &str, after: &str) -> Option<Rule> {
    let left = before.chars().next_back();
    let right = after.chars().next();
    let (rule, is_legitimate) = match character {
        '\u{FEFF}' => (BYTE_ORDER_MARK, left.is_none()),
        '\u{200E}' | '\u{200F}' | '\u{61C}' => (BIDI_CONTROL, is_in_right_to_left(before, after)),
        '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}' => (BIDI_CONTROL, false),
        // Single soft hyphens come with text that is copied from web pages, and they only hyphenate.
        '\u{AD}' => (ZERO_WIDTH, is_letter(left) && is_letter(right)),
        '\u{200B}' => (ZERO_WIDTH, left.is_some_and(is_unspaced) && right.is_some_and(is_unspaced)),
        '\u{200C}' => {
            (ZERO_WIDTH, left.is_some_and(is_joining) && !right.is_some_and(is_invisible))
        }
        '\u{200D}' => (ZERO_WIDTH, is_legitimate_joiner(left, right)),
        '\u{34F}' | '\u{2060}'..='\u{2065}' => (ZERO_WIDTH, false),
        '\u{E0000}'..='\u{E007F}' => (TAG_CHARACTERS, false),
        '\u{FE00}'..='\u{FE0F}' | '\u{E0100}'..='\u{E01EF}' => {
            (VARIATION_SELECTORS, left.is_some_and(|left| has_variants(left, character)))
        }
        '\u{180B}'..='\u{180F}' => {
            (VARIATION_SELECTORS, matches!(left, Some('\u{1820}'..='\u{18AA}')))
        }
        '\u{115F}'..='\u{1160}' => (BLANK_LETTER, is_jamo(left) || is_jamo(right)),
        '\u{17B4}'..='\u{17B5}' | '\u{3164}' | '\u{FFA0}' => (BLANK_LETTER, false),
        '\0'..='\u{9F}' => (CONTROL_CHARACTER, false),
        _ => (DEPRECATED_FORMAT, false),
    };
    (!is_legitimate).then_some(rule)
}

fn is_legitimate_joiner(left: Option<char>, right: Option<char>) -> bool {
    let (Some(left), right) = (left, right) else { return false };
    let of_emoji = is_emoji(left) || matches!(left, '\u{FE0F}' | '\u{1F3FB}'..='\u{1F3FF}');
    (of_emoji && right.is_some_and(is_emoji))
        || (is_joining(left) && !right.is_some_and(is_invisible))
}

fn is_letter(character: Option<char>) -> bool {
    character.is_some_and(char::is_alphabetic)
}

fn is_jamo(character: Option<char>) -> bool {
    matches!(character, Some('\u{1100}'..='\u{115E}' | '\u{1161}'..='\u{11FF}'))
}

/// Checks whether a letter is of a script in which joiners change the shape of words.
fn is_joining(character: char) -> bool {
    matches!(character,
        '\u{600}'..='\u{7FF}' | '\u{860}'..='\u{DFF}' | '\u{F00}'..='\u{109F}'
        | '\u{1780}'..='\u{18AF}' | '\u{1A20}'..='\u{1CFF}' | '\u{A840}'..='\u{ABFF}'
        | '\u{FB50}'..='\u{FDFF}' | '\u{FE70}'..='\u{FEFC}' | '\u{10A00}'..='\u{11FFF}')
        && !is_invisible(character)
}

/// Checks whether a letter is of a script without spaces between words, in which a zero-width space allows a line
/// break.
fn is_unspaced(character: char) -> bool {
    matches!(character,
        '\u{E00}'..='\u{EFF}' | '\u{F00}'..='\u{FFF}' | '\u{1000}'..='\u{109F}'
        | '\u{1780}'..='\u{17FF}' | '\u{1950}'..='\u{19DF}' | '\u{1A20}'..='\u{1AAF}')
        && !is_invisible(character)
}

/// Checks whether one of the nearest letters of the line is written from right to left.
fn is_in_right_to_left(before: &str, after: &str) -> bool {
    let on_line = |character: &char| *character != '\n';
    let before = before.chars().rev().take_while(on_line).take(DIRECTION_CONTEXT_CHARS);
    let after = after.chars().take_while(on_line).take(DIRECTION_CONTEXT_CHARS);
    before.chain(after).any(is_right_to_left)
}

fn is_right_to_left(character: char) -> bool {
    matches!(character,
        '\u{590}'..='\u{8FF}' | '\u{FB1D}'..='\u{FDFF}' | '\u{FE70}'..='\u{FEFC}'
        | '\u{10800}'..='\u{10FFF}' | '\u{1E800}'..='\u{1EFFF}')
        && !is_invisible(character)
}

/// Checks whether a character is an emoji. In doubt, a symbol counts as one.
fn is_emoji(character: char) -> bool {
    matches!(character,
        '©' | '®' | '\u{203C}' | '\u{2049}' | '\u{2122}' | '\u{2139}' | '\u{2190}'..='\u{21FF}'
        | '\u{2300}'..='\u{23FF}' | '\u{24C2}' | '\u{25A0}'..='\u{27BF}' | '\u{2900}'..='\u{297F}'
        | '\u{2B00}'..='\u{2BFF}' | '\u{3030}' | '\u{303D}' | '\u{3297}' | '\u{3299}'
        | '\u{1F000}'..='\u{1FAFF}')
}

/// Checks whether a variation selector can select a form of this character.
fn has_variants(base: char, selector: char) -> bool {
    match selector {
        '\u{FE0E}' | '\u{FE0F}' => is_emoji(base) || matches!(base, '0'..='9' | '#' | '*'),
        // Of the East Asian scripts, mathematics and some historical ones.
        '\u{FE00}'..='\u{FE0D}' => {
            matches!(base, '\u{1000}'..='\u{109F}' | '\u{2200}'..='\u{2AFF}' | '\u{3000}'..='\u{30FF}'
                | '\u{3400}'..='\u{9FFF}' | '\u{A840}'..='\u{A87F}' | '\u{F900}'..='\u{FAFF}'
                | '\u{FF00}'..='\u{FFEF}' | '\u{10A00}'..='\u{10AFF}' | '\u{13000}'..='\u{1345F}')
        }
        _ => {
            matches!(base, '\u{3400}'..='\u{9FFF}' | '\u{F900}'..='\u{FAFF}' | '\u{20000}'..='\u{3FFFF}')
        }
    }
}

/// Returns the length in bytes of an emoji flag made of tags at the beginning of a text, or 0.
///
/// Such a flag is a black flag, the letters of a region as tags, and a cancel tag. Shorter or longer sequences, or
/// those without the cancel tag, could carry any text.
fn flag_bytes(text: &str) -> usize {
    let mut tags = 0;
    for (position, character) in text.char_indices().skip(1) {
        match character {
            '\u{E0030}'..='\u{E0039}' | '\u{E0061}'..='\u{E007A}' if tags < FLAG_TAGS_MAX => {
                tags += 1;
            }
            '\u{E007F}' if tags >= 3 => return position + character.len_utf8(),
            _ => return 0,
        }
    }
    0
}
