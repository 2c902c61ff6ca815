//! What sockets do to a loop.

use crate::lines::{BIG, OPTIONS, Server, Setup};
use crate::no_process_starts;
use std::io::{BufRead, BufReader, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::sync::atomic::Ordering::SeqCst;
use tollgate_net::Listener;
use tollgate_testkit::eventually;
use tollgate_testkit::process::{free_port, temp_root};

const SECOND: i64 = 1_000_000_000;

fn read_to_end(mut from: impl Read) -> Vec<u8> {
    let mut all = Vec::new();
    match from.read_to_end(&mut all) {
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::ConnectionReset => {}
        Err(error) => panic!("{error}"),
    }
    all
}

#[test]
fn lines_split_at_every_byte_are_echoed() {
    let server = Server::start(&Setup::default());
    let mut stream = server.connect();
    stream.set_nodelay(true).unwrap();
    for byte in b"hello\nworld\n" {
        stream.write_all(&[*byte]).unwrap();
    }
    let mut lines = BufReader::new(stream).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "hello");
    assert_eq!(lines.next().unwrap().unwrap(), "world");
    server.stop(SECOND).unwrap();
}

#[test]
fn a_line_larger_than_every_buffer_comes_back_whole() {
    let server = Server::start(&Setup {
        limit: 64 << 20,
        ..Setup::default()
    });
    let mut stream = server.connect();
    let mut line: Vec<u8> = (0..5_000_000u32).map(|i| b'a' + (i % 26) as u8).collect();
    line.push(b'\n');
    let mut writer = stream.try_clone().unwrap();
    let sent = line.clone();
    let sender = std::thread::spawn(move || writer.write_all(&sent).unwrap());
    let mut back = vec![0; line.len()];
    stream.read_exact(&mut back).unwrap();
    assert!(back == line);
    sender.join().unwrap();
    server.stop(SECOND).unwrap();
}

#[test]
fn what_follows_a_large_reply_comes_behind_it() {
    let server = Server::start(&Setup {
        limit: 64 << 20,
        ..Setup::default()
    });
    let mut stream = server.connect();
    let mut lines = vec![b'x'; 20_000_000];
    for number in 0..100 {
        lines.extend_from_slice(format!("\nline {number}").as_bytes());
        if number % 10 == 0 {
            lines.resize(lines.len() + 3_000_000, b'y');
        }
    }
    lines.push(b'\n');
    let mut writer = stream.try_clone().unwrap();
    let sent = lines.clone();
    let sender = std::thread::spawn(move || writer.write_all(&sent).unwrap());
    let mut back = vec![0; lines.len()];
    for part in back.chunks_mut(100_000) {
        stream.read_exact(part).unwrap();
    }
    assert!(back == lines);
    sender.join().unwrap();
    server.stop(SECOND).unwrap();
}

/// More connections than a loop has buffers for at first, each with more than one takes.
#[test]
fn connections_beyond_the_read_buffers_are_all_answered() {
    const CONNECTIONS: usize = 200;
    const ROUNDS: usize = 3;
    let server = Server::start(&Setup::default());
    let mut streams: Vec<_> = (0..CONNECTIONS).map(|_| server.connect()).collect();
    let mut line = vec![b'x'; 40_000];
    line.push(b'\n');
    let mut reply = vec![0; line.len()];
    for round in 0..ROUNDS {
        line[round] = b'0' + round as u8;
        for stream in &mut streams {
            stream.write_all(&line).unwrap();
        }
        for stream in &mut streams {
            stream.read_exact(&mut reply).unwrap();
            assert!(reply == line, "round {round}");
        }
    }
    drop(streams);
    server.stop(SECOND).unwrap();
}

#[test]
fn a_pipeline_with_the_end_of_the_stream_behind_it_is_answered_whole() {
    let server = Server::start(&Setup::default());
    for _ in 0..50 {
        let mut stream = server.connect();
        let text = "line\n".repeat(10_000);
        stream.write_all(text.as_bytes()).unwrap();
        stream.shutdown(Shutdown::Write).unwrap();
        assert_eq!(read_to_end(&stream).len(), text.len());
    }
    eventually("all closed", || server.seen.open.load(SeqCst) == 0);
    server.stop(SECOND).unwrap();
}

#[test]
fn a_reader_that_never_reads_costs_no_more_than_the_limit() {
    let setup = Setup {
        limit: 4 << 20,
        ..Setup::default()
    };
    let server = Server::start(&setup);
    let mut stream = server.connect();
    stream.write_all("big\n".repeat(1_000).as_bytes()).unwrap();
    eventually("output is held", || {
        server.seen.most_output.load(SeqCst) > setup.limit
    });
    // Another client is served meanwhile.
    let mut other = server.connect();
    other.write_all(b"hello\n").unwrap();
    other.read_exact(&mut [0; 6]).unwrap();
    assert!(server.seen.most_output.load(SeqCst) <= setup.limit + 2 * BIG);
    assert!(server.seen.ran.load(SeqCst) < 100, "its commands wait");
    // Once it reads, everything arrives.
    let mut total = 0;
    let mut buffer = vec![0; 1 << 20];
    while total < 1_000 * BIG {
        let n = stream.read(&mut buffer).unwrap();
        assert!(n > 0);
        total += n;
    }
    assert_eq!(total, 1_000 * BIG);
    assert!(server.seen.most_output.load(SeqCst) <= setup.limit + 2 * BIG);
    server.stop(SECOND).unwrap();
}

#[test]
fn commands_after_a_close_are_dropped() {
    let server = Server::start(&Setup::default());
    let mut stream = server.connect();
    stream.write_all(b"a\nquit\nb\n").unwrap();
    assert_eq!(read_to_end(&stream), b"a\nbye\n");
    eventually("closed", || server.seen.open.load(SeqCst) == 0);
    server.stop(SECOND).unwrap();
}

/// Who waits for the end of the answers gets it at once, and may still send.
#[test]
fn a_farewell_ends_the_answers_and_not_the_connection() {
    let server = Server::start(&Setup::default());
    for big in [false, true] {
        let mut stream = server.connect();
        let ran = server.seen.ran.load(SeqCst);
        if big {
            stream.write_all(b"big\n").unwrap();
        }
        stream.write_all(b"part\n").unwrap();
        let all = read_to_end(&stream);
        assert!(all.ends_with(b"bye\n"));
        assert_eq!(all.len(), 4 + if big { BIG } else { 0 });
        // It is still read from.
        stream.write_all(b"note\nnote\n").unwrap();
        let runs = if big { 4 } else { 3 };
        eventually("what follows is read", || {
            server.seen.ran.load(SeqCst) == ran + runs
        });
        assert_eq!(server.seen.open.load(SeqCst), 1);
        drop(stream);
        eventually("it is closed", || server.seen.open.load(SeqCst) == 0);
    }
    server.stop(SECOND).unwrap();
}

#[test]
fn a_close_comes_behind_replies_that_the_socket_did_not_take_at_once() {
    let server = Server::start(&Setup {
        limit: 64 << 20,
        ..Setup::default()
    });
    let mut stream = server.connect();
    let text = format!("{}quit\nb\n", "big\n".repeat(20));
    stream.write_all(text.as_bytes()).unwrap();
    eventually("told to close", || server.seen.ran.load(SeqCst) > 20);
    assert!(read_to_end(&stream).ends_with(b"bye\n"));
    let mut stream = server.connect();
    stream.write_all(text.as_bytes()).unwrap();
    assert_eq!(read_to_end(&stream).len(), 20 * BIG + 4);
    eventually("closed", || server.seen.open.load(SeqCst) == 0);
    server.stop(SECOND).unwrap();
}

#[test]
#[cfg(target_os = "linux")]
fn the_last_reply_and_the_end_come_together() {
    let server = Server::start(&Setup::default());
    for _ in 0..100 {
        let mut stream = server.connect();
        stream.write_all(b"quit\n").unwrap();
        stream.read_exact(&mut [0; 4]).unwrap();
        stream.set_nonblocking(true).unwrap();
        assert_eq!(stream.peek(&mut [0]).unwrap(), 0);
    }
    server.stop(SECOND).unwrap();
}

#[test]
fn resets_leave_no_connection_behind() {
    let server = Server::start(&Setup::default());
    for _ in 0..100 {
        let stream = socket2::Socket::from(server.connect());
        stream.send(b"big\nbig\nbig\n").unwrap();
        stream.set_linger(Some(std::time::Duration::ZERO)).unwrap();
    }
    eventually("all closed", || server.seen.open.load(SeqCst) == 0);
    server.stop(SECOND).unwrap();
}

#[test]
fn an_address_is_free_again_as_soon_as_the_server_has_ended() {
    // One that the system gave could be another test's as soon as it is free.
    let port = free_port().unwrap();
    let _alone = no_process_starts();
    for _ in 0..50 {
        let listener = Listener::tcp([127, 0, 0, 1].into(), port, OPTIONS).unwrap();
        let server = Server::start_on(&Setup::default(), vec![listener]);
        let mut stream = server.connect();
        stream.write_all(b"hello\n").unwrap();
        stream.read_exact(&mut [0; 6]).unwrap();
        server.stop(SECOND).unwrap();
    }
}

#[test]
fn a_refused_connection_reads_why() {
    let server = Server::start(&Setup {
        most: 2,
        ..Setup::default()
    });
    let kept: Vec<_> = (0..2).map(|_| server.connect()).collect();
    eventually("two are open", || server.seen.open.load(SeqCst) == 2);
    assert_eq!(read_to_end(server.connect()), b"full\n");
    drop(kept);
    eventually("closed", || server.seen.open.load(SeqCst) == 0);
    let mut stream = server.connect();
    stream.write_all(b"again\n").unwrap();
    stream.read_exact(&mut [0; 6]).unwrap();
    server.stop(SECOND).unwrap();
}

#[test]
fn messages_reach_a_connection_and_can_end_it() {
    let server = Server::start(&Setup::default());
    let stream = server.connect();
    // It is counted a moment before.
    eventually("it is known", || server.seen.last.lock().unwrap().is_some());
    let at = server.seen.last.lock().unwrap().unwrap();
    server.mailboxes.message(at, Some("news\n")).unwrap();
    server.mailboxes.message(at, None).unwrap();
    assert_eq!(read_to_end(&stream), b"news\n");
    server.mailboxes.message(at, Some("too late\n")).unwrap();
    server.stop(SECOND).unwrap();
}

/// Nothing is run of a connection that is left, nothing is lost of it, and all comes in its order.
#[test]
fn what_a_connection_sends_while_it_is_left_is_run_afterwards() {
    const LINES: usize = 20_000;
    let server = Server::start(&Setup {
        limit: 64 << 20,
        ..Setup::default()
    });
    let mut stream = server.connect();
    let mut all = BufReader::new(stream.try_clone().unwrap()).lines();
    let (mut run, mut next) = (0, 0);
    // At once with the word, byte by byte, and more than a socket holds.
    for (lines, at_once) in [(2, 1_000), (3, 1), (LINES, 1_000), (0, 1), (40, 7)] {
        let mut text = String::from("leave\n");
        for _ in 0..lines {
            text.push_str(&format!("line {next}\n"));
            next += 1;
        }
        let mut writer = stream.try_clone().unwrap();
        let sender = std::thread::spawn(move || {
            for piece in text.as_bytes().chunks(at_once) {
                writer.write_all(piece).unwrap();
            }
        });
        run += 1;
        eventually("left", || server.seen.ran.load(SeqCst) == run);
        if lines < LINES {
            sender.join().unwrap();
        }
        assert_eq!(
            server.seen.ran.load(SeqCst),
            run,
            "lines are run while it is left"
        );
        let at = server.seen.last.lock().unwrap().unwrap();
        server.mailboxes.message(at, Some("go\n")).unwrap();
        assert_eq!(all.next().unwrap().unwrap(), "go");
        for line in next - lines..next {
            assert_eq!(all.next().unwrap().unwrap(), format!("line {line}"));
        }
        run += lines;
    }
    // Whoever goes meanwhile is noticed at the end at the latest.
    stream.write_all(b"leave\nline\n").unwrap();
    eventually("left", || server.seen.ran.load(SeqCst) == run + 1);
    drop((stream, all));
    let at = server.seen.last.lock().unwrap().unwrap();
    server.mailboxes.message(at, Some("go\n")).unwrap();
    eventually("gone", || server.seen.open.load(SeqCst) == 0);
    server.stop(SECOND).unwrap();
}

#[test]
fn silent_connections_are_closed_when_asked() {
    let server = Server::start(&Setup {
        idle_ns: Some(SECOND / 20),
        ..Setup::default()
    });
    assert_eq!(read_to_end(server.connect()), b"");
    server.stop(SECOND).unwrap();
}

/// A server, and a client that reads nothing of what is held for it.
fn with_deaf_client() -> (Server, TcpStream) {
    let server = Server::start(&Setup {
        limit: 1 << 30,
        ..Setup::default()
    });
    let mut deaf = server.connect();
    deaf.write_all("big\n".repeat(100).as_bytes()).unwrap();
    eventually("output is held", || {
        server.seen.most_output.load(SeqCst) > 0
    });
    (server, deaf)
}

#[test]
fn stopping_answers_what_has_arrived_whoever_else_does_not_read() {
    let (server, deaf) = with_deaf_client();
    let mut readers = [server.connect(), server.connect()];
    for reader in &mut readers {
        reader.write_all(b"first words\n").unwrap();
        reader.read_exact(&mut [0; 12]).unwrap();
        reader.write_all(b"last words\n").unwrap();
    }
    // Far more than it takes.
    let stopping = std::thread::spawn(move || server.stop(3_600 * SECOND).unwrap());
    for reader in readers {
        assert_eq!(read_to_end(reader), b"last words\n");
    }
    drop(deaf);
    stopping.join().unwrap();
}

#[test]
fn who_does_not_read_is_dropped_when_the_time_to_stop_is_over() {
    let (server, deaf) = with_deaf_client();
    server.stop(SECOND / 5).unwrap();
    assert!(read_to_end(&deaf).len() < 100 * BIG);
}

#[test]
fn unix_socket_is_served_and_removed() {
    let path = temp_root().join(format!("tollgate-net-{}.sock", std::process::id()));
    // A socket file nobody listens on is left by a crash; it must not be in the way.
    drop(std::os::unix::net::UnixListener::bind(&path).unwrap());
    let listener = Listener::unix(&path, Some(0o700), OPTIONS).unwrap();
    let taken = Listener::unix(&path, None, OPTIONS).unwrap_err();
    assert!(
        taken.to_string().ends_with("the address is already in use"),
        "{taken}"
    );
    let server = Server::start_on(&Setup::default(), vec![listener]);
    let mut stream = UnixStream::connect(&path).unwrap();
    stream.write_all(b"hello\n").unwrap();
    stream.read_exact(&mut [0; 6]).unwrap();
    server.stop(SECOND).unwrap();
    assert!(!path.exists());
}

#[test]
fn only_an_empty_file_makes_way_for_a_unix_socket() {
    let path = temp_root().join(format!("tollgate-net-{}.file", std::process::id()));
    std::fs::write(&path, "text").unwrap();
    let kept = Listener::unix(&path, None, OPTIONS).unwrap_err();
    assert!(kept.to_string().ends_with("is in the way"), "{kept}");
    assert_eq!(std::fs::read(&path).unwrap(), b"text");
    // As programs leave one that make a name for a socket.
    std::fs::write(&path, "").unwrap();
    drop(Listener::unix(&path, None, OPTIONS).unwrap());
    assert!(!path.exists());
}

#[test]
fn connections_are_spread_over_the_loops() {
    let server = Server::start(&Setup {
        threads: 4,
        ..Setup::default()
    });
    let mut streams: Vec<_> = (0..64).map(|_| server.connect()).collect();
    for stream in &mut streams {
        stream.write_all(b"x\n").unwrap();
        stream.read_exact(&mut [0; 2]).unwrap();
    }
    eventually("open", || server.seen.open.load(SeqCst) == 64);
    drop(streams);
    eventually("closed", || server.seen.open.load(SeqCst) == 0);
    server.stop(SECOND).unwrap();
}

#[test]
fn a_port_in_use_is_told_in_words() {
    let first = Listener::tcp("127.0.0.1".parse().unwrap(), 0, OPTIONS).unwrap();
    let tollgate_net::PeerAddress::Tcp(address) = *first.address() else {
        panic!("not TCP")
    };
    let error = Listener::tcp(address.ip(), address.port(), OPTIONS).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("cannot listen on {address}: the address is already in use")
    );
}
