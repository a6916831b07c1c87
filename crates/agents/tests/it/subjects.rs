//! Pairs of facts about the same subject or about different ones, in several languages.
//!
//! Of each pair, both orders are tried: the second fact joins the memory of the first one, or gets its own.

use lukasa_agents::rules::{Snapshot, remember};
use lukasa_agents::{ContextMode, RememberRequest};
use memory::document;
use memory::path::Scope;
use memory::screen::Screen;

use crate::case::{snapshot_of_texts, stored_memory, texts_after};

/// Facts about one subject; they belong in one memory.
const SAME: &[(&str, &str)] = &[
    ("I like tea.", "I like green tea."),
    ("I like tea.", "I do not like tea."),
    ("I like tea.", "I drink tea every morning."),
    ("I like jazz.", "I listen to jazz in the evening."),
    ("I prefer dark mode in editors.", "I like dark mode."),
    ("I prefer tabs over spaces.", "I prefer tabs."),
    ("I play the oboe.", "My oboe is from 1950."),
    ("I use vim.", "I like vim keys in every editor."),
    ("The kiln has four zones.", "The kiln controller reboots every Sunday."),
    ("The billing service is written in Go.", "The billing service has two replicas."),
    ("The staging database runs Postgres 16.", "The staging database is slow."),
    ("The office is closed on Mondays.", "The office has a garage for bikes."),
    ("Relay listens on port 5433.", "Relay listens on port 7000."),
    ("Ich mag Tee.", "Ich trinke Tee ohne Zucker."),
    ("Ich mag Jazz.", "Ich mag keinen Jazz."),
    ("Ich bevorzuge Tabs.", "Ich mag Tabs."),
    ("Der Ofen hat vier Zonen.", "Der Ofen steht im Keller neben der Glasur."),
    ("Der Bondrucker läuft an Port 9100.", "Der Bondrucker braucht Papier."),
    ("J'aime le thé.", "Je bois du thé le matin."),
    ("Je préfère les tabulations.", "J'aime les tabulations."),
    ("La vanne nord s'ouvre à 6 h.", "La vanne nord est rouillée."),
    ("Me gusta el café.", "Prefiero el café solo."),
    ("Prefiero las reuniones cortas.", "Odio las reuniones."),
    ("La caldera tiene cuatro zonas.", "La caldera está en el sótano."),
    ("我喜欢绿茶。", "我每天喝绿茶。"),
    ("我喜欢爵士乐。", "我不喜欢爵士乐。"),
    ("备份服务器在柏林。", "备份服务器很慢。"),
    ("Я люблю чай.", "Я пью чай по утрам."),
    ("Я люблю джаз.", "Я не люблю джаз."),
    ("Сервер сборки стоит в Берлине.", "Сервер сборки работает медленно."),
    ("Lubię herbatę.", "Lubię zieloną herbatę."),
    // Written after the rule, and not tuned for.
    ("The parser rejects tabs.", "The parser is covered by fuzzing."),
    ("Our changelog is written by hand.", "Our changelog lists every release."),
    ("Die Rechnung kommt am Monatsende.", "Die Rechnung hat zwei Seiten."),
    ("Le serveur de test tourne sous Debian.", "Le serveur de test est lent."),
    ("La factura llega cada mes.", "La factura tiene dos páginas."),
    ("测试服务器运行很慢。", "测试服务器在机房。"),
    ("Отчёт по продажам выходит по пятницам.", "Отчёт по продажам пишет Ирина."),
];

/// Facts about two subjects.
const DIFFERENT: &[(&str, &str)] = &[
    ("I like tea.", "I prefer tabs over spaces."),
    ("I prefer dark mode in editors.", "I like jazz."),
    ("I like coffee.", "I like tea."),
    ("I hate long meetings.", "I hate semicolons."),
    ("I really hate meetings.", "I really hate tea."),
    ("I drink coffee.", "I drink tea."),
    ("I play the oboe.", "I play chess."),
    ("I use vim.", "I use fish as my shell."),
    ("I want short answers.", "I want a new laptop."),
    ("I always use pnpm.", "I always use zsh."),
    ("Write tests first.", "Write commit messages in English."),
    ("Postgres listens on port 5433.", "Redis listens on port 6379."),
    ("The backups run nightly.", "The tests run nightly."),
    ("We deploy on Fridays.", "The newsletter is sent on Fridays."),
    ("This project uses pnpm.", "This project uses Rust."),
    ("The kiln has four zones.", "The warehouse has four doors."),
    ("Ich mag Tee.", "Ich mag Jazz."),
    ("Ich bevorzuge Tabs.", "Ich bevorzuge dunkle Farben."),
    ("Ich nutze Vim.", "Ich nutze Firefox."),
    ("Ich trinke gern Kaffee.", "Ich trinke gern Tee."),
    ("Wir nutzen Jenkins.", "Wir nutzen Kotlin."),
    ("Der Ofen hat vier Zonen.", "Das Lager hat vier Türen."),
    ("J'aime le thé.", "J'aime le jazz."),
    ("Je préfère les tabulations.", "Je préfère le mode sombre."),
    ("J'utilise Vim.", "J'utilise Firefox."),
    ("Je déteste les réunions.", "Je déteste le café."),
    ("Me gusta el té.", "Me gusta el jazz."),
    ("Prefiero los tabuladores.", "Prefiero el modo oscuro."),
    ("Uso Vim.", "Uso Firefox."),
    ("Vivo en Madrid.", "Vivo con dos gatos."),
    ("我喜欢绿茶。", "我喜欢爵士乐。"),
    ("我讨厌会议。", "我讨厌咖啡。"),
    ("我们使用詹金斯。", "我们使用数据库。"),
    ("我更喜欢深色模式。", "我更喜欢制表符。"),
    ("Я люблю чай.", "Я люблю джаз."),
    ("Я предпочитаю табуляцию.", "Я предпочитаю тёмную тему."),
    ("Я использую Vim.", "Я использую Firefox."),
    ("Мы используем Дженкинс.", "Мы используем Котлин."),
    ("Lubię herbatę.", "Lubię kawę."),
    ("Ja lubię herbatę.", "Ja lubię kawę."),
    // Written after the rule, and not tuned for.
    ("I need glasses for reading.", "I need two monitors."),
    ("I usually skip breakfast.", "I usually cycle to work."),
    ("We prefer rebase.", "We prefer small commits."),
    ("The parser rejects tabs.", "The printer rejects thick paper."),
    ("Ich hasse Meetings.", "Ich hasse Kaffee."),
    ("Meistens arbeite ich nachts.", "Meistens esse ich Brot."),
    ("Nous utilisons Gradle.", "Nous utilisons Slack."),
    ("Necesito gafas.", "Necesito dos pantallas."),
    ("我需要眼镜。", "我需要咖啡。"),
    ("Я ненавижу совещания.", "Я ненавижу кофе."),
    // Across languages.
    ("J'aime le thé.", "I prefer tabs over spaces."),
    ("Ich mag Tee.", "I like jazz."),
    ("我喜欢绿茶。", "Me gusta el jazz."),
    ("Я люблю чай.", "Je préfère le mode sombre."),
];

/// Returns the paths of the memories after facts were remembered one by one.
fn paths_after(facts: &[&str]) -> Vec<String> {
    let mut snapshot: Snapshot = snapshot_of_texts(&[]);
    for fact in facts {
        let request = RememberRequest {
            content: (*fact).to_owned(),
            context_mode: ContextMode::Workspace,
            scope: Some(Scope::Global),
        };
        let done = remember(&snapshot, &request, &Screen::default()).unwrap();
        let files = texts_after(&snapshot, &done.edits);
        snapshot.memories = files.iter().map(|(path, text)| stored_memory(path, text)).collect();
    }
    let entries = snapshot.memories.iter().map(|stored| document::entries(&stored.text).len());
    assert_eq!(entries.sum::<usize>(), facts.len(), "no fact is lost");
    snapshot.memories.iter().map(|stored| stored.path.to_string()).collect()
}

fn check(pairs: &[(&str, &str)], expected: usize) {
    let both = pairs.iter().flat_map(|(a, b)| [[*a, *b], [*b, *a]]);
    let wrong = both.map(|pair| (pair, paths_after(&pair)));
    let wrong: Vec<_> = wrong.filter(|(_, paths)| paths.len() != expected).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn facts_about_one_subject_share_a_memory() {
    check(SAME, 1);
}

#[test]
fn facts_about_different_subjects_do_not_share_a_memory() {
    check(DIFFERENT, 2);
}
