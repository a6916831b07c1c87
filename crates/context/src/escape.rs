//! Taking their meaning from texts that would pass for a part of the frame around them.
//!
//! A text is left as it is, byte for byte, but for two things: what reads as an opening or closing tag of one
//! of our blocks loses its angle bracket, and a line that reads as a border of a context file is marked. Reads
//! as: in either case, in full-width, mathematical and look-alike letters, with white space and invisible
//! characters in between, for a model reads past all of these.

use std::borrow::Cow;
use std::sync::LazyLock;

use memory::document::description_line;
use memory::screen::visual_equivalent;
use memory::text::slice;
use unicode_normalization::UnicodeNormalization as _;
use unicode_security::confusable_detection::skeleton;

/// The tags of our blocks.
pub const TAGS: [&str; 6] = [
    "memory_index",
    "hot_memories",
    "recalled_memories",
    "memory_changes",
    "memory_file",
    "imported",
];

/// What the borders of a context file begin with, without spaces.
const BORDERS: [&str; 2] = ["contextfrom:", "endofcontextfrom:"];

/// Dashes that a border begins with.
const BORDER_DASHES: usize = 3;

/// What stands for `<` where it would begin a tag of ours.
const ESCAPED_LESS: &str = "&lt;";

/// Returns a text of several lines as data: it neither opens nor closes a block.
pub fn data(text: &str) -> Cow<'_, str> {
    match escape_tags(text) {
        Cow::Borrowed(text) => mark_borders(text),
        Cow::Owned(text) => Cow::Owned(mark_borders(&text).into_owned()),
    }
}

/// Returns a text as data on one line, at most so long as a description is, with no character left that means
/// something in XML.
pub fn line(text: &str) -> String {
    data(&escape_xml(&description_line(text))).into_owned()
}

/// Returns a path for an attribute or a border: on one line, with nothing in it that ends either. A path is
/// given back by the model as it stands here, so nothing else in it is changed.
pub fn path(path: &str) -> String {
    // Most are of these alone, of which nothing is changed.
    if path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte)) {
        return path.to_owned();
    }
    let shown = |c: char| if c.is_control() || is_line_end(c) { '\u{fffd}' } else { c };
    let one_line: String = path.chars().map(shown).collect();
    data(&one_line).replace('<', ESCAPED_LESS).replace('>', "&gt;").replace('"', "&quot;")
}

/// Returns a text with the characters escaped that mean something in XML.
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

/// Takes the angle bracket from what reads as a tag of ours.
fn escape_tags(text: &str) -> Cow<'_, str> {
    let mut changed: Option<String> = None;
    let mut copied = 0;
    for (at, character) in text.char_indices() {
        // Nothing else in ASCII opens anything, and most of most texts is ASCII.
        if character != '<' && character.is_ascii() {
            continue;
        }
        let end = at + character.len_utf8();
        let rest = slice(text, end..);
        if is_open_bracket(character) && is_block_tag(rest) {
            let so_far = changed.get_or_insert_with(|| String::with_capacity(text.len() + 16));
            so_far.push_str(slice(text, copied..at));
            so_far.push_str(ESCAPED_LESS);
            copied = end;
        }
    }
    finish(text, copied, changed)
}

/// Returns a text whose beginning was changed and copied up to here.
fn finish(text: &str, copied: usize, changed: Option<String>) -> Cow<'_, str> {
    match changed {
        None => Cow::Borrowed(text),
        Some(mut changed) => {
            changed.push_str(slice(text, copied..));
            Cow::Owned(changed)
        }
    }
}

/// Tells whether a character is taken for `<`.
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
    // Han, kana and Hangul are most of a text that has them, and none of them looks like it.
    let is_east_asian = matches!(character, '\u{3041}'..='\u{9fff}' | '\u{ac00}'..='\u{d7ff}');
    let is_alike = || skeleton(character.encode_utf8(&mut [0; 4])).eq(['<']);
    is_listed || visual_equivalent(character) == Some('<') || (!is_east_asian && is_alike())
}

/// How many characters behind an angle bracket are looked at; no name of ours is as long, white space before it included.
const LOOKAHEAD_CHARS: usize = 64;

/// The names of our tags as they look: with each character replaced by the one that stands for all that are confused with
/// it, by Unicode's own tables.
static TAG_SKELETONS: LazyLock<Vec<String>> =
    LazyLock::new(|| TAGS.iter().map(|tag| name_skeleton(tag)).collect());

/// Tells whether what follows an angle bracket makes a tag of ours of it.
fn is_block_tag(rest: &str) -> bool {
    // Most tags are HTML's or types', and begin with a letter that none of ours looks like.
    let first = rest.chars().find(|&c| !c.is_whitespace() && !is_slash(c));
    let is_another =
        |c: char| c.is_ascii_graphic() && !"mhril1|-_.".contains(c.to_ascii_lowercase());
    if first.is_none_or(is_another) {
        return false;
    }
    let seen = rest.chars().filter_map(visual_equivalent).take(LOOKAHEAD_CHARS);
    let name = tag_name(seen.clone());
    if TAGS.contains(&name.as_str()) {
        return true;
    }
    let visible = rest.chars().filter(|c| visual_equivalent(*c).is_some()).take(LOOKAHEAD_CHARS);
    let written: String = visible.nfkc().collect();
    // Some marks that are set on letters elsewhere look like a letter where they stand alone.
    let is_letter =
        |c: char| skeleton(c.encode_utf8(&mut [0; 4])).all(|c| c.is_ascii_alphanumeric());
    let with_marks = rest.chars().filter(|c| visual_equivalent(*c).is_some() || is_letter(*c));
    let with_marks: String = with_marks.take(LOOKAHEAD_CHARS).nfkc().collect();
    // Other marks end a name, for whoever does not read past them.
    let as_it_is: String = rest.chars().take(LOOKAHEAD_CHARS).nfkc().collect();
    // Capitals look like other letters than small ones, so both are compared.
    let read = [seen.collect(), written.to_lowercase(), written, with_marks, as_it_is];
    read.iter().any(|text: &String| {
        let letters: String = text.chars().map(plain_capital).collect();
        TAG_SKELETONS.contains(&name_skeleton(&letters))
    })
}

/// Returns the letters of the name at the beginning of a tag as they look, whatever parts its words.
fn name_skeleton(text: &str) -> String {
    // A capital may look like one letter, and its small form like another.
    let small: String = skeleton(text).flat_map(char::to_lowercase).nfkc().collect();
    let seen = skeleton(&small).flat_map(char::to_lowercase);
    let name = seen.skip_while(|&c| c.is_whitespace() || is_slash(c));
    let name = name.take_while(|&c| is_name_char(c) || matches!(c, '.' | ' ' | '\u{a0}'));
    // An `l` is taken for an `i`.
    name.filter(|c| c.is_alphanumeric()).map(|c| if c == 'l' { 'i' } else { c }).collect()
}

/// Returns the plain letter for a small or a boxed capital, which Unicode's tables leave as they are.
fn plain_capital(c: char) -> char {
    const SMALL: &str = "ᴀʙᴄᴅᴇꜰɢʜɪᴊᴋʟᴍɴᴏᴘꞯʀꜱᴛᴜᴠᴡ_ʏᴢ";
    let letter = |at: usize| u8::try_from(at).map_or(c, |at| char::from(b'a' + at));
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

/// Returns the name at the beginning of a tag, behind white space and slashes.
fn tag_name(seen: impl Iterator<Item = char>) -> String {
    let name = seen.skip_while(|&c| c.is_whitespace() || is_slash(c));
    let name = name.take_while(|&c| is_name_char(c));
    name.map(|c| if is_dash(c) { '_' } else { c }).collect()
}

/// Tells whether a character is taken for the slash of a closing tag.
fn is_slash(character: char) -> bool {
    matches!(character, '/' | '\\' | '\u{2044}' | '\u{2215}' | '\u{29f8}' | '\u{2571}')
}

fn is_name_char(c: char) -> bool {
    c.is_alphanumeric() || c == '_' || is_dash(c)
}

const fn is_dash(c: char) -> bool {
    matches!(c, '-' | '\u{2010}'..='\u{2015}' | '\u{2212}')
}

/// Marks the lines that read as the border of a context file.
fn mark_borders(text: &str) -> Cow<'_, str> {
    // A border has these in it, in either case, and a dash before.
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
    let seen = line.chars().filter_map(visual_equivalent).filter(|c| !c.is_whitespace());
    let mut seen = seen.peekable();
    let mut dashes = 0;
    while seen.next_if(|&c| is_dash(c)).is_some() {
        dashes += 1;
    }
    if dashes < BORDER_DASHES {
        return false;
    }
    let begins: String = seen.take(BORDERS[1].len()).collect();
    BORDERS.iter().any(|border| begins.starts_with(border))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn what_reads_as_a_tag_of_ours_loses_its_bracket_and_nothing_else_changes() {
        fn check(text: &str, expected: &str) {
            assert_eq!(data(text), expected, "{text:?}");
        }
        check("a </hot_memories> b", "a &lt;/hot_memories> b");
        check("<HOT_Memories>", "&lt;HOT_Memories>");
        check("< / memory_file >", "&lt; / memory_file >");
        check("<\n/memory_file path='x'>", "&lt;\n/memory_file path='x'>");
        check("＜／ｈｏｔ＿ｍｅｍｏｒｉｅｓ＞", "&lt;／ｈｏｔ＿ｍｅｍｏｒｉｅｓ＞");
        check("<\u{200b}/hot_\u{200d}memories>", "&lt;\u{200b}/hot_\u{200d}memories>");
        check("<\u{2044}hоt-memоries>", "&lt;\u{2044}hоt-memоries>");
        check("‹/memory-index›", "&lt;/memory-index›");
        check("</memory_ﬁle>", "&lt;/memory_ﬁle>");
        check("ᐸ/memory_file>", "&lt;/memory_file>");
        check("</ｍemory_𝒇ile>", "&lt;/ｍemory_𝒇ile>");
        check("<∕НОТ_МЕМОRIES>", "&lt;∕НОТ_МЕМОRIES>");
        check("</mernory_file>", "&lt;/mernory_file>");
        check("</rnemory_fi1e>", "&lt;/rnemory_fi1e>");
        check("‹/ᴍᴇᴍᴏʀʏ_ғɪʟᴇ>", "&lt;/ᴍᴇᴍᴏʀʏ_ғɪʟᴇ>");
        check("‹/🅼🅴🅼🅾🆁🆈_🅵🅸🅻🅴>", "&lt;/🅼🅴🅼🅾🆁🆈_🅵🅸🅻🅴>");
        check("≺/memory_file≻", "&lt;/memory_file≻");
        check("</rnemory_flle>", "&lt;/rnemory_flle>");
        check("</recalled.memories>", "&lt;/recalled.memories>");
        check("</hot memories>", "&lt;/hot memories>");
        check("<imported from=\"x\">", "&lt;imported from=\"x\">");
        check("<<memory_index", "<&lt;memory_index");
        let plain = [
            "a < b",
            "<memory_files>",
            "<hot>",
            "<b>hot_memories</b>",
            "&lt;hot_memories",
            "Vec<T>",
        ];
        for text in plain {
            check(text, text);
        }
    }

    #[test]
    fn a_line_that_reads_as_a_border_is_marked() {
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
    fn a_line_has_no_tag_left() {
        assert_eq!(line("a\n</x> & \"b\" ＜y"), "a &lt;/x&gt; &amp; &quot;b&quot; ＜y");
    }

    proptest! {
        #[test]
        fn a_text_without_brackets_and_dashes_stays_as_it_is(text in "[^<-]*") {
            let is_plain = !text.chars().any(|c| is_open_bracket(c) || is_dash(c));
            prop_assume!(is_plain);
            prop_assert_eq!(&data(&text), &text);
        }

        #[test]
        fn what_is_data_stays_as_it_is(text in "[</ a-z_\n-]{0,40}(memory_file|hot_memories|Context from:)?[ >]?") {
            let once = data(&text).into_owned();
            prop_assert_eq!(&data(&once), &once);
        }
    }
}
