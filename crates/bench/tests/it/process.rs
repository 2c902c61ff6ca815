//! The program itself, with faults planted around it: what it says, what it keeps, and that it leaves no process behind.

use std::fs;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use tollgate_bench::record::RunRecord;
use tollgate_testkit::PATIENCE;
use tollgate_testkit::process::{temp_dir, tollgate_binary};

use crate::fake::{Behaviour, FakeServer};

/// A bench process and the folder of its results; both end with their owner.
struct Bench {
    child: Child,
    folder: PathBuf,
}

/// How a bench process ended.
struct Ended {
    code: Option<i32>,
    said: String,
    record: Option<RunRecord>,
}

impl Bench {
    fn start(args: &[&str]) -> Bench {
        let program = tollgate_binary().unwrap().display().to_string();
        Bench::with(&program, &["bench"], args)
    }

    /// In a shell that lets no file grow beyond this many blocks of 512 bytes.
    fn on_a_full_disk(blocks: u32, args: &[&str]) -> Bench {
        let program = tollgate_binary().unwrap().display().to_string();
        // Ignored, so that the write fails as on a full disk instead of ending the process.
        let script = format!("trap '' XFSZ; ulimit -f {blocks}; exec \"$0\" \"$@\"");
        Bench::with("/bin/sh", &["-c", &script, &program, "bench"], args)
    }

    fn with(program: &str, before: &[&str], args: &[&str]) -> Bench {
        let folder = temp_dir().unwrap();
        let output = |name: &str| fs::File::create(folder.join(name)).unwrap();
        let mut command = Command::new(program);
        command
            .args(before)
            .args(args)
            .args(["--no-calibrate", "--warmup", "0s", "--pin", "none"])
            .args(["--scenario", "single-key", "--out"])
            .arg(folder.join("results"))
            .env_remove("RUST_BACKTRACE")
            // So that what a killed bench leaves behind goes with the folder.
            .env("TMPDIR", &folder)
            .stdin(Stdio::null())
            .stdout(output("out"))
            .stderr(output("err"));
        // SAFETY: only an async-signal-safe function is called. What these tests were started by may ignore the signal, as
        // nohup does, and a bench that inherits that ignores it, too.
        unsafe {
            command.pre_exec(|| {
                libc::signal(libc::SIGHUP, libc::SIG_DFL);
                Ok(())
            });
        }
        let child = command.spawn().unwrap();
        Bench { child, folder }
    }

    fn signal(&self, signal: libc::c_int) {
        // SAFETY: the child has not been waited for, so the number is still its own.
        unsafe { libc::kill(self.child.id() as libc::pid_t, signal) };
    }

    fn said(&self) -> String {
        ["out", "err"]
            .map(|name| fs::read_to_string(self.folder.join(name)).unwrap_or_default())
            .concat()
    }

    /// Waits for the end; no process that it started may be there then.
    fn end(mut self) -> Ended {
        let mut children = Vec::new();
        let mut status = None;
        wait_for("the end of the bench", || {
            children.extend(children_of(self.child.id()));
            status = self.child.try_wait().unwrap();
            status.is_some()
        });
        wait_for("the end of its servers", || {
            !children.iter().any(Process::lives)
        });
        let results = self.folder.join("results/latest/results.json");
        let record = fs::read_to_string(results).ok();
        Ended {
            code: status.unwrap().code(),
            said: self.said(),
            record: record.map(|text| serde_json::from_str(&text).unwrap()),
        }
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
        fs::remove_dir_all(&self.folder).ok();
    }
}

/// A process that cannot be mistaken for a later one with its number.
#[derive(Debug, PartialEq, Eq)]
struct Process {
    pid: u32,
    started: String,
}

impl Process {
    /// Number of the parent, and the process; `None` if it is gone or only waits for its parent.
    fn read(pid: u32) -> Option<(u32, Process)> {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
        let fields: Vec<&str> = stat.rsplit(')').next()?.split_ascii_whitespace().collect();
        if fields.first() == Some(&"Z") {
            return None;
        }
        let started = (*fields.get(19)?).to_owned();
        Some((fields.get(1)?.parse().ok()?, Process { pid, started }))
    }

    fn lives(&self) -> bool {
        Process::read(self.pid).is_some_and(|(_, now)| now == *self)
    }
}

fn children_of(parent: u32) -> Vec<Process> {
    let numbers = fs::read_dir("/proc").unwrap().flatten();
    let pids = numbers.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(Process::read)
        .filter(|(of, _)| *of == parent)
        .map(|(_, process)| process)
        .collect()
}

fn wait_for(what: &str, mut happened: impl FnMut() -> bool) {
    let start = Instant::now();
    while !happened() {
        assert!(start.elapsed() < PATIENCE, "waited in vain for {what}");
        thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn an_interrupt_keeps_what_was_measured() {
    // That of a terminal which closes is one too.
    for signal in [libc::SIGINT, libc::SIGHUP] {
        interrupted_by(signal);
    }
}

fn interrupted_by(signal: libc::c_int) {
    let fake = FakeServer::start(Behaviour::Limiter { surplus: 0 });
    let args = ["--target", &fake.url(), "--ladder", "500", "--step", "300s"];
    let bench = Bench::start(&args);
    wait_for("a step under way", || fake.decided() > 200);
    bench.signal(signal);
    let ended = bench.end();
    assert_eq!(ended.code, Some(1), "{}", ended.said);
    let record = ended.record.expect("the part measured is kept");
    assert!(!record.complete);
    assert_eq!(record.partial_reason.as_deref(), Some("interrupted"));
    let mut steps = record.cells.iter().flat_map(|cell| &cell.steps);
    assert!(steps.any(|step| step.completed > 0), "{}", ended.said);
}

/// A bench that has started a server of its own and put load on it, and that server.
fn with_a_server() -> (Bench, Process) {
    let bench = Bench::start(&["--only", "tollgate", "--ladder", "500", "--step", "300s"]);
    wait_for("load on the server", || bench.said().contains("500/s"));
    let mut children = children_of(bench.child.id());
    assert_eq!(children.len(), 1);
    (bench, children.remove(0))
}

#[test]
fn an_interrupt_ends_the_servers() {
    let (bench, server) = with_a_server();
    bench.signal(libc::SIGTERM);
    let ended = bench.end();
    assert_eq!(ended.code, Some(1), "{}", ended.said);
    assert!(!server.lives());
}

#[test]
fn a_bench_that_is_killed_takes_its_servers_along() {
    let (bench, server) = with_a_server();
    bench.signal(libc::SIGKILL);
    wait_for("the end of its server", || !server.lives());
}

#[test]
fn a_server_that_is_killed_is_an_error_with_its_obituary() {
    let (bench, server) = with_a_server();
    // SAFETY: the server is a child of a bench that waits for it only after noticing its end.
    unsafe { libc::kill(server.pid as libc::pid_t, libc::SIGKILL) };
    let ended = bench.end();
    assert_eq!(ended.code, Some(1), "{}", ended.said);
    assert!(ended.said.contains("ended (signal: 9"), "{}", ended.said);
    let record = ended.record.unwrap();
    assert!(!record.complete && !record.events.is_empty());
}

#[test]
fn a_full_disk_is_an_error_that_names_the_file() {
    let fake = FakeServer::start(Behaviour::Limiter { surplus: 0 });
    let args = [
        "--target",
        &fake.url(),
        "--ladder",
        "1000,2000",
        "--step",
        "100ms",
    ];
    let ended = Bench::on_a_full_disk(16, &args).end();
    assert_eq!(ended.code, Some(1), "{}", ended.said);
    let named = ended.said.contains("results.json") && ended.said.contains("File too large");
    assert!(named, "{}", ended.said);
    // The rows were shown before they could not be written.
    assert!(ended.said.contains("2,000"), "{}", ended.said);
}

#[test]
fn a_generator_that_is_stopped_makes_its_row_invalid() {
    let fake = FakeServer::start(Behaviour::Limiter { surplus: 0 });
    let bench = Bench::start(&["--target", &fake.url(), "--ladder", "500", "--step", "4s"]);
    wait_for("a step under way", || fake.decided() > 100);
    bench.signal(libc::SIGSTOP);
    thread::sleep(Duration::from_millis(700));
    bench.signal(libc::SIGCONT);
    let ended = bench.end();
    let record = ended.record.expect("results");
    let step = &record.cells[0].steps[0];
    // The row is measured again and says why, or stays invalid with the reason.
    let said = [&step.notes[..], &step.validity.reasons[..]]
        .concat()
        .join("; ");
    assert!(
        said.contains("P99 of the send lag"),
        "{said}\n{}",
        ended.said
    );
}

/// A bench whose only row was spoiled once and is being measured again.
fn repeating(target: &str) -> Bench {
    let bench = Bench::start(&["--target", target, "--ladder", "500", "--step", "4s"]);
    // Early in a step, so that many of its requests are late.
    wait_for("a step under way", || bench.said().contains("500/s"));
    thread::sleep(Duration::from_millis(500));
    bench.signal(libc::SIGSTOP);
    thread::sleep(Duration::from_millis(700));
    bench.signal(libc::SIGCONT);
    wait_for("its repetition", || bench.said().contains("(again, 1 of"));
    bench
}

/// What was measured before the repetition is there, spoiled as it is, in a record that is not complete.
fn keeps_the_whole_row(ended: &Ended) {
    let record = ended.record.as_ref().expect("results");
    assert!(!record.complete, "{}", ended.said);
    let steps = &record.cells[0].steps;
    assert_eq!(steps.len(), 1, "{}", ended.said);
    assert!(steps[0].duration_s > 3.9, "{:?}", steps[0].duration_s);
    assert!(!steps[0].validity.reasons.is_empty());
    assert!(
        steps[0]
            .notes
            .iter()
            .all(|note| !note.contains("measured again"))
    );
}

#[test]
fn a_row_whose_repetition_is_interrupted_is_kept() {
    let fake = FakeServer::start(Behaviour::Limiter { surplus: 0 });
    let bench = repeating(&fake.url());
    bench.signal(libc::SIGINT);
    let ended = bench.end();
    assert_eq!(ended.code, Some(1), "{}", ended.said);
    keeps_the_whole_row(&ended);
}

#[test]
fn targets_that_cannot_be_measured_are_refused_in_a_sentence() {
    let closed = tollgate_testkit::process::free_port().unwrap();
    let down = |scheme: &str| format!("down={scheme}://127.0.0.1:{closed}");
    let [store, grpc, http, memcache] = ["redis", "grpc", "http", "memcache"].map(down);
    let cases = [
        (store.as_str(), "refused"),
        (grpc.as_str(), "refused"),
        (http.as_str(), "refused"),
        (memcache.as_str(), "refused"),
        ("x=gopher://127.0.0.1:70", "gopher"),
        ("x=redis://127.0.0.1:notaport", "notaport"),
        ("x=redis://192.0.2.1:6379", "--i-own-this-target"),
    ];
    for (url, word) in cases {
        let ended = Bench::start(&["--target", url, "--ladder", "500", "--step", "100ms"]).end();
        assert!(
            ended.code.is_some_and(|code| code != 0),
            "{url}: {}",
            ended.said
        );
        assert!(ended.said.contains(word), "{url}: {}", ended.said);
        assert!(!ended.said.contains("panicked"), "{url}: {}", ended.said);
        // A run that began keeps a record, which claims nothing.
        if let Some(record) = ended.record {
            assert!(!record.complete, "{url}");
            assert_eq!(
                record.partial_reason.as_deref(),
                Some("nothing was measured")
            );
            assert!(record.cells.is_empty(), "{url}: no ladders without rows");
        }
    }
}

#[test]
fn a_cluster_of_one_node_answers_one_slot_and_refuses_two() {
    let ops = "cluster-hashtag,cluster-crossslot";
    let args = [
        "--only",
        "tollgate",
        "--op",
        ops,
        "--ladder",
        "300",
        "--step",
        "300ms",
        "--deadline",
        "60s",
    ];
    let ended = Bench::start(&args).end();
    let record = ended.record.expect("it was measured");
    assert_eq!(record.cells.len(), 2, "{}", ended.said);
    for cell in &record.cells {
        let answered: u64 = cell.steps.iter().map(|step| step.allowed).sum();
        let errors: u64 = cell
            .steps
            .iter()
            .map(|step| step.failures.answered_errors())
            .sum();
        assert!(
            answered > 0 && errors == 0,
            "{}: {}",
            cell.operation.name,
            ended.said
        );
    }
}

#[test]
fn a_cascade_is_measured_by_recovery_alone() {
    let program = tollgate_binary().unwrap();
    let run = |words: &[&str]| {
        let mut command = Command::new(program);
        command
            .args(["bench"])
            .args(words)
            .args(["--scenario", "cascade"]);
        let output = command.output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (output.status.code(), said)
    };
    for job in [&[][..], &["capacity"], &["mitigations"]] {
        let (code, said) = run(job);
        assert_eq!(code, Some(1), "{said}");
        assert!(said.contains("bench recovery --scenario cascade"), "{said}");
    }
}

#[test]
fn results_that_would_lie_in_a_file_are_refused() {
    let folder = temp_dir().unwrap();
    let file = folder.join("taken");
    fs::write(&file, "").unwrap();
    let output = Command::new(tollgate_binary().unwrap())
        .args(["bench", "--only", "tollgate", "--ladder", "100", "--out"])
        .arg(&file)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    fs::remove_dir_all(&folder).unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("it is a file"), "{said}");
}

#[test]
fn targets_that_answer_wrongly_are_given_up_in_a_sentence() {
    for (behaviour, word, step) in [
        (Behaviour::Hangs, "not one answer", "500ms"),
        (Behaviour::Resets, "reset", "500ms"),
        (Behaviour::Garbage, "not a valid reply", "500ms"),
        (Behaviour::Errors, "OOM", "500ms"),
        (Behaviour::OtherShape, "no answer was one to what", "500ms"),
        // Long enough for the loss to be heard of before its end; it is cut short there.
        (Behaviour::DiesAfter(50), "all connections were lost", "30s"),
    ] {
        let fake = FakeServer::start(behaviour);
        let url = fake.url();
        let args = ["--target", &url, "--ladder", "500,600", "--step", step];
        let ended = Bench::start(&args).end();
        assert!(
            ended.code.is_some_and(|code| code != 0),
            "{behaviour:?}: {}",
            ended.said
        );
        let record = ended.record.expect("what happened is kept");
        let text = serde_json::to_string(&record).unwrap();
        assert!(text.contains(word), "{behaviour:?}: {text}");
        assert!(record.cells.iter().all(|cell| cell.steps.len() <= 1));
    }
}
