//! Scripts touch the keys that they declare and no others: Dragonfly refuses the rest, and a cluster finds a node by them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tollgate_testkit::client::{Client as Control, Received};

use crate::mixed;
use crate::storm::{BOTH, CLIENTS, Place, Until, rules, storm};
use crate::support::{Service, redis};

/// A store that tells nothing for so long after the last request has told all.
const QUIET: Duration = Duration::from_millis(500);

/// What the scripts did, by the lines of MONITOR.
#[derive(Default)]
struct Told {
    scripts: usize,
    calls: usize,
    /// Calls of commands on keys that their script did not declare.
    undeclared: Vec<String>,
    declared: Vec<String>,
}

impl Told {
    /// A line is `+TIME [DB CLIENT] "WORD" "WORD"…`; the client of a call by a script is `lua`.
    fn line(&mut self, line: &str) {
        let Some((head, words)) = line.split_once("] ") else {
            return;
        };
        let words: Vec<&str> = words.trim_end().trim_matches('"').split("\" \"").collect();
        match (
            words[0].to_ascii_uppercase().as_str(),
            head.ends_with("lua"),
        ) {
            ("EVAL" | "EVALSHA", false) => {
                let count: usize = words[2].parse().expect("a number of keys");
                self.declared = words[3..3 + count].iter().map(|&key| key.into()).collect();
                self.scripts += 1;
            }
            ("TIME", true) => {}
            (_, true) => {
                self.calls += 1;
                if !self.declared.iter().any(|key| key == words[1]) {
                    self.undeclared.push(line.to_owned());
                }
            }
            _ => {}
        }
    }
}

/// Reads MONITOR until the store is quiet after `ended`.
fn follow(mut monitor: Control, ended: &AtomicBool) -> Told {
    let (mut told, mut unread) = (Told::default(), Vec::new());
    loop {
        let last = ended.load(Ordering::Acquire);
        match monitor.receive(QUIET).expect("MONITOR goes on") {
            Received::Bytes(bytes) => unread.extend(bytes),
            Received::Quiet if !last => {}
            Received::Quiet | Received::Closed => return told,
        }
        while let Some(end) = unread.iter().position(|&byte| byte == b'\n') {
            let line: Vec<u8> = unread.drain(..=end).collect();
            told.line(&String::from_utf8_lossy(&line));
        }
    }
}

#[tokio::test]
async fn scripts_touch_only_keys_that_they_declare() {
    let Some(store) = redis("scripts_touch_only_keys_that_they_declare", &[]) else {
        return;
    };
    let mut monitor = store.connect().expect("a connection");
    monitor.line("MONITOR").expect("an answer");
    let ended = Arc::new(AtomicBool::new(false));
    let following = {
        let ended = ended.clone();
        std::thread::spawn(move || follow(monitor, &ended))
    };
    let service = Service::remote_with(&format!("redis://{}", store.addr()), &rules());
    storm(
        Place::of(&service),
        BOTH,
        CLIENTS / 10,
        "x",
        Until::Rounds(1),
    )
    .await;
    mixed::every_way(&service, true).await;
    ended.store(true, Ordering::Release);
    let told = following.join().expect("no panic");
    assert!(
        told.scripts > 1_000 && told.calls > 1_000,
        "{} {}",
        told.scripts,
        told.calls
    );
    assert_eq!(told.undeclared, [""; 0]);
}
