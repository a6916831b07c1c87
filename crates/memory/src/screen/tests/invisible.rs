//! Invisible characters, and their legitimate uses.

use super::*;

#[test]
fn hidden_characters_are_refused() {
    all_break(
        "injection.bidi-control",
        &[
            "a\u{202E}txt.exe",
            "\u{2066}a\u{2069}",
            "plain \u{200F}text",
            "a\u{61C}b",
            "שלום \u{202E}x",
        ],
    );
    all_break(
        "injection.zero-width",
        &[
            "pass\u{200B}word",
            "a\u{200D}b",
            "a\u{200C}b",
            "a\u{2060}b",
            "\u{200B}",
            "x\u{2063}y",
            "a\u{34F}b",
            "ni\u{AD}\u{AD}ce",
            "می\u{200C}\u{200C}خواهم",
            "👩\u{200D}x",
        ],
    );
    all_break(
        "injection.tag-characters",
        &[
            "green.\u{E0068}\u{E0069}",
            "\u{E0001}",
            "🏴\u{E0067}\u{E0062}",
            "🏴\u{E0067}\u{E0062}\u{E0065}\u{E006E}\u{E0067}",
            "🏴\u{E0068}\u{E0065}\u{E006C}\u{E006C}\u{E006F}\u{E0077}\u{E006F}\u{E007F}",
        ],
    );
    all_break("injection.byte-order-mark", &["a\u{FEFF}", "a\n\u{FEFF}b"]);
    all_break(
        "injection.control-character",
        &["a\0b", "\u{1B}[31mred", "bell\u{7}", "a\u{7F}", "a\u{85}b", "a\u{9B}b", "\u{8}"],
    );
    all_break(
        "injection.variation-selectors",
        &[
            "a\u{FE0F}",
            "👍\u{FE0F}\u{FE01}\u{FE02}",
            "a\u{E0100}",
            "漢\u{E0100}\u{E0101}",
            "\u{FE0F}",
        ],
    );
    all_break("injection.blank-letter", &["a\u{3164}b", "\u{115F}", "\u{FFA0}", "\u{17B4}"]);
    all_break(
        "injection.deprecated-format",
        &["a\u{206A}b", "\u{FFF9}a\u{FFFA}b\u{FFFB}", "\u{1D173}"],
    );
}

#[test]
fn legitimate_uses_pass() {
    all_pass(&[
        "",
        "tab\tand\r\nlines\n",
        "\u{FEFF}a byte order mark at the beginning",
        "👨\u{200D}👩\u{200D}👧\u{200D}👦 and 🏳\u{FE0F}\u{200D}🌈 and ❤\u{FE0F}\u{200D}🔥",
        "👩🏽\u{200D}💻 👍🏽 ☎\u{FE0E} ❤\u{FE0F} 1\u{FE0F}\u{20E3} #\u{FE0F}\u{20E3} ©\u{FE0F}",
        "🏴\u{E0067}\u{E0062}\u{E0073}\u{E0063}\u{E0074}\u{E007F} Scotland",
        "می\u{200C}خواهم",
        "क्\u{200D}ष and ශ්\u{200D}රී",
        "ภาษา\u{200B}ไทย",
        "ភាសា\u{200B}ខ្មែរ",
        "שלום (abc)\u{200F}!",
        "السلام\u{200E} abc",
        "Donau\u{AD}dampf\u{AD}schiff",
        "葛\u{E0100}城市",
        "ᠮᠣᠩᠭᠣᠯ\u{180E}ᠠ",
        "한국어 日本語 中文 Русский ไทย العربية",
        "naïve café, “quotes” – dashes … and\u{A0}spaces",
        "⟦math⟧ ∑ ∫ ≠ → ✓",
    ]);
}

#[test]
fn a_run_is_one_finding() {
    let text = "ok\u{E0068}\u{E0069}\u{200B}\u{200B}end";
    let found: Vec<_> = Screen::default()
        .check(text, TextAuthor::Agent)
        .into_iter()
        .map(|finding| (finding.rule, finding.range))
        .collect();
    assert_eq!(found, [("injection.tag-characters", 2..10), ("injection.zero-width", 10..16)]);
}
