//! A statsd that adds up what it is sent.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

/// How long a wait for a datagram lasts before it is asked whether there is more to wait for.
const LOOK: Duration = Duration::from_millis(100);

#[derive(Debug, Default)]
pub(super) struct Received {
    pub(super) counters: BTreeMap<String, u64>,
    pub(super) gauges: BTreeSet<String>,
    pub(super) timers: BTreeMap<String, u64>,
}

/// Listens over TCP and UDP on one port until it is dropped.
pub(super) struct Statsd {
    addr: SocketAddr,
    received: Arc<Mutex<Received>>,
    stop: Arc<AtomicBool>,
}

impl Statsd {
    pub(super) fn listen() -> Self {
        let (tcp, udp) = loop {
            let tcp = TcpListener::bind("127.0.0.1:0").expect("a free port");
            if let Ok(udp) = UdpSocket::bind(tcp.local_addr().expect("bound")) {
                break (tcp, udp);
            }
        };
        let statsd = Self {
            addr: tcp.local_addr().expect("bound"),
            received: Arc::default(),
            stop: Arc::default(),
        };
        let (received, stop) = (statsd.received.clone(), statsd.stop.clone());
        thread::spawn(move || {
            for stream in tcp.incoming().map_while(Result::ok) {
                if stop.load(Ordering::SeqCst) {
                    return;
                }
                let received = received.clone();
                // It ends with the program that connected.
                thread::spawn(move || read(&received, BufReader::new(stream)));
            }
        });
        let (received, stop) = (statsd.received.clone(), statsd.stop.clone());
        udp.set_read_timeout(Some(LOOK)).expect("a socket");
        thread::spawn(move || {
            let mut datagram = [0; 65_536];
            while !stop.load(Ordering::SeqCst) {
                if let Ok(len) = udp.recv(&mut datagram) {
                    read(&received, &datagram[..len]);
                }
            }
        });
        statsd
    }

    pub(super) fn addr(&self) -> SocketAddr {
        self.addr
    }

    pub(super) fn look<T>(&self, look: impl FnOnce(&Received) -> T) -> T {
        look(&self.received.lock().expect("no reader panics"))
    }

    /// What counters have come to that pass, by name.
    pub(super) fn counters(&self, passes: impl Fn(&str) -> bool) -> BTreeMap<String, u64> {
        self.look(|received| {
            let counters = received.counters.iter();
            counters
                .filter(|(name, _)| passes(name))
                .map(|(name, value)| (name.clone(), *value))
                .collect()
        })
    }
}

impl Drop for Statsd {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::SeqCst);
        // Wakes the listener, which then ends.
        TcpStream::connect(self.addr).ok();
    }
}

/// Lines of `name:value|kind` with what may follow.
fn read(received: &Mutex<Received>, lines: impl BufRead) {
    for line in lines.lines().map_while(Result::ok) {
        let (name, rest) = line.split_once(':').expect("name:value|kind");
        let mut parts = rest.split('|');
        let value = parts.next().expect("a value");
        let kind = parts.next().expect("a kind");
        let (mut times, mut tags) = (1.0, String::new());
        for part in parts {
            match part.split_at_checked(1).unwrap_or_default() {
                ("@", rate) => times = 1.0 / rate.parse::<f64>().expect("a rate"),
                ("#", given) => tags = format!("#{given}"),
                // Where DogStatsD's client says which container it runs in.
                _ => {}
            }
        }
        let name = format!("{name}{tags}");
        let mut received = received.lock().expect("no reader panics");
        match kind {
            "c" => {
                let value: u64 = value.parse().expect("a whole number");
                *received.counters.entry(name).or_default() += value;
            }
            "g" => {
                received.gauges.insert(name);
            }
            "ms" => *received.timers.entry(name).or_default() += times.round() as u64,
            other => panic!("kind {other}"),
        }
    }
}
