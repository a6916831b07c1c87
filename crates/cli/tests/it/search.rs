//! Tests of `lukasa grep`.

use crate::sandbox::Sandbox;

fn with_memories() -> Sandbox {
    let place = Sandbox::new();
    place.create("global/a.md", "uses pnpm\nnever npm (yet)\n");
    place.create("project/b.md", "node 20\nPNPM\n");
    place
}

#[test]
fn matches_are_lines_with_their_memory() {
    let place = with_memories();
    let check = |args: &[&str], status: i32, expected: &str| {
        let ended = place.run(&[&["grep"], args].concat());
        assert_eq!((ended.status, ended.stdout.as_str()), (status, expected), "{args:?}");
    };
    check(&["pnpm"], 0, "global/a.md:uses pnpm\n");
    check(&["pnpm", "-i", "-n"], 0, "global/a.md:1:uses pnpm\nproject/b.md:2:PNPM\n");
    check(&["npm", "-l"], 0, "global/a.md\n");
    check(&["npm (yet)"], 0, "global/a.md:never npm (yet)\n");
    check(&["npm (yet)", "-E"], 1, "");
    check(&["-E", "node (18|20)"], 0, "project/b.md:node 20\n");
    check(&["p", "project/b.md"], 1, "");
    check(&["P", "project"], 0, "project/b.md:PNPM\n");
    check(&["nothing like it"], 1, "");
    check(&["-E", "("], 2, "");
}

#[test]
fn json_has_one_match_per_line() {
    insta::assert_snapshot!(with_memories().run_ok(&["grep", "npm", "--json"]), @r#"
    {"path":"/memories/global/a.md","line":1,"text":"uses pnpm","ranges":[[6,9]]}
    {"path":"/memories/global/a.md","line":2,"text":"never npm (yet)","ranges":[[6,9]]}
    "#);
}

#[test]
fn a_match_is_escaped_for_a_terminal() {
    let place = Sandbox::with(&[("global/a.md", "clear \u{1b}[2J\n")]);
    assert_eq!(place.run_ok(&["grep", "clear"]), "global/a.md:clear ^[[2J\n");
}

#[test]
fn color_is_printed_on_request() {
    let place = with_memories();
    let colored = place.run_ok(&["grep", "pnpm", "--color", "always"]);
    assert_eq!(colored.replace('\u{1b}', "^"), "^[36mglobal/a.md^[0m:uses ^[1m^[31mpnpm^[0m\n");
    let forced = place.run_command(place.lukasa(&["grep", "pnpm"]).env("CLICOLOR_FORCE", "1"));
    assert_eq!(forced.stdout, colored);
    let plain = place.run_command(place.lukasa(&["grep", "pnpm"]).env("NO_COLOR", "1"));
    assert_eq!(plain.stdout, "global/a.md:uses pnpm\n");
}
