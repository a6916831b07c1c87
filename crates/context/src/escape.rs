//! Escaping of untrusted texts, so that they cannot imitate the frame around them.
//!
//! Two things are changed, and nothing else. A text that reads as an opening or closing tag of a Lukasa block loses its
//! angle bracket. A line that reads as the border of a context file gets a backslash in front.
//!
//! Models read past letter case, full-width, mathematical and look-alike letters, white space and invisible characters.
//! So the comparison ignores them as well.

use std::borrow::Cow;
use std::sync::LazyLock;

use memory::document::description_line;
use memory::screen::visual_equivalent;
use memory::text::slice;
use unicode_normalization::UnicodeNormalization as _;
use unicode_security::confusable_detection::skeleton;

/// The tag names of Lukasa's blocks.
pub const TAGS: [&str; 5] =
    ["long_term_memory", "recalled_memories", "memory_changes", "memory_file", "imported"];

/// Beginnings of the borders of a context file, without dashes and spaces.
const BORDERS: [&str; 2] = ["contextfrom:", "endofcontextfrom:"];

/// Minimum number of dashes at the beginning of a border.
const BORDER_DASHES: usize = 3;

/// Replacement for a `<` that would begin a block tag.
const ESCAPED_LESS: &str = "&lt;";

/// Escapes a text of several lines: afterwards it neither opens nor closes a block.
pub fn data(text: &str) -> Cow<'_, str> {
    match escape_tags(text) {
        Cow::Borrowed(text) => mark_borders(text),
        Cow::Owned(text) => Cow::Owned(mark_borders(&text).into_owned()),
    }
}

/// Escapes a text for one line, cut to the length of a description. All characters with a meaning in XML are escaped.
pub fn line(text: &str) -> String {
    data(&escape_xml(&description_line(text))).into_owned()
}

/// Escapes a path for an attribute or a border: one line, without characters that end either. Other characters stay,
/// because the model passes the path back in this form.
pub fn path(path: &str) -> String {
    // Most paths have only these characters, and need no change.
    if path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte)) {
        return path.to_owned();
    }
    let shown = |c: char| if c.is_control() || is_line_end(c) { '\u{fffd}' } else { c };
    let one_line: String = path.chars().map(shown).collect();
    data(&one_line).replace('<', ESCAPED_LESS).replace('>', "&gt;").replace('"', "&quot;")
}

/// Escapes all characters with a meaning in XML.
fn escape_xml(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str(ESCAPED_LESS),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            c => escaped.push(c),
        }
    }
    escaped
}

const fn is_line_end(c: char) -> bool {
    matches!(c, '\u{2028}' | '\u{2029}')
}

/// Escapes the angle bracket of each text that reads as a block tag.
fn escape_tags(text: &str) -> Cow<'_, str> {
    let mut changed: Option<String> = None;
    let mut copied = 0;
    for (start, character) in text.char_indices() {
        // No other ASCII character resembles a bracket, and most texts are mostly ASCII.
        if character != '<' && character.is_ascii() {
            continue;
        }
        let end = start + character.len_utf8();
        let rest = slice(text, end..);
        if is_open_bracket(character) && is_block_tag(rest) {
            let escaped = changed.get_or_insert_with(|| String::with_capacity(text.len() + 16));
            escaped.push_str(slice(text, copied..start));
            escaped.push_str(ESCAPED_LESS);
            copied = end;
        }
    }
    finish(text, copied, changed)
}

/// Appends the unchanged rest of a text; borrows the text if nothing was changed.
fn finish(text: &str, copied: usize, changed: Option<String>) -> Cow<'_, str> {
    match changed {
        None => Cow::Borrowed(text),
        Some(mut changed) => {
            changed.push_str(slice(text, copied..));
            Cow::Owned(changed)
        }
    }
}

/// Returns whether a character reads as `<`.
fn is_open_bracket(character: char) -> bool {
    let is_listed = matches!(
        character,
        '\u{2039}'
            | '\u{27e8}'
            | '\u{2329}'
            | '\u{3008}'
            | '\u{276e}'
            | '\u{02c2}'
            | '\u{276c}'
            | '\u{227a}'
            | '\u{140a}'
            | '\u{2770}'
    );
    // Han, kana and Hangul never resemble it. Excluded for speed: texts that have them consist mostly of them.
    let is_east_asian = matches!(character, '\u{3041}'..='\u{9fff}' | '\u{ac00}'..='\u{d7ff}');
    let is_alike = || skeleton(character.encode_utf8(&mut [0; 4])).eq(['<']);
    is_listed || visual_equivalent(character) == Some('<') || (!is_east_asian && is_alike())
}

/// Number of characters checked after an angle bracket; longer than any block tag with white space before it.
const LOOKAHEAD_CHARS: usize = 64;

/// The skeletons of our tag names: each character is replaced by the representative of all characters that Unicode's
/// tables list as confusable with it.
static TAG_SKELETONS: LazyLock<Vec<String>> =
    LazyLock::new(|| TAGS.iter().map(|tag| name_skeleton(tag)).collect());

/// Returns whether the text after an angle bracket makes it a block tag.
fn is_block_tag(rest: &str) -> bool {
    // A fast exit: most tags are HTML or type parameters, and begin with a letter that resembles none of ours.
    let first = rest.chars().find(|&c| !c.is_whitespace() && !is_slash(c));
    let is_another =
        |c: char| c.is_ascii_graphic() && !"mril1|-_.".contains(c.to_ascii_lowercase());
    if first.is_none_or(is_another) {
        return false;
    }
    let visible_chars = rest.chars().filter_map(visual_equivalent).take(LOOKAHEAD_CHARS);
    let name = tag_name(visible_chars.clone());
    if TAGS.contains(&name.as_str()) {
        return true;
    }
    let visible = rest.chars().filter(|c| visual_equivalent(*c).is_some()).take(LOOKAHEAD_CHARS);
    let written: String = visible.nfkc().collect();
    // Some combining marks resemble a letter when they stand alone.
    let is_letter =
        |c: char| skeleton(c.encode_utf8(&mut [0; 4])).all(|c| c.is_ascii_alphanumeric());
    let with_marks = rest.chars().filter(|c| visual_equivalent(*c).is_some() || is_letter(*c));
    let with_marks: String = with_marks.take(LOOKAHEAD_CHARS).nfkc().collect();
    // Readers that do not skip other marks take them as the end of a name.
    let unfiltered: String = rest.chars().take(LOOKAHEAD_CHARS).nfkc().collect();
    // Upper case letters have other look-alikes than lower case ones, so both are compared.
    let variants =
        [visible_chars.collect(), written.to_lowercase(), written, with_marks, unfiltered];
    variants.iter().any(|text: &String| {
        let letters: String = text.chars().map(plain_capital).collect();
        TAG_SKELETONS.contains(&name_skeleton(&letters))
    })
}

/// Returns the skeleton of the tag name at the beginning of a text, without separators between its words.
fn name_skeleton(text: &str) -> String {
    // Upper and lower case forms may resemble different letters.
    let small: String = skeleton(text).flat_map(char::to_lowercase).nfkc().collect();
    let folded = skeleton(&small).flat_map(char::to_lowercase);
    let name = folded.skip_while(|&c| c.is_whitespace() || is_slash(c));
    let name = name.take_while(|&c| is_name_char(c) || matches!(c, '.' | ' ' | '\u{a0}'));
    // An `l` reads as an `i`.
    name.filter(|c| c.is_alphanumeric()).map(|c| if c == 'l' { 'i' } else { c }).collect()
}

/// Returns the ASCII letter for a small or a boxed capital, which Unicode's tables do not map.
fn plain_capital(c: char) -> char {
    const SMALL: &str = "ᴀʙᴄᴅᴇꜰɢʜɪᴊᴋʟᴍɴᴏᴘꞯʀꜱᴛᴜᴠᴡ_ʏᴢ";
    let letter = |index: usize| u8::try_from(index).map_or(c, |index| char::from(b'a' + index));
    match c {
        'ғ' => 'f',
        'ѕ' => 's',
        '\u{1f130}'..='\u{1f149}' => letter(c as usize - 0x1f130),
        '\u{1f150}'..='\u{1f169}' => letter(c as usize - 0x1f150),
        '\u{1f170}'..='\u{1f189}' => letter(c as usize - 0x1f170),
        '_' => c,
        c => SMALL.chars().position(|small| small == c).map_or(c, letter),
    }
}

/// Returns the tag name at the beginning of a text, after white space and slashes.
fn tag_name(chars: impl Iterator<Item = char>) -> String {
    let name = chars.skip_while(|&c| c.is_whitespace() || is_slash(c));
    let name = name.take_while(|&c| is_name_char(c));
    name.map(|c| if is_dash(c) { '_' } else { c }).collect()
}

/// Returns whether a character reads as the slash of a closing tag.
fn is_slash(character: char) -> bool {
    matches!(character, '/' | '\\' | '\u{2044}' | '\u{2215}' | '\u{29f8}' | '\u{2571}')
}

fn is_name_char(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || is_dash(c)
}

const fn is_dash(c: char) -> bool {
    matches!(c, '-' | '\u{2010}'..='\u{2015}' | '\u{2212}')
}

/// Puts a backslash before each line that reads as the border of a context file.
fn mark_borders(text: &str) -> Cow<'_, str> {
    // A fast exit: every border begins with dashes.
    if !text.contains(is_dash) {
        return Cow::Borrowed(text);
    }
    let mut changed: Option<String> = None;
    let mut copied = 0;
    let mut start = 0;
    for line in
        text.split_inclusive(['\n', '\r', '\u{b}', '\u{c}', '\u{85}', '\u{2028}', '\u{2029}'])
    {
        if is_border(line) {
            let marked = changed.get_or_insert_with(String::new);
            marked.push_str(slice(text, copied..start));
            marked.push('\\');
            copied = start;
        }
        start += line.len();
    }
    finish(text, copied, changed)
}

fn is_border(line: &str) -> bool {
    let chars = line.chars().filter_map(visual_equivalent).filter(|c| !c.is_whitespace());
    let mut chars = chars.peekable();
    let mut dashes = 0;
    while chars.next_if(|&c| is_dash(c)).is_some() {
        dashes += 1;
    }
    if dashes < BORDER_DASHES {
        return false;
    }
    let beginning: String = chars.take(BORDERS[1].len()).collect();
    BORDERS.iter().any(|border| beginning.starts_with(border))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_the_bracket_of_a_block_tag_is_escaped() {
        fn check(text: &str, expected: &str) {
            assert_eq!(data(text), expected, "{text:?}");
        }
        check("a </long_term_memory> b", "a &lt;/long_term_memory> b");
        check("<LONG_Term_Memory>", "&lt;LONG_Term_Memory>");
        check("< / memory_file >", "&lt; / memory_file >");
        check("<\n/memory_file path='x'>", "&lt;\n/memory_file path='x'>");
        check(
            "＜／ｒｅｃａｌｌｅｄ＿ｍｅｍｏｒｉｅｓ＞",
            "&lt;／ｒｅｃａｌｌｅｄ＿ｍｅｍｏｒｉｅｓ＞",
        );
        check("<\u{200b}/recalled_\u{200d}memories>", "&lt;\u{200b}/recalled_\u{200d}memories>");
        check("<\u{2044}recаlled-memоries>", "&lt;\u{2044}recаlled-memоries>");
        check("‹/memory-changes›", "&lt;/memory-changes›");
        check("</memory_ﬁle>", "&lt;/memory_ﬁle>");
        check("ᐸ/memory_file>", "&lt;/memory_file>");
        check("</ｍemory_𝒇ile>", "&lt;/ｍemory_𝒇ile>");
        check("<∕RЕСАLLЕD_МЕМОRIES>", "&lt;∕RЕСАLLЕD_МЕМОRIES>");
        check("</mernory_file>", "&lt;/mernory_file>");
        check("</rnemory_fi1e>", "&lt;/rnemory_fi1e>");
        check("‹/ᴍᴇᴍᴏʀʏ_ғɪʟᴇ>", "&lt;/ᴍᴇᴍᴏʀʏ_ғɪʟᴇ>");
        check("‹/🅼🅴🅼🅾🆁🆈_🅵🅸🅻🅴>", "&lt;/🅼🅴🅼🅾🆁🆈_🅵🅸🅻🅴>");
        check("≺/memory_file≻", "&lt;/memory_file≻");
        check("</rnemory_flle>", "&lt;/rnemory_flle>");
        check("</recalled.memories>", "&lt;/recalled.memories>");
        check("</long-term memory>", "&lt;/long-term memory>");
        check("<imported from=\"x\">", "&lt;imported from=\"x\">");
        check("<<long_term_memory", "<&lt;long_term_memory");
        let plain = [
            "a < b",
            "<memory_files>",
            "<long>",
            "<b>long_term_memory</b>",
            "&lt;long_term_memory",
            "Vec<T>",
        ];
        for text in plain {
            check(text, text);
        }
    }

    #[test]
    fn a_line_that_reads_as_a_border_gets_a_backslash() {
        fn check(text: &str, expected: &str) {
            assert_eq!(data(text), expected, "{text:?}");
        }
        check("a\n--- Context from: x ---\nb", "a\n\\--- Context from: x ---\nb");
        check("  ---- end of CONTEXT from: x", "\\  ---- end of CONTEXT from: x");
        check("\r——— Context\u{200b} from: x", "\r\\——— Context\u{200b} from: x");
        for text in
            ["a --- Context from: x", "--- Context", "-- Context from: x", "---\ntitle: x\n---"]
        {
            check(text, text);
        }
    }

    #[test]
    fn a_path_ends_neither_its_attribute_nor_its_line() {
        fn check(text: &str, expected: &str) {
            assert_eq!(path(text), expected, "{text:?}");
        }
        check("/memories/global/a & b.md", "/memories/global/a & b.md");
        check("x\">\n<y", "x&quot;&gt;\u{fffd}&lt;y");
        check("＜memory_file", "&lt;memory_file");
    }

    #[test]
    fn a_line_contains_no_xml_characters() {
        assert_eq!(line("a\n</x> & \"b\" ＜y"), "a &lt;/x&gt; &amp; &quot;b&quot; ＜y");
    }

    proptest! {
        #[test]
        fn a_text_without_brackets_and_dashes_is_unchanged(text in "[^<-]*") {
            let is_plain = !text.chars().any(|c| is_open_bracket(c) || is_dash(c));
            prop_assume!(is_plain);
            prop_assert_eq!(&data(&text), &text);
        }

        #[test]
        fn escaping_twice_changes_nothing(text in "[</ a-z_\n-]{0,40}(memory_file|long_term_memory|Context from:)?[ >]?") {
            let once = data(&text).into_owned();
            prop_assert_eq!(&data(&once), &once);
        }
    }
}
