//! tmp
#![expect(clippy::disallowed_methods, clippy::print_stdout, clippy::unwrap_used, reason = "x")]
use engine::*;
use memory::command::Command;
use memory::path::*;
use std::io::Write;
use std::time::*;
fn body(i: usize) -> String {
    let mut s = format!("---\nname: note {i}\ndescription: a note on topic {i}\n---\n");
    while s.len() < 560 {
        s.push_str("- The staging database is reached through the bastion on port 5433.\n");
    }
    s.push_str(&format!("marker line XYZZY {i}\n"));
    s
}
fn p50(v: &mut Vec<Duration>) -> (f64, f64, f64) {
    v.sort();
    let n = v.len();
    (
        v[n / 2].as_secs_f64() * 1e6,
        v[n * 95 / 100].as_secs_f64() * 1e6,
        v[n / 10].as_secs_f64() * 1e6,
    )
}
fn bare(dir: &std::path::Path, d: &std::fs::File, name: &str, b: &[u8]) {
    let t = dir.join(format!(".{name}.tmp"));
    let mut f = std::fs::File::create_new(&t).unwrap();
    f.write_all(b).unwrap();
    f.sync_all().unwrap();
    drop(f);
    std::fs::rename(&t, dir.join(name)).unwrap();
    d.sync_all().unwrap();
}
fn main() {
    let mode = std::env::args().nth(1).unwrap_or_default();
    let n: usize = std::env::args().nth(2).map_or(50, |x| x.parse().unwrap());
    let rounds: usize = std::env::args().nth(3).map_or(8, |x| x.parse().unwrap());
    let root = tempfile::tempdir_in(std::env::current_dir().unwrap()).unwrap();
    let rt = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let folders = Folders { data: root.path().join("data"), state: root.path().join("data/state") };
    let mut c = Config::new(folders);
    c.files_max = 100_000;
    let e = Engine::open(c).unwrap();
    let m = e.memories(
        &BindingRequest::default(),
        Caller::agent(memory::access::AgentClass::Exec, "bench"),
    );
    let bdir = root.path().join("bare/dir0");
    std::fs::create_dir_all(&bdir).unwrap();
    let bd = std::fs::File::open(&bdir).unwrap();
    let p = |i: usize| {
        MemoryPath::parse(&format!("/memories/global/dir{}/note{i}.md", i % 10), Layout::Scoped)
            .unwrap()
    };
    let (mut tb, mut tr, mut tc, mut ts, mut tsettle) = (vec![], vec![], vec![], vec![], vec![]);
    let sync = || rustix::fs::syncfs(&bd).unwrap();
    let mut next = 0;
    let do_one = |cmd| {
        let r = rt.block_on(m.apply(cmd, &Call::default())).unwrap();
        assert!(matches!(r, memory::command::Reply::Done { .. }), "{r:?}");
    };
    do_one(Command::Create { path: p(99_999), file_text: body(0) });
    for r in 0..rounds {
        if mode != "create" && mode != "replace" {
            sync();
            for i in 0..n {
                let b = body(i);
                let t = Instant::now();
                bare(&bdir, &bd, &format!("n{r}-{i}"), b.as_bytes());
                tb.push(t.elapsed());
            }
            sync();
            for i in 0..n {
                let b = body(i + 1);
                let t = Instant::now();
                bare(&bdir, &bd, &format!("n{r}-{i}"), b.as_bytes());
                tr.push(t.elapsed());
            }
            sync();
        }
        let from = next;
        next += n;
        for i in from..next {
            let b = body(i);
            let path = p(i);
            let t = Instant::now();
            do_one(Command::Create { path, file_text: b });
            tc.push(t.elapsed());
        }
        if mode != "create" {
            for i in from..next {
                let path = p(i);
                let t = Instant::now();
                do_one(Command::StrReplace {
                    path,
                    old_str: "XYZZY".into(),
                    new_str: "PLUGH".into(),
                });
                ts.push(t.elapsed());
            }
        }
        if mode != "create" && mode != "replace" {
            let t = Instant::now();
            rt.block_on(e.close());
            tsettle.push(t.elapsed());
            sync();
            do_one(Command::StrReplace {
                path: p(0),
                old_str: "marker".into(),
                new_str: "marker marker".into(),
            });
            do_one(Command::StrReplace {
                path: p(0),
                old_str: "marker marker".into(),
                new_str: "marker".into(),
            });
        }
    }
    for (name, v) in [
        ("bare new", &mut tb),
        ("bare replace", &mut tr),
        ("create", &mut tc),
        ("str_replace", &mut ts),
        ("settle", &mut tsettle),
    ] {
        if !v.is_empty() {
            println!("{name:14} n={} p50/p95/p10 {:.0?}", v.len(), p50(v));
        }
    }
}
