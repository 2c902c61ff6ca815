//! Masters that are down, hang, send nonsense, or die in the middle: a replica keeps what it has and comes back.

use crate::harness::{Local, info, raw, text};
use crate::replication::wait_for;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use tollgate_testkit::Client;
use tollgate_testkit::process::temp_dir;

/// A name of a history.
const ID: &str = "0123456789abcdef0123456789abcdef01234567";

/// What a master does after the handshake.
type Act = Arc<dyn Fn(&mut TcpStream) + Send + Sync>;

/// A server that answers the words of a handshake, then acts; and counts its connections.
struct Pretender {
    port: u16,
    seen: Arc<AtomicUsize>,
}

impl Pretender {
    fn start(answer: &'static str, act: Act) -> Pretender {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let seen = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&seen);
        // It ends with the process of the tests.
        thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { return };
                if greet(&mut stream, answer).is_some() {
                    act(&mut stream);
                }
                count.fetch_add(1, Ordering::SeqCst);
            }
        });
        Pretender { port, seen }
    }

    fn attach(&self, client: &mut Client) {
        let reply = raw(client, &format!("REPLICAOF 127.0.0.1 {}", self.port));
        assert_eq!(reply, "+OK\r\n");
    }

    /// Waits until it has been tried so often.
    fn tried(&self, times: usize) {
        wait_for("the master is tried again", || {
            self.seen.load(Ordering::SeqCst) >= times
        });
    }
}

/// Answers every line of commands until PSYNC, and that with `answer`.
fn greet(stream: &mut TcpStream, answer: &str) -> Option<()> {
    let mut lines = BufReader::new(stream.try_clone().ok()?).lines();
    loop {
        let line = lines.next()?.ok()?;
        match line.as_str() {
            "PING" => stream.write_all(b"+PONG\r\n").ok()?,
            "listening-port" => stream.write_all(b"+OK\r\n").ok()?,
            "psync2" => stream.write_all(b"-ERR what\r\n").ok()?,
            "PSYNC" => {
                // Its two arguments.
                for _ in 0..4 {
                    lines.next()?.ok()?;
                }
                return stream.write_all(answer.as_bytes()).ok();
            }
            _ => {}
        }
    }
}

fn full() -> &'static str {
    "+FULLRESYNC 0123456789abcdef0123456789abcdef01234567 7\r\n"
}

/// An RDB file with one key, as redis-server 7.0 writes it but without a checksum.
fn data() -> Vec<u8> {
    b"REDIS0010\xfe\x00\x00\x03new\x011\xff\0\0\0\0\0\0\0\0".to_vec()
}

/// A replica with one key, and a connection to it.
fn replica() -> (Local, Client) {
    let replica = Local::start(&[]);
    let mut client = replica.connect();
    client.line("SET old 1").unwrap();
    (replica, client)
}

fn keeps_old_data(answer: &'static str, sent: Vec<u8>) {
    let (_replica, mut client) = replica();
    let master = Pretender::start(
        answer,
        Arc::new(move |stream| drop(stream.write_all(&sent))),
    );
    master.attach(&mut client);
    master.tried(2);
    assert_eq!(raw(&mut client, "GET old"), "$1\r\n1\r\n");
    assert_eq!(info(&mut client, "master_link_status"), "down");
    let told = text(&mut client, "INFO replication");
    assert!(told.contains("master_link_error:"), "{told}");
    assert_eq!(raw(&mut client, "REPLICAOF NO ONE"), "+OK\r\n");
    assert_eq!(raw(&mut client, "SET old 2"), "+OK\r\n");
}

fn with_length(data: &[u8]) -> Vec<u8> {
    [format!("${}\r\n", data.len()).as_bytes(), data].concat()
}

#[test]
fn nonsense_leaves_the_data_alone() {
    keeps_old_data("+HELLO\r\n", Vec::new());
    keeps_old_data(
        "-NOMASTERLINK Can't SYNC while not connected with my master\r\n",
        Vec::new(),
    );
    keeps_old_data("+CONTINUE abc", Vec::new());
    keeps_old_data(full(), b"HTTP/1.1 400 Bad Request\r\n".to_vec());
    keeps_old_data(full(), b"$99999999999999999999\r\n".to_vec());
}

#[test]
fn broken_data_leave_the_data_alone() {
    // Cut off, announced much longer than they are, not an RDB file, cut in itself, and with a wrong checksum.
    keeps_old_data(full(), b"$100\r\nREDIS0010".to_vec());
    keeps_old_data(full(), [b"$9000000000000\r\n", &data()[..]].concat());
    keeps_old_data(full(), with_length(b"no file of that kind"));
    keeps_old_data(full(), with_length(&data()[..20]));
    let mut wrong = data();
    let last = wrong.len() - 1;
    wrong[last] = 1;
    keeps_old_data(full(), with_length(&wrong));
    let mark = [b'm'; 40];
    let cut = [b"$EOF:", &mark[..], b"\r\n", &data()[..], &mark[..39]].concat();
    keeps_old_data(full(), cut);
}

#[test]
fn data_that_cannot_be_loaded_leave_the_append_only_file_alone() {
    let folder = temp_dir().unwrap();
    let settings = [("appendonly", "yes"), ("dir", folder.to_str().unwrap())];
    let attach_and_fail = |client: &mut Client| {
        // A library of functions whose code is none: only who loads it sees that.
        let data = b"REDIS0010\xf5\x11#!lua name=a\nnone\xff\0\0\0\0\0\0\0\0";
        let sent = with_length(data);
        let act = Arc::new(move |stream: &mut TcpStream| drop(stream.write_all(&sent)));
        let master = Pretender::start(full(), act);
        master.attach(client);
        wait_for("the data cannot be loaded", || {
            let told = text(client, "INFO replication");
            told.contains("could not be loaded") && info(client, "loading") == "0"
        });
        master.tried(2);
    };
    {
        let replica = Local::start(&settings);
        let mut client = replica.connect();
        client.line("SET old 1").unwrap();
        attach_and_fail(&mut client);
        assert_eq!(info(&mut client, "aof_enabled"), "0");
    }
    let replica = Local::start(&settings);
    let mut client = replica.connect();
    assert_eq!(raw(&mut client, "GET old"), "$1\r\n1\r\n");
    attach_and_fail(&mut client);
    // A master of its own again: what there is now is kept. It may be at the data once more, and refuses until it is not.
    wait_for("it is a master", || {
        raw(&mut client, "REPLICAOF NO ONE") == "+OK\r\n"
    });
    assert_eq!(info(&mut client, "aof_enabled"), "1");
    client.line("SET later 1").unwrap();
    // Until its first base is whole, the file of before is in force.
    wait_for("the file has begun anew", || {
        info(&mut client, "aof_pending_rewrite") == "0"
            && info(&mut client, "aof_rewrite_in_progress") == "0"
    });
    drop((client, replica));
    let replica = Local::start(&settings);
    let both = "*2\r\n$-1\r\n$1\r\n1\r\n";
    assert_eq!(raw(&mut replica.connect(), "MGET old later"), both);
    drop(replica);
    std::fs::remove_dir_all(folder).unwrap();
}

#[test]
fn a_stream_that_is_no_commands_ends_the_link_and_the_data_are_asked_for_again() {
    let (_replica, mut client) = replica();
    let sent = [
        with_length(&data()),
        b"*1\r\n$4\r\nPING\r\n*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n1\r\n*1\r\n:5\r\n".to_vec(),
    ]
    .concat();
    let master = Pretender::start(
        full(),
        Arc::new(move |stream| drop(stream.write_all(&sent))),
    );
    master.attach(&mut client);
    master.tried(3);
    // It is loaded again and again.
    let all = "*3\r\n$1\r\n1\r\n$-1\r\n$1\r\n1\r\n";
    wait_for("all is there", || raw(&mut client, "MGET new old a") == all);
    assert_eq!(info(&mut client, "master_replid"), ID);
    // Seven bytes before the data, and the two commands that were whole.
    let applied = (7 + 14 + 27).to_string();
    wait_for("all is counted", || {
        info(&mut client, "slave_repl_offset") == applied
    });
}

#[test]
fn a_command_that_cannot_be_applied_is_told_and_counted_and_the_stream_goes_on() {
    let (_replica, mut client) = replica();
    let sent = [
        with_length(&data()),
        b"*1\r\n$6\r\nNOSUCH\r\n*3\r\n$5\r\nLPUSH\r\n$3\r\nnew\r\n$1\r\n1\r\n*2\r\n$8\r\nSHUTDOWN\r\n$6\r\nNOSAVE\r\n".to_vec(),
        b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n1\r\n".to_vec(),
    ]
    .concat();
    let act = Arc::new(move |stream: &mut TcpStream| {
        drop(stream.write_all(&sent));
        // Until the replica goes.
        let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
        while let Some(Ok(_)) = lines.next() {}
    });
    let master = Pretender::start(full(), act);
    master.attach(&mut client);
    wait_for("the last command is applied", || {
        raw(&mut client, "GET a") == "$1\r\n1\r\n"
    });
    assert_eq!(info(&mut client, "master_link_status"), "up");
    let told = text(&mut client, "INFO replication");
    assert!(
        told.contains("master_link_error:a command of the master"),
        "{told}"
    );
    assert_eq!(raw(&mut client, "REPLICAOF NO ONE"), "+OK\r\n");
}

#[test]
fn nobody_listens_and_nobody_answers() {
    let (replica, mut client) = replica();
    assert_eq!(raw(&mut client, "REPLICAOF 127.0.0.1 1"), "+OK\r\n");
    wait_for("the refusal is told", || {
        text(&mut client, "INFO replication")
            .contains("master_link_error:connecting to 127.0.0.1:1")
    });
    // One that takes connections and says nothing.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = silent.local_addr().unwrap().port();
    assert_eq!(
        raw(&mut client, &format!("REPLICAOF 127.0.0.1 {port}")),
        "+OK\r\n"
    );
    wait_for("it is asked", || {
        info(&mut client, "master_link_status") == "down" && {
            raw(&mut client, "ROLE").contains("handshake")
        }
    });
    assert_eq!(raw(&mut client, "GET old"), "$1\r\n1\r\n");
    assert_eq!(raw(&mut client, "REPLICAOF NO ONE"), "+OK\r\n");
    assert_eq!(
        raw(&mut client, "ROLE"),
        "*3\r\n$6\r\nmaster\r\n:0\r\n*0\r\n"
    );
    drop(replica);
}
