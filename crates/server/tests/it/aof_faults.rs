//! The append-only file when the disk is in the way, and when a master's data take the place of those it has.

use crate::aof::Folder;
use crate::harness::{Local, info, raw};
use crate::replication::{attach, wait_for, wait_for_link};
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use tollgate_testkit::process::tollgate_binary;
use tollgate_testkit::{Server, peers};

const HERE: &str = "aof_faults";

/// A server in `folder`, behind a socket there, whose files may not grow above some kilobytes until it is allowed.
fn cramped(program: &Path, first: &[&str], folder: &Folder) -> Child {
    let script = "trap '' XFSZ; ulimit -S -f 8; exec \"$0\" \"$@\"";
    Command::new("sh")
        .args(["-c", script])
        .arg(program)
        .args(first)
        .args(["--port", "0", "--unixsocket", "socket", "--dir", "."])
        .args(["--appendonly", "yes", "--appendfsync", "everysec"])
        .current_dir(&folder.0)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Lets the files of a process grow; false where there is no program for it.
fn give_room(server: &Child) -> bool {
    let pid = server.id().to_string();
    let done = Command::new("prlimit")
        .args(["--pid", &pid, "--fsize=unlimited:"])
        .status();
    done.is_ok_and(|status| status.success())
}

fn connect(folder: &Folder) -> UnixStream {
    let mut stream = None;
    wait_for("the socket", || {
        stream = UnixStream::connect(folder.0.join("socket")).ok();
        stream.is_some()
    });
    stream.unwrap()
}

fn ask(stream: &mut UnixStream, line: &str) -> String {
    stream.write_all(format!("{line}\r\n").as_bytes()).unwrap();
    let mut reply = vec![0; 4_096];
    let len = stream.read(&mut reply).unwrap();
    String::from_utf8_lossy(&reply[..len]).into_owned()
}

/// What a server says while its disk is full, and when there is room again; `None` where that cannot be tried.
fn fill_and_free(program: &Path, first: &[&str]) -> Option<Vec<String>> {
    let folder = Folder::new();
    let mut server = cramped(program, first, &folder);
    let mut client = connect(&folder);
    let mut told = vec![ask(&mut client, "SET small 1")];
    told.push(ask(
        &mut client,
        &format!("SET large {}", "x".repeat(20_000)),
    ));
    let mut refusal = String::new();
    wait_for("a refusal", || {
        refusal = ask(&mut client, "SET small 2");
        refusal.starts_with("-MISCONF")
    });
    // The system's reason depends on where the write broke off.
    told.push(refusal.rsplit_once(": ").unwrap().0.to_owned());
    told.push(ask(&mut client, "STRLEN large"));
    let state = ask(&mut client, "INFO persistence");
    told.push(state.contains("aof_last_write_status:err").to_string());
    let has_room = give_room(&server);
    if has_room {
        wait_for("it goes on", || {
            ask(&mut client, "SET small 3") == "+OK\r\n"
        });
        let state = ask(&mut client, "INFO persistence");
        told.push(state.contains("aof_last_write_status:ok").to_string());
        told.push(ask(&mut client, "DEL gone"));
    }
    client.write_all(b"SHUTDOWN NOSAVE\r\n").unwrap();
    server.wait().unwrap();
    fs::remove_file(folder.0.join("socket")).ok();
    // What was accepted while the disk was full is there.
    let mut server = Command::new(program)
        .args(first)
        .args(["--port", "0", "--unixsocket", "socket", "--dir", "."])
        .args(["--appendonly", "yes"])
        .current_dir(&folder.0)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut client = connect(&folder);
    wait_for("it has loaded", || ask(&mut client, "PING") == "+PONG\r\n");
    told.push(ask(&mut client, "GET small"));
    told.push(ask(&mut client, "STRLEN large"));
    server.kill().unwrap();
    server.wait().unwrap();
    has_room.then_some(told)
}

#[cfg(target_os = "linux")]
#[test]
fn a_disk_that_has_room_again_is_written_to_again() {
    let Some(ours) = fill_and_free(tollgate_binary().unwrap(), &["serve"]) else {
        return peers::skip(HERE, "prlimit");
    };
    assert_eq!(ours[2], "-MISCONF Errors writing to the AOF file");
    assert_eq!(ours[ours.len() - 2..], ["$1\r\n3\r\n", ":20000\r\n"]);
    let Some(program) = peers::find("redis-server") else {
        return peers::skip(HERE, "redis-server");
    };
    let theirs = fill_and_free(&program, &["--save", ""]).unwrap();
    assert_eq!(ours, theirs);
}

#[test]
fn a_rewrite_that_fails_leaves_what_there_is_and_says_so() {
    let folder = Folder::new();
    let settings = [("dir", folder.path()), ("appendonly", "yes")];
    let server = Local::start(&settings);
    let mut client = server.connect();
    raw(&mut client, "SET a 1");
    // Where the new base would be written lies something else.
    let place = folder.0.join("appendonlydir/temp-rewriteaof-bg.aof");
    fs::create_dir(&place).unwrap();
    let manifest = folder.manifest();
    for _ in 0..2 {
        raw(&mut client, "BGREWRITEAOF");
        wait_for("it fails", || {
            info(&mut client, "aof_rewrite_in_progress") == "0"
                && info(&mut client, "aof_last_bgrewrite_status") == "err"
        });
    }
    assert_eq!(folder.manifest(), manifest);
    raw(&mut client, "SET b 2");
    fs::remove_dir(&place).unwrap();
    raw(&mut client, "BGREWRITEAOF");
    wait_for("it goes well", || {
        info(&mut client, "aof_last_bgrewrite_status") == "ok"
    });
    drop((client, server));
    let again = Local::start(&settings);
    assert_eq!(
        raw(&mut again.connect(), "MGET a b"),
        "*2\r\n$1\r\n1\r\n$1\r\n2\r\n"
    );
}

#[test]
fn nobody_is_told_that_something_is_on_the_disk_when_the_system_decides_when() {
    let folder = Folder::new();
    let server = Local::start(&[
        ("dir", folder.path()),
        ("appendonly", "yes"),
        ("appendfsync", "no"),
    ]);
    let mut client = server.connect();
    raw(&mut client, "SET a 1");
    assert_eq!(raw(&mut client, "WAITAOF 1 0 50"), "*2\r\n:0\r\n:0\r\n");
    assert_eq!(raw(&mut client, "WAITAOF 0 0 50"), "*2\r\n:0\r\n:0\r\n");
    // It waits until somebody has it written.
    let mut waits = server.connect();
    raw(&mut waits, "SET a 2");
    waits.send(b"WAITAOF 1 0 0\r\n").unwrap();
    wait_for("it waits", || info(&mut client, "blocked_clients") == "1");
    raw(&mut client, "CONFIG SET appendfsync everysec");
    assert_eq!(waits.frame().unwrap(), b"*2\r\n:1\r\n:0\r\n");
}

#[test]
fn the_file_begins_anew_with_the_data_of_a_master_and_outlives_a_kill() {
    let master = Local::start(&[]);
    let mut there = master.connect();
    for number in 0..500 {
        raw(&mut there, &format!("SET key{number} {number}"));
    }
    let folder = Folder::new();
    let start = || {
        let flags = ["--dir", folder.path(), "--appendonly", "yes"];
        Server::tollgate(&flags).unwrap()
    };
    let replica = start();
    let mut here = replica.connect().unwrap();
    raw(&mut here, "SET old 1");
    let before = folder.manifest();
    attach(&mut here, master.addr);
    wait_for_link(&mut here);
    raw(&mut there, "SET later 1");
    assert_eq!(raw(&mut there, "WAIT 1 120000"), ":1\r\n");
    wait_for("all is written", || {
        folder.manifest() != before
            && info(&mut here, "aof_rewrite_in_progress") == "0"
            && info(&mut here, "aof_rewrite_scheduled") == "0"
            && info(&mut here, "aof_buffer_length") == "0"
    });
    assert_eq!(info(&mut here, "aof_enabled"), "1");
    // Killed, and alone afterwards.
    drop((here, replica));
    let again = start();
    let mut here = again.connect().unwrap();
    assert_eq!(raw(&mut here, "EXISTS old"), ":0\r\n");
    assert_eq!(
        raw(&mut here, "MGET key0 key499 later"),
        "*3\r\n$1\r\n0\r\n$3\r\n499\r\n$1\r\n1\r\n"
    );
    assert_eq!(raw(&mut here, "DBSIZE"), ":501\r\n");
}

/// Lets the second sync of `folder` by each thread of a process fail; `None` where there is no program for it.
#[cfg(target_os = "linux")]
fn break_second_sync(server: &Child, folder: &Path) -> Option<Child> {
    let mut strace = Command::new("strace")
        .args([
            "-f",
            "-e",
            "trace=fsync",
            "-e",
            "inject=fsync:error=EIO:when=2",
        ])
        .args(["-p", &server.id().to_string(), "-P"])
        .arg(folder)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .ok()?;
    let mut told = BufReader::new(strace.stderr.take()?);
    let mut line = String::new();
    // The lines before tell how it takes the path.
    while !line.contains("attached") {
        line.clear();
        if told.read_line(&mut line).is_ok_and(|len| len == 0) {
            strace.wait().ok()?;
            return None;
        }
    }
    // Nobody is to be held up who tells of what it does.
    std::thread::spawn(move || std::io::copy(&mut told, &mut std::io::sink()));
    Some(strace)
}

/// The next start reads what the manifest names, so that is where writes must go from then on.
#[cfg(target_os = "linux")]
#[test]
fn nothing_is_lost_when_the_folder_of_a_new_manifest_cannot_be_synced() {
    let folder = Folder::new();
    let start = || {
        Command::new(tollgate_binary().unwrap())
            .args([
                "serve",
                "--port",
                "0",
                "--unixsocket",
                "socket",
                "--dir",
                ".",
            ])
            .args(["--appendonly", "yes", "--appendfsync", "everysec"])
            .current_dir(&folder.0)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap()
    };
    let mut server = start();
    let mut client = connect(&folder);
    wait_for("it has loaded", || ask(&mut client, "SET a 1") == "+OK\r\n");
    let before = folder.manifest();
    let Some(mut strace) = break_second_sync(&server, &folder.0.join("appendonlydir")) else {
        server.kill().unwrap();
        server.wait().unwrap();
        return peers::skip(HERE, "strace that may trace");
    };
    ask(&mut client, "BGREWRITEAOF");
    wait_for("the manifest is another", || folder.manifest() != before);
    wait_for("the rewrite is over", || {
        ask(&mut client, "INFO persistence").contains("aof_rewrite_in_progress:0")
    });
    assert_eq!(ask(&mut client, "SET b 2"), "+OK\r\n");
    assert_eq!(ask(&mut client, "WAITAOF 1 0 0"), "*2\r\n:1\r\n:0\r\n");
    server.kill().unwrap();
    server.wait().unwrap();
    strace.wait().unwrap();
    fs::remove_file(folder.0.join("socket")).ok();
    let mut server = start();
    let mut client = connect(&folder);
    wait_for("it has loaded", || ask(&mut client, "PING") == "+PONG\r\n");
    let values = ask(&mut client, "MGET a b");
    server.kill().unwrap();
    server.wait().unwrap();
    assert_eq!(values, "*2\r\n$1\r\n1\r\n$1\r\n2\r\n");
}
