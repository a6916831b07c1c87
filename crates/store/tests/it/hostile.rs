//! A hostile checkout, full of links, devices and names that must not be followed, opened or
//! trusted.

use std::fs;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::symlink;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use serde_json::json;

use crate::host::{TestHost, answer, call, create, texts};

const PROJECT: &str = "/memories/project";

fn fill(host: &TestHost) {
    let root = host.project("");
    fs::create_dir_all(&root).unwrap();
    fs::create_dir_all(host.path("secret")).unwrap();
    fs::write(host.path("secret/key.md"), "SECRET\n").unwrap();
    symlink(host.path("secret"), root.join("out")).unwrap();
    symlink(host.path("secret/key.md"), root.join("key.md")).unwrap();
    symlink("good.md", root.join("in.md")).unwrap();
    symlink("loop", root.join("loop")).unwrap();
    fs::write(root.join("good.md"), "---\ndescription: fine\n---\n- good\n").unwrap();
    fs::write(
        root.join("bomb.md"),
        "---\na: &a [x, x]\nb: &b [*a, *a]\nc: &c [*b, *b]\nd: [*c, *c]\n---\nx\n",
    )
    .unwrap();
    fs::write(root.join("bytes.md"), [0xff, 0xfe, 0x00]).unwrap();
    fs::write(root.join("<memory_file>.md"), "x\n").unwrap();
    fs::write(root.join("bidi\u{202e}.md"), "x\n").unwrap();
    fs::write(root.join(std::ffi::OsStr::from_bytes(b"latin\xe9.md")), "x\n").unwrap();
    let sparse = fs::File::create(root.join("sparse.md")).unwrap();
    sparse.set_len(10 << 30).unwrap();
    let pipe = std::process::Command::new("mkfifo").arg(root.join("pipe.md")).status().unwrap();
    assert!(pipe.success());
    std::os::unix::net::UnixListener::bind(root.join("socket.md")).unwrap();
    fs::create_dir_all(root.join("many")).unwrap();
    for number in 0..1_500 {
        fs::write(root.join(format!("many/n{number:04}.md")), "x\n").unwrap();
    }
}

#[tokio::test]
async fn links_and_devices_in_a_hostile_checkout_are_never_followed_or_opened() {
    let host = TestHost::new();
    fill(&host);
    let store = host.store();
    let agent = host.agent(&store);
    let top = call(&agent, json!({"command": "view", "path": "/memories"})).await;
    assert!(top.contains("/memories/project/good.md"), "{top}");
    for hidden in
        ["key.md", "out", "in.md", "loop", "pipe", "socket", "bidi", "latin", "memory_file"]
    {
        assert!(!top.contains(hidden), "{hidden} is listed:\n{top}");
    }
    for (name, code) in [
        ("key.md", "not_a_file"),
        ("in.md", "not_a_file"),
        ("pipe.md", "not_a_file"),
        ("socket.md", "not_a_file"),
        ("bytes.md", "not_text"),
        ("sparse.md", "too_large"),
        ("out/key.md", "escapes_root"),
        ("loop/x.md", "escapes_root"),
    ] {
        let path = format!("{PROJECT}/{name}");
        let (reply, actual_code) = answer(&agent, json!({"command": "view", "path": path})).await;
        assert_eq!(actual_code.as_deref(), Some(code), "{name}: {reply}");
        assert!(!reply.contains("SECRET"), "{reply}");
        let edit = json!({"command": "insert", "path": path, "insert_line": 0, "insert_text": "x"});
        let (reply, actual_code) = answer(&agent, edit).await;
        assert_eq!(actual_code.as_deref(), Some(code), "{name}: {reply}");
    }
    for path in ["out/new.md", "loop/new.md"] {
        let reply = create(&agent, &format!("{PROJECT}/{path}"), "x\n").await;
        assert!(reply.contains("link"), "{reply}");
    }
    let kinds: std::collections::BTreeSet<_> = host
        .person(&store)
        .health(lukasa_store::Depth::Thorough)
        .await
        .unwrap()
        .findings
        .iter()
        .map(|finding| finding.kind.as_str())
        .collect();
    for kind in ["link", "not-a-file", "not-text", "over-cap", "over-full", "unaddressable-name"] {
        assert!(kinds.contains(kind), "{kind} is not among {kinds:?}");
    }
    let listed = call(&agent, json!({"command": "view", "path": "/memories/project/many"})).await;
    assert!(
        listed.contains("n0000.md") && listed.contains("n0999.md"),
        "the first ones are listed"
    );
    assert!(
        !listed.contains("n1000.md") && listed.contains("500 more not shown"),
        "the rest is counted"
    );
    assert_eq!(texts(&host.path("secret")), crate::host::table(&[("key.md", "SECRET\n")]));
    // A file over the size limit can be removed, and so can a folder with links in it.
    assert!(
        crate::host::delete(&agent, "/memories/project/sparse.md")
            .await
            .starts_with("Successfully")
    );
}

#[tokio::test]
async fn a_root_that_is_a_link_is_refused_and_the_others_work() {
    for link in [".lukasa", ".lukasa/memory"] {
        let host = TestHost::new();
        fs::create_dir_all(host.path("elsewhere/memory")).unwrap();
        fs::write(host.path("elsewhere/memory/x.md"), "SECRET\n").unwrap();
        fs::write(host.path("elsewhere/x.md"), "SECRET\n").unwrap();
        let at = host.path("shop").join(link);
        fs::create_dir_all(at.parent().unwrap()).unwrap();
        symlink(host.path("elsewhere"), &at).unwrap();
        let before = crate::host::files(&host.path("elsewhere"));
        let store = host.store();
        let agent = host.agent(&store);
        for command in [
            json!({"command": "view", "path": "/memories/project/x.md"}),
            json!({"command": "create", "path": "/memories/project/n.md", "file_text": "x"}),
            json!({"command": "delete", "path": "/memories/project/x.md"}),
        ] {
            let (reply, code) = answer(&agent, command).await;
            assert_eq!(code.as_deref(), Some("escapes_root"), "{link}: {reply}");
        }
        let top = call(&agent, json!({"command": "view", "path": "/memories"})).await;
        assert!(top.contains("/memories/project/\t(unavailable"), "{top}");
        assert!(create(&agent, "/memories/global/a.md", "x\n").await.starts_with("File created"));
        assert_eq!(crate::host::files(&host.path("elsewhere")), before);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_replaced_by_a_link_at_any_moment_is_not_followed() {
    let host = TestHost::new();
    fs::create_dir_all(host.project("f")).unwrap();
    fs::create_dir_all(host.path("secret")).unwrap();
    fs::write(host.path("secret/a.md"), "SECRET\n").unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let swapping = {
        let (stop, folder, secret) = (Arc::clone(&stop), host.project("f"), host.path("secret"));
        std::thread::spawn(move || {
            let aside = folder.with_file_name("aside");
            while !stop.load(Ordering::Relaxed) {
                let moved = fs::rename(&folder, &aside);
                if moved.is_ok() && symlink(&secret, &folder).is_ok() {
                    fs::remove_file(&folder).unwrap();
                }
                if moved.is_ok() && fs::rename(&aside, &folder).is_err() {
                    // A write created the folder in between, so it is a real one.
                    fs::remove_dir_all(&aside).unwrap_or_default();
                }
            }
        })
    };
    let store = host.store();
    let agent = host.agent(&store);
    for round in 0..2_000 {
        let path = "/memories/project/f/a.md";
        let command = match round % 7 {
            0 => json!({"command": "create", "path": path, "file_text": "ours\n"}),
            1 => json!({"command": "view", "path": path}),
            2 => json!({"command": "insert", "path": path, "insert_line": 0, "insert_text": "x"}),
            3 => json!({"command": "str_replace", "path": path, "old_str": "ours", "new_str": "o"}),
            4 => json!({"command": "view", "path": PROJECT}),
            5 => json!({"command": "rename", "old_path": path, "new_path": format!("{path}.md")}),
            _ => json!({"command": "delete", "path": path}),
        };
        let decoded = memory::tool::decode(&command, memory::path::Layout::Scoped).unwrap();
        if round % 50 == 0 {
            agent.list(None).await.unwrap_or_default();
        }
        // A fault is acceptable here, like a refusal: only the absence of effects counts.
        if let Ok(reply) = agent.apply(decoded, &lukasa_store::CallContext::default()).await {
            assert!(!memory::tool::render(&reply).text.contains("SECRET"));
        }
    }
    stop.store(true, Ordering::Relaxed);
    swapping.join().unwrap();
    assert_eq!(texts(&host.path("secret")), crate::host::table(&[("a.md", "SECRET\n")]));
}

#[tokio::test]
async fn files_too_deep_for_a_path_hide_no_others() {
    // As deep as a root may be walked, and one name too long: both are beyond the paths of a scope.
    let deep = format!("{}/x.md", ["f"; 15].join("/"));
    let long = format!("{}/{}.md", vec!["l".repeat(250); 3].join("/"), "n".repeat(252));
    for name in [&deep, &long] {
        let host = TestHost::new();
        let file = host.project(name);
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        fs::write(&file, "too deep\n").unwrap();
        fs::write(host.project("good.md"), "good\n").unwrap();
        let store = host.store();
        let (agent, person) = (host.agent(&store), host.person(&store));
        let listed = agent.list(None).await.unwrap();
        let listed: Vec<_> = listed.memories.iter().map(|one| one.path.to_string()).collect();
        assert_eq!(listed, ["/memories/project/good.md"]);
        let folder = file.parent().unwrap().strip_prefix(host.project("")).unwrap();
        let folder = format!("{PROJECT}/{}", folder.display());
        for path in ["/memories", PROJECT, &folder] {
            let (reply, code) = answer(&agent, json!({"command": "view", "path": path})).await;
            assert_eq!(code, None, "{reply}");
        }
        agent.record_external_edits().await.unwrap();
        let health = person.health(lukasa_store::Depth::Thorough).await.unwrap();
        let findings: Vec<_> =
            health.findings.iter().map(|one| (one.kind.as_str(), one.subject.as_str())).collect();
        assert_eq!(findings, [("unaddressable-name", name.as_str())]);
        // Its parent folder can still be removed, with all that is in it.
        let top = format!("{PROJECT}/{}", name.split_once('/').unwrap().0);
        assert_eq!(crate::host::delete(&agent, &top).await, format!("Successfully deleted {top}"));
        assert_eq!(texts(&host.project("")), crate::host::table(&[("good.md", "good\n")]));
    }
}
