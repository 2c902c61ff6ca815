//! The append-only file when the server is killed.

use std::fs;
use std::io;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tollgate_testkit::{Client, PATIENCE, Server};
use tollgate_wire::resp::{Value, write_command};

use crate::aof::Folder;

/// Connections that write.
const WRITERS: usize = 4;
/// How often a server is killed.
const ROUNDS: u64 = 4;
/// The window outlives the test.
const WINDOW_MS: &str = "100000000";

fn start(folder: &Folder, policy: &str, more: &[&str]) -> Server {
    let own = [
        "--dir",
        folder.path(),
        "--threads",
        "2",
        "--appendonly",
        "yes",
        "--appendfsync",
        policy,
    ];
    Server::tollgate(&[&own[..], more].concat()).unwrap()
}

/// Waits until enough was acknowledged; writers may be slow.
fn wait_until(mut enough: impl FnMut() -> bool) {
    let start = Instant::now();
    while !enough() {
        assert!(start.elapsed() < PATIENCE, "nothing is acknowledged");
        thread::sleep(Duration::from_millis(1));
    }
}

/// What one connection has sent and has been told.
#[derive(Debug, Clone, Copy, Default)]
struct Told {
    sent: i64,
    acknowledged: i64,
}

/// Sends transactions in pipelines, each of which counts in three keys alike, and asks a limiter, until the server is gone.
fn write(
    mut client: Client,
    writer: usize,
    limit: u64,
    told: &Mutex<Told>,
    admitted: &AtomicU64,
) -> io::Result<()> {
    let [count, copy, list] = ["count", "copy", "list"].map(|name| format!("{name}{writer}"));
    let limit = limit.to_string();
    for depth in (1..=8).cycle() {
        let mut bytes = Vec::new();
        for _ in 0..depth {
            let next = {
                let mut told = told.lock().unwrap();
                told.sent += 1;
                told.sent.to_string()
            };
            let commands: [&[&str]; 6] = [
                &["MULTI"],
                &["INCR", &count],
                &["SET", &copy, &next],
                &["RPUSH", &list, &next],
                &["EXEC"],
                &["RL.TAKE", "limit", "FIXED", &limit, WINDOW_MS],
            ];
            for command in commands {
                let words: Vec<&[u8]> = command.iter().map(|word| word.as_bytes()).collect();
                write_command(&mut bytes, &words);
            }
        }
        client.send(&bytes)?;
        for _ in 0..depth {
            for _ in 0..4 {
                client.value()?;
            }
            let Value::Array(results) = client.value()? else {
                panic!("EXEC answers with a list")
            };
            let Value::Int(number) = results[0] else {
                panic!("INCR answers with a number")
            };
            told.lock().unwrap().acknowledged = number;
            if took(&client.value()?) {
                admitted.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
    Ok(())
}

fn took(decision: &Value) -> bool {
    matches!(decision, Value::Array(parts) if parts[0] == Value::Int(1))
}

fn number(client: &mut Client, key: &str) -> i64 {
    let value = client.call(&["GET", key]).unwrap();
    let text = value
        .as_bytes()
        .map(|text| String::from_utf8_lossy(text).into_owned());
    text.map_or(0, |text| text.parse().unwrap())
}

/// Kills servers while several connections write. Whatever there is afterwards is a prefix of what each has sent; with
/// `loses_nothing` it has all that was acknowledged.
fn kill_again_and_again(policy: &str, more: &[&str], rewrites: bool, loses_nothing: bool) {
    let folder = Folder::new();
    let told: Vec<Mutex<Told>> = (0..WRITERS).map(|_| Mutex::default()).collect();
    let admitted = AtomicU64::new(0);
    // About half of what the rounds ask for.
    let limit = ROUNDS * 150;
    for round in 0..=ROUNDS {
        let server = start(&folder, policy, more);
        let mut client = server.connect().unwrap();
        for (writer, told) in told.iter().enumerate() {
            let mut told = told.lock().unwrap();
            let found = number(&mut client, &format!("count{writer}"));
            assert!(found <= told.sent, "{found} of {told:?}");
            assert!(
                !loses_nothing || found >= told.acknowledged,
                "{found} of {told:?}"
            );
            assert_eq!(number(&mut client, &format!("copy{writer}")), found);
            let list = client
                .call(&["LRANGE", &format!("list{writer}"), "0", "-1"])
                .unwrap();
            let expected = (1..=found).map(|number| Value::Bulk(number.to_string().into_bytes()));
            assert_eq!(list, Value::Array(expected.collect()));
            *told = Told {
                sent: found,
                acknowledged: found,
            };
        }
        if round == ROUNDS {
            let take = ["RL.TAKE", "limit", "FIXED", &limit.to_string(), WINDOW_MS];
            let mut after = 0;
            while took(&client.call(&take).unwrap()) {
                after += 1;
            }
            let before = admitted.load(Ordering::Relaxed);
            assert!(
                !loses_nothing || before + after <= limit,
                "{before} and {after} of {limit}"
            );
            return;
        }
        thread::scope(|scope| {
            for (writer, told) in told.iter().enumerate() {
                let client = server.connect().unwrap();
                let admitted = &admitted;
                // It ends with the connection.
                scope.spawn(move || write(client, writer, limit, told, admitted).ok());
            }
            let goal = 20 + round as i64 * 7;
            let began: Vec<i64> = told
                .iter()
                .map(|told| told.lock().unwrap().acknowledged)
                .collect();
            wait_until(|| {
                if rewrites {
                    client.call(&["BGREWRITEAOF"]).unwrap();
                }
                let far = |(told, began): (&Mutex<Told>, &i64)| {
                    told.lock().unwrap().acknowledged >= began + goal
                };
                told.iter().zip(&began).all(far)
            });
            drop(server);
        });
    }
}

#[test]
fn with_always_all_that_was_acknowledged_is_there() {
    kill_again_and_again("always", &[], false, true);
}

#[test]
fn a_kill_while_the_file_is_made_anew_loses_nothing() {
    kill_again_and_again("always", &[], true, true);
    kill_again_and_again("always", &["--aof-use-rdb-preamble", "no"], true, true);
}

#[test]
fn with_everysec_what_is_there_is_a_prefix() {
    kill_again_and_again("everysec", &[], true, false);
    kill_again_and_again("no", &["--aof-timestamp-enabled", "yes"], true, false);
}

/// The states in which a crash can leave the folder while the file is made anew.
#[test]
fn every_state_between_two_files_is_one_of_them() {
    let folder = Folder::new();
    let server = start(&folder, "always", &[]);
    let mut client = server.connect().unwrap();
    for number in 0..50 {
        client
            .call(&["RPUSH", "list", &number.to_string()])
            .unwrap();
    }
    drop(server);
    let at = |name: &str| folder.0.join("appendonlydir").join(name);
    let old = ["appendonly.aof.1.base.rdb", "appendonly.aof.1.incr.aof"];
    let kept: Vec<Vec<u8>> = old.iter().map(|name| fs::read(at(name)).unwrap()).collect();
    let old_manifest = folder.manifest();
    // The next one, of the same data.
    let server = start(&folder, "always", &[]);
    let mut client = server.connect().unwrap();
    client.call(&["BGREWRITEAOF"]).unwrap();
    wait_until(|| {
        folder
            .manifest()
            .contains("appendonly.aof.2.incr.aof seq 2 type i")
    });
    wait_until(|| {
        !folder
            .files()
            .iter()
            .any(|name| name.starts_with("appendonly.aof.1"))
    });
    drop(server);
    let new = ["appendonly.aof.2.base.rdb", "appendonly.aof.2.incr.aof"];
    let manifest = folder.manifest();
    let made: Vec<Vec<u8>> = new.iter().map(|name| fs::read(at(name)).unwrap()).collect();
    let with_history = format!(
        "file {} seq 2 type b\nfile {} seq 1 type h\nfile {} seq 1 type h\nfile {} seq 2 type i\n",
        new[0], old[0], old[1], new[1]
    );
    for (what, state) in [
        ("temporary files alone", &old_manifest),
        ("the new files under their names", &old_manifest),
        ("old files that are history", &with_history),
        ("old files that are forgotten", &manifest),
    ] {
        for (name, bytes) in old.iter().zip(&kept).chain(new.iter().zip(&made)) {
            fs::write(at(name), bytes).unwrap();
        }
        if what == "temporary files alone" {
            fs::rename(at(new[0]), at("temp-rewriteaof-bg.aof")).unwrap();
            fs::write(at("temp-rewriteaof-bg.aof"), "REDIS0010half").unwrap();
            fs::rename(at(new[1]), at("temp-appendonly.aof.incr")).unwrap();
        }
        fs::write(at("temp-1-appendonly.aof.manifest"), "file half").unwrap();
        fs::write(at("appendonly.aof.manifest"), state).unwrap();
        for round in 0..2 {
            let server = start(&folder, "always", &[]);
            let mut client = server.connect().unwrap();
            assert_eq!(
                client.call(&["LLEN", "list"]).unwrap(),
                Value::Int(50),
                "{what}, {round}"
            );
            client.call(&["BGREWRITEAOF"]).unwrap();
            wait_until(|| {
                let facts = client.call(&["INFO", "persistence"]).unwrap();
                let facts = String::from_utf8_lossy(facts.as_bytes().unwrap()).into_owned();
                assert!(facts.contains("aof_last_bgrewrite_status:ok"), "{facts}");
                facts.contains("aof_rewrite_in_progress:0")
            });
        }
    }
}
