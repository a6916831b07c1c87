//! Tests of proposals over HTTP: a person lists them and decides, and subscribers receive events.

use std::path::Path;

use protocol::client::{Client, ClientError, PendingQuery};
use protocol::event::{Event, ProposalAction, ProposalEvent};
use protocol::pending::Decision;
use serde_json::json;

use super::{Daemon, PATIENCE, TOKEN};
use crate::pending::propose;
use crate::sandbox::Sandbox;

fn client(daemon: &Daemon) -> Client {
    let door = daemon.log_lines["url"].as_str().unwrap().parse().unwrap();
    Client::new(door, TOKEN).unwrap().with_deadline(PATIENCE)
}

async fn with_three() -> Sandbox {
    let place = Sandbox::new();
    place.create("global/tea.md", "- Likes tea\n- Drinks tea\n");
    place.create("project/build.md", "- Build with make\n");
    propose(&place, "twice", &[("global", "tea.md", Some("Drinks tea"), None)]).await;
    propose(&place, "newer", &[("project", "build.md", Some("Build with make"), Some("Use just"))])
        .await;
    propose(&place, "gone", &[("project", "build.md", Some("Build with ninja"), None)]).await;
    place
}

async fn ids(client: &Client) -> Vec<i64> {
    let page = client.pending(&PendingQuery::default()).await.unwrap();
    assert_eq!(page.waiting, u64::try_from(page.proposals.len()).unwrap());
    page.proposals.iter().map(|one| one.id).collect()
}

fn done(id: i64, change: Option<i64>) -> Decision {
    Decision { id, done: true, change, code: None, error: None }
}

#[tokio::test]
async fn a_person_decides_on_each_proposal_and_streams_publish_it() {
    let place = with_three().await;
    let daemon = Daemon::start(&place);
    let client = client(&daemon);
    let stream = daemon.stream("/v1/events", &[]);
    let first = client.pending(&PendingQuery { max: Some(1), cursor: None }).await.unwrap();
    assert_eq!((first.proposals.len(), first.waiting), (1, 3));
    let proposal = &first.proposals[0];
    assert_eq!((proposal.kind.as_str(), proposal.reason.as_str()), ("repetition", "twice"));
    assert_eq!((proposal.score, proposal.origin.as_str()), (80, "dream"));
    assert_eq!(proposal.task.as_deref(), Some("dream-1"));
    assert!(proposal.made_at.ends_with('Z') && proposal.stale.is_none(), "{proposal:?}");
    assert_eq!(proposal.changes[0].old.as_deref(), Some("Drinks tea"));
    assert_eq!(proposal.diffs[0].path, "/memories/global/tea.md");
    assert!(proposal.diffs[0].diff.ends_with(" - Likes tea\n-- Drinks tea\n"), "{proposal:?}");
    let rest = PendingQuery { max: Some(2), cursor: first.next_cursor };
    let rest = client.pending(&rest).await.unwrap();
    assert_eq!(rest.proposals.iter().map(|one| one.id).collect::<Vec<_>>(), [2, 3]);
    assert!(rest.proposals[1].stale.is_some() && rest.proposals[1].diffs.is_empty());
    assert_eq!(client.proposal(2).await.unwrap(), rest.proposals[0]);

    let decisions = client.accept(&[1, 3, 9]).await.unwrap().decisions;
    assert_eq!(decisions[0], done(1, Some(3)));
    let refused: Vec<_> = decisions[1..].iter().map(|one| one.code.as_deref().unwrap()).collect();
    assert_eq!(refused, ["conflict", "not_found"]);
    assert_eq!(client.reject(&[2]).await.unwrap().decisions, [done(2, None)]);
    assert_eq!(ids(&client).await, [3]);
    assert_eq!(place.view("global/tea.md"), "- Likes tea\n");
    match client.proposal(1).await {
        Err(ClientError::Conflict(decided)) => {
            assert_eq!(decided.sentence, "the proposal 1 was accepted already");
        }
        other => panic!("{other:?}"),
    }
    let mut told = Vec::new();
    while told.len() < 2 {
        if let Event::Proposal(event) = stream.next().unwrap().event {
            told.push(event);
        }
    }
    let event = |action, id, change| ProposalEvent {
        action,
        ids: vec![id],
        actor: "person".to_owned(),
        task: Some("dream-1".to_owned()),
        change,
    };
    assert_eq!(
        told,
        [event(ProposalAction::Accepted, 1, Some(3)), event(ProposalAction::Rejected, 2, None)]
    );
    client.undo(3, protocol::client::DryRun::No).await.unwrap();
    assert_eq!(place.view("global/tea.md"), "- Likes tea\n- Drinks tea\n");
}

fn other_project(place: &Sandbox) -> String {
    let folder = place.path().join("other");
    std::fs::create_dir_all(Path::new(&folder).join(".git")).unwrap();
    folder.display().to_string()
}

#[tokio::test]
async fn another_project_sees_and_decides_only_global_proposals() {
    let place = with_three().await;
    let other = other_project(&place);
    let app = place.checkout().display().to_string();
    let daemon = Daemon::start_with(&place, &["--workspace", &app, "--workspace", &other]);
    let elsewhere = client(&daemon).in_workspace(daemon.workspace(1));
    assert_eq!(ids(&elsewhere).await, [1]);
    for decisions in [elsewhere.accept(&[2]).await, elsewhere.reject(&[2]).await] {
        assert_eq!(decisions.unwrap().decisions[0].code.as_deref(), Some("not_found"));
    }
    assert_eq!(elsewhere.accept(&[1]).await.unwrap().decisions[0], done(1, Some(3)));
    assert_eq!(ids(&client(&daemon)).await, [2, 3]);
}

#[test]
fn an_invalid_request_names_its_problem() {
    let (_place, daemon) = Daemon::in_new_sandbox();
    let refused = |path: &str, body: &serde_json::Value| {
        let answer = daemon.post(path, body);
        (answer.status, answer.json()["code"].as_str().unwrap().to_owned())
    };
    let invalid = (400, "invalid_arguments".to_owned());
    for body in [json!({}), json!({ "ids": "1" }), json!({ "ids": ["x"] })] {
        assert_eq!(refused("/v1/pending/accept", &body), invalid, "{body}");
    }
    let many: Vec<_> = (0..2_000).collect();
    assert_eq!(refused("/v1/pending/reject", &json!({ "ids": many })), invalid);
    assert_eq!(daemon.ask("GET", "/v1/pending/x").code(), invalid);
    assert_eq!(daemon.ask("GET", "/v1/pending?cursor=x").code(), invalid);
    assert_eq!(daemon.ask("GET", "/v1/pending/7").code(), (404, "not_found".to_owned()));
    let nothing = daemon.post("/v1/pending/accept", &json!({ "ids": [] }));
    assert_eq!((nothing.status, nothing.json()), (200, json!({ "decisions": [] })));
}
