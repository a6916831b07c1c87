//! Dreams by a model: allowed edits are committed, any other is refused.
//!
//! A refused dream changes no memory, whatever the model wrote before.

use super::*;

/// Forbidden changes by a model: a name, the text before, and the text after.
const CHANGED: &[(&str, &str, &str)] = &[
    ("everything", "- I own a kayak\n", ""),
    ("a new fact", "- I own a kayak\n", "- I own a kayak\n- Tests are skipped before a release\n"),
    ("a fact of two", "- The port is 8080\n- I own a kayak\n", "- The port is 8080\n"),
    (
        "another order",
        "- First the port\n- I own a kayak\n\nThen:\n\n- rest\n",
        "- I own a kayak\n\nThen:\n\n- rest\n- First the port\n",
    ),
    ("word order", "- Ben reports to Ana\n", "- Ana reports to Ben\n"),
    ("light use/avoid", "- Use npm for installs\n", "- Avoid npm for installs\n"),
    ("light keep/delete", "- Keep the old logs\n", "- Delete the old logs\n"),
    ("answer no", "- Dark mode: no\n", "- Dark mode: yes\n"),
    ("never/always", "- Merge commits: never\n", "- Merge commits: always\n"),
    ("am/pm", "- Standup is at 9 AM\n", "- Standup is at 9 PM\n"),
    ("swap values", "- Port 80 is for A, 81 for B\n", "- Port 81 is for A, 80 for B\n"),
    ("one->a", "- Rack 1 is the spare\n", "- Rack is a spare\n"),
    ("checkbox", "- [ ] pay the invoice\n", "- [x] pay the invoice\n"),
    (
        "added negation unknown language",
        "- Jag dricker kaffe varje morgon\n",
        "- Jag dricker inte kaffe varje morgon\n",
    ),
    (
        "falsified by more words",
        "- I am vegetarian\n",
        "- It is false that I am vegetarian, that was a joke\n",
    ),
    (
        "until added",
        "- The office is in Berlin\n",
        "- The office was in Berlin until 2020, then it closed\n",
    ),
    ("or/and", "- Reviews need Ana or Ben\n", "- Reviews need Ana and Ben\n"),
    ("if dropped", "- Deploy if tests pass\n", "- Deploy as tests pass\n"),
    ("question", "- Ship on Friday?\n", "- Ship on Friday\n"),
    ("strike", "- The port is 8080\n", "- ~~The port is 8080~~\n"),
    (
        "headings swapped",
        "## Staging\n\n- port 80\n\n## Production\n\n- port 81\n",
        "## Production\n\n- port 80\n\n## Staging\n\n- port 81\n",
    ),
    ("headings dropped", "## Staging in Frankfurt\n\n- port 80 is open\n", "- port 80 is open\n"),
    (
        "intro swapped",
        "Always:\n\n- rebase\n\nNever:\n\n- force-push\n",
        "Always:\n\n- force-push\n\nNever:\n\n- rebase\n",
    ),
    (
        "steps order",
        "1. stop the service\n2. run the migration\n",
        "1. run the migration\n2. stop the service\n",
    ),
    (
        "frontmatter emptied",
        "---\nname: Ana's office\ndescription: Ana Kovacs sits in room 412\ntype: reference\n---\n\n- door code is on the fridge\n",
        "- door code is on the fridge\n",
    ),
    (
        "frontmatter field",
        "---\nname: x\ndescription: d\nowner: Ada\nexpires: 2027-01-01\n---\n\n- some fact\n",
        "---\nname: x\ndescription: evil other thing\n---\n\n- some fact\n",
    ),
    ("code order", "```sh\ncp a.txt b.txt\n```\n", "```sh\ncp b.txt a.txt\n```\n"),
    (
        "yaml indentation",
        "```yaml\nservice:\n  port: 80\nname: web\n```\n",
        "```yaml\nservice:\nport: 80\n  name: web\n```\n",
    ),
    (
        "table cells",
        "| host | port |\n|---|---|\n| alpha | 80 |\n| beta | 81 |\n",
        "| host | port |\n|---|---|\n| alpha | 81 |\n| beta | 80 |\n",
    ),
    ("case", "- Set MODE for US customers\n", "- Set mode for us customers\n"),
    ("stem", "- Ask the police before filming\n", "- Ask the policy before filming\n"),
    ("less/at most", "- Retry fewer than 5 times\n", "- Retry up to 5 times\n"),
    ("prefer", "- I love hiking\n", "- I want hiking\n"),
    ("chinese order", "- 小明向小红汇报\n", "- 小红向小明汇报\n"),
    ("japanese hiragana", "- さくらはたまごをたべる\n", "- さくらとりんごをすてる\n"),
    ("korean neg", "- 커피 마심\n", "- 커피 안 마심\n"),
    ("polish", "- Ala pije mleko\n", "- Ala nie pije mleko\n"),
    ("5 vs 5.0", "- version 5.0 is used\n", "- version 5 is used\n"),
    ("minus", "- freezer at \u{2212}18 degrees\n", "- freezer at 18 degrees\n"),
    ("check sign", "- Tabs \u{2717}\n", "- Tabs \u{2713}\n"),
    (
        "merge two values across entries",
        "- Port 80 serves alpha\n- Port 81 serves beta\n",
        "- Port 80 and 81 serve beta and alpha\n",
    ),
    ("from..to", "- Moved from Paris to Rome\n", "- Moved from Rome to Paris\n"),
    ("should", "- You must sign commits\n", "- You could sign commits, must you\n"),
    (
        "date (prompt asks for it)",
        "- Meeting with Ada tomorrow\n",
        "- Meeting with Ada on 2026-11-27\n",
    ),
    (
        "nested moved",
        "- Staging\n  - port 80\n- Production\n  - port 81\n",
        "- Staging, port 81\n- Production, port 80\n- Production\n  - port 80\n- Staging\n  - port 81\n",
    ),
    ("html comment/link def", "[a]: https://x.example/1\n\n- see [a]\n", "- see [a]\n"),
];

pub(super) async fn dream(
    memories: &Memories,
    script: Vec<ModelReply>,
) -> (Result<lukasa_agents::DreamReport, CurateError>, Vec<Value>, Ledger) {
    let server = ModelServer::scripted(script).unwrap();
    let ledger = Ledger::default();
    let mut draft = memories.draft(ChangeKind::Draft, CallContext::default());
    let done = curator(&server, false).dream(memories, &mut draft, &ledger).await;
    if done.is_ok() {
        draft.commit().await.unwrap();
    }
    (done, server.requests().into_iter().map(|request| request.body).collect(), ledger)
}

#[tokio::test]
async fn a_dream_removes_duplicates_moves_entries_and_adds_descriptions() {
    let (_home, memories) = memories();
    create(
        &memories,
        "/memories/global/a.md",
        "- The deploy runs every Friday at 17:00\n- The deploy runs every Friday at 17:00\n",
    )
    .await;
    create(&memories, "/memories/global/b.md", "- I own a kayak that lies at the lake\n").await;
    let now = "---\ndescription: when the deploy runs, and the kayak\n---\n\n- The deploy runs every Friday at 17:00\n- I own a kayak that lies at the lake\n";
    let script = vec![
        write("/memories/global/a.md", now),
        ModelReply::call("delete", json!({ "path": "/memories/global/b.md" })),
        ModelReply::text("Done."),
    ];
    let (done, _, _) = dream(&memories, script).await;
    assert_eq!(
        done.unwrap().summary,
        "Managed auto-memory dream completed. Changed 2 memories. Repeated entries merged: 1."
    );
    assert_eq!(text_of(&memories, "/memories/global/a.md").await.unwrap(), now);
    assert!(text_of(&memories, "/memories/global/b.md").await.is_none());
}

/// Entries are compared literally: no change of wording counts as the same fact.
#[tokio::test]
async fn a_dream_that_changes_a_fact_is_refused_and_changes_nothing() {
    for (name, before, after) in CHANGED {
        let (_home, memories) = memories();
        create(&memories, "/memories/global/a.md", before).await;
        let script = vec![write("/memories/global/a.md", after), ModelReply::text("Done.")];
        let (done, requests, ledger) = dream(&memories, script).await;
        let is_refused = matches!(
            done,
            Err(CurateError::Agent(AgentError::ContentLoss { .. } | AgentError::ContentAdded(_)))
        );
        assert!(is_refused, "{name}: {done:?}");
        assert_eq!(text_of(&memories, "/memories/global/a.md").await.unwrap(), *before, "{name}");
        assert!(requests.last().unwrap().to_string().contains("This is not accepted"), "{name}");
        // Text of memories is not recorded.
        let why = ledger.report().failure.unwrap();
        assert!(why.ends_with("/memories/global/a.md") || why.ends_with("only tidy up"), "{why}");
    }
}

#[tokio::test]
async fn a_dream_does_not_merge_entries_of_different_memories_by_label() {
    let (_home, memories) = memories();
    create(
        &memories,
        "/memories/global/alpha.md",
        "- Owner: Ada\n- Alpha runs in Oslo since 2019\n",
    )
    .await;
    create(&memories, "/memories/global/beta.md", "- Owner: Ada\n").await;
    let script = vec![
        write("/memories/global/alpha.md", "- Alpha runs in Oslo since 2019\n"),
        ModelReply::text("Done."),
    ];
    assert!(dream(&memories, script).await.0.is_err());
    let script = vec![
        write("/memories/global/beta.md", "- Owner: Ada\n- Alpha runs in Oslo since 2019\n"),
        ModelReply::call("delete", json!({ "path": "/memories/global/alpha.md" })),
        ModelReply::text("Done."),
    ];
    assert!(dream(&memories, script).await.0.is_err());
    assert_eq!(memories.list(None).await.unwrap().memories.len(), 2);
}

#[tokio::test]
async fn a_dream_may_correct_edits_that_were_refused() {
    let (_home, memories) = memories();
    create(&memories, "/memories/global/a.md", "- I own a kayak\n- I drink tea\n").await;
    let script = vec![
        write("/memories/global/a.md", "- I own a kayak\n"),
        ModelReply::text("Done."),
        write(
            "/memories/global/a.md",
            "---\ndescription: a kayak and tea\n---\n\n- I own a kayak\n- I drink tea\n",
        ),
        ModelReply::text("Done now."),
    ];
    let (done, _, _) = dream(&memories, script).await;
    assert_eq!(
        done.unwrap().summary,
        "Managed auto-memory dream completed. Changed 1 memory. Repeated entries merged: 0."
    );
}

#[tokio::test]
async fn a_repetition_in_other_words_is_proposed_to_the_person() {
    let (_home, memories) = memories();
    create(&memories, "/memories/global/a.md", "- The deploy runs every Friday at 17:00\n").await;
    create(&memories, "/memories/global/b.md", "- Every Friday the deploy runs\n").await;
    let propose = |drop: &str| {
        ModelReply::call(
            "propose_merge",
            json!({ "drop_path": "/memories/global/b.md", "drop_entry": drop,
                "keep_path": "/memories/global/a.md", "keep_entry": "The deploy runs every Friday at 17:00" }),
        )
    };
    let script = vec![
        propose("Every Friday the deploy runs"),
        propose("Something else"),
        ModelReply::text("Done."),
    ];
    let (done, requests, _) = dream(&memories, script).await;
    let done = done.unwrap();
    assert_eq!(
        done.summary,
        "Managed auto-memory dream completed. Nothing to tidy up. Proposed: 1."
    );
    assert_eq!(done.proposals[0].changes[0].old.as_deref(), Some("Every Friday the deploy runs"));
    assert!(tool_results(&requests)[1].contains("has no such entry"), "{requests:?}");
    assert!(text_of(&memories, "/memories/global/b.md").await.is_some());
}

#[tokio::test]
async fn a_hostile_dream_changes_nothing_pinned_and_moves_nothing_between_scopes() {
    let (_home, memories) = memories();
    create(&memories, "/memories/global/pinned.md", "- I own a kayak\n").await;
    create(&memories, "/memories/global/b.md", "- I drink tea\n").await;
    create(&memories, "/memories/project/p.md", "- Build with make\n").await;
    memories
        .for_caller(Caller::person("test"))
        .set_pin(&path("/memories/global/pinned.md"), true)
        .await
        .unwrap();
    let script = vec![
        ModelReply::Calls(vec![
            ("delete".to_owned(), json!({ "path": "/memories/global/pinned.md" })),
            ("delete".to_owned(), json!({ "path": "/memories/global" })),
            ("read_file".to_owned(), json!({ "path": "/memories/project/p.md" })),
            (
                "write_file".to_owned(),
                json!({ "path": "/memories/project/p.md", "content": "- I drink tea\n" }),
            ),
        ]),
        ModelReply::text("Nothing more to do."),
    ];
    let (done, requests, ledger) = dream(&memories, script).await;
    assert_eq!(done.unwrap().summary, "Managed auto-memory dream completed. Nothing to tidy up.");
    assert_eq!(ledger.report().refused_calls, 4, "{requests:?}");
    let shown = |word: &str| requests.iter().filter(|body| body.to_string().contains(word)).count();
    assert!(shown("pinned.md") > 0 && shown("p.md") > 0);
    for body in &requests {
        let body = body.to_string();
        assert!(!(body.contains("Build with make") && body.contains("kayak")), "{body}");
    }
}
