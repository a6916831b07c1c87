//! Makes paths that the grammar of memory paths allows out of any names.
//!
//! A name that is allowed stays as it is; others keep their letters and digits. Stricter than the
//! grammar where that is simpler, never looser.

use memory::limits::{PATH_BYTES_MAX, PATH_SEGMENTS_MAX};
use unicode_normalization::UnicodeNormalization;

/// How long a changed segment may be, in bytes: leaves room for a suffix and for its neighbors.
const SLUG_BYTES_MAX: usize = 60;

/// How long a whole path may be, in bytes: leaves room for `/memories/<scope>/` and a suffix.
const SLUG_PATH_BYTES_MAX: usize = PATH_BYTES_MAX - 64;

/// How many segments a path may have; the scope is one more, and a target folder may be another.
const SLUG_SEGMENTS_MAX: usize = PATH_SEGMENTS_MAX - 2;

/// The path in a form that can be addressed; the same text when it already is.
pub(super) fn path(path: &str) -> String {
    let named: Vec<String> =
        path.split('/').filter(|part| !matches!(*part, "" | ".")).map(segment).collect();
    let fits = named.len() <= SLUG_SEGMENTS_MAX
        && named.iter().map(|part| part.len() + 1).sum::<usize>() <= SLUG_PATH_BYTES_MAX;
    match named.split_last() {
        None => "unnamed".to_owned(),
        Some(_) if fits => named.join("/"),
        // Too deep or too long: the outer folders and the file say most.
        Some((file, folders)) => {
            let outer = folders.iter().take(SLUG_SEGMENTS_MAX - 1).chain([file]);
            outer.map(|part| segment(&shorten(part))).collect::<Vec<_>>().join("/")
        }
    }
}

/// A name for a file made of running text: letters, digits and dashes in lower case.
pub(super) fn word(text: &str) -> String {
    let is_kept = |c: char| c.is_alphanumeric() && is_allowed(c);
    let nfc: String = text.nfc().collect::<String>().to_lowercase();
    let words: Vec<&str> = nfc.split(|c| !is_kept(c)).filter(|word| !word.is_empty()).collect();
    // Lower case of an allowed letter may be a letter with a mark that is not in NFC.
    segment(&words.join("-"))
}

/// One segment in a form that can be addressed.
fn segment(name: &str) -> String {
    let nfc: String = name.nfc().collect();
    if is_addressable(&nfc) {
        return nfc;
    }
    let mut kept = String::with_capacity(nfc.len());
    for c in nfc.chars().map(|c| if is_allowed(c) { c } else { '-' }) {
        if !(matches!(c, '-' | '.' | ' ') && kept.ends_with(c)) {
            kept.push(c);
        }
    }
    let (stem, dot, extension) = match kept.trim_end_matches(['.', '-', ' ']).rsplit_once('.') {
        Some((stem, extension)) => (stem, ".", extension),
        None => (&*kept, "", ""),
    };
    let stem = match stem.trim_matches(['.', '-', ' ']) {
        "" => "unnamed",
        stem => stem,
    };
    let kept = shorten(&[stem, dot, extension].concat());
    if is_device(&kept) { format!("_{kept}") } else { kept }
}

/// Cuts a name that is too long in the middle of its stem, keeping a short extension.
fn shorten(name: &str) -> String {
    if name.len() <= SLUG_BYTES_MAX {
        return name.to_owned();
    }
    let (stem, extension) = match name.rsplit_once('.') {
        Some((stem, extension)) if extension.len() <= 10 => (stem, extension),
        _ => (name, ""),
    };
    let room = SLUG_BYTES_MAX - extension.len() - 1;
    let ends = stem.char_indices().map(|(at, c)| at + c.len_utf8());
    let end = ends.take_while(|&end| end <= room).last().unwrap_or_default();
    let stem = match memory::text::slice(stem, ..end).trim_end_matches(['.', ' ']) {
        "" => "unnamed",
        stem => stem,
    };
    if extension.is_empty() { stem.to_owned() } else { format!("{stem}.{extension}") }
}

fn is_addressable(name: &str) -> bool {
    !name.is_empty()
        && name.len() <= SLUG_BYTES_MAX * 3
        && !name.contains("..")
        && !name.starts_with('.')
        && !name.ends_with(['.', ' '])
        && name.chars().all(is_allowed)
        && !is_device(name)
}

/// Whether a character may stand in a name: no separator, wildcard, quote or escape of any system,
/// and nothing that does not show.
fn is_allowed(c: char) -> bool {
    if c.is_ascii() {
        return c == ' ' || (c.is_ascii_graphic() && !"/\\<>\":|*?~%".contains(c));
    }
    !c.is_whitespace()
        && !c.is_control()
        && !matches!(c,
            '\u{AD}' | '\u{34F}' | '\u{61C}' | '\u{115F}' | '\u{1160}' | '\u{17B4}' | '\u{17B5}'
            | '\u{180B}'..='\u{180F}' | '\u{2000}'..='\u{200F}' | '\u{2028}'..='\u{202F}'
            | '\u{205F}'..='\u{206F}' | '\u{3164}' | '\u{FE00}'..='\u{FE0F}' | '\u{FEFF}'
            | '\u{FFA0}' | '\u{FFF0}'..='\u{FFFF}' | '\u{1D173}'..='\u{1D17A}'
            | '\u{E0000}'..='\u{10FFFF}')
}

/// Whether Windows takes the name for a device, whatever its extension.
fn is_device(name: &str) -> bool {
    let stem = name.split('.').next().unwrap_or_default().trim_end().to_lowercase();
    let port = stem.strip_prefix("com").or_else(|| stem.strip_prefix("lpt"));
    let is_port = port.is_some_and(|n| n.chars().count() == 1 && n.chars().all(char::is_numeric));
    is_port || matches!(&*stem, "con" | "prn" | "aux" | "nul" | "conin$" | "conout$")
}
