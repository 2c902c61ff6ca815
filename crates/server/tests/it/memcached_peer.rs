//! Memcached's protocol against a real memcached, byte for byte.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use tollgate_testkit::PATIENCE;
use tollgate_testkit::{peers, process::free_port};

use crate::harness::{Local, eventually};

/// What to send so that the end of all answers before it shows.
const END: &[u8] = b"mn\r\n";
const ENDED: &[u8] = b"MN\r\n";

/// A connection that speaks Memcached's protocol.
pub(crate) struct Memcached(TcpStream);

impl Memcached {
    pub(crate) fn connect(addr: SocketAddr) -> Memcached {
        let stream = TcpStream::connect(addr).unwrap();
        let patience = Some(PATIENCE);
        stream.set_read_timeout(patience).unwrap();
        stream.set_write_timeout(patience).unwrap();
        Memcached(stream)
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).unwrap();
    }

    /// Reads until what was read ends so.
    pub(crate) fn read_until(&mut self, end: &[u8]) -> Vec<u8> {
        let mut answer = Vec::new();
        let mut part = vec![0; 1 << 16];
        while !answer.ends_with(end) {
            let len = self.0.read(&mut part).unwrap();
            assert!(len > 0, "closed after {}", answer.escape_ascii());
            answer.extend_from_slice(&part[..len]);
        }
        answer
    }

    /// All that is answered to whole requests.
    pub(crate) fn ask(&mut self, requests: impl AsRef<[u8]>) -> Vec<u8> {
        self.send(&[requests.as_ref(), END].concat());
        let mut answer = self.read_until(ENDED);
        answer.truncate(answer.len() - ENDED.len());
        answer
    }

    pub(crate) fn text(&mut self, requests: &str) -> String {
        String::from_utf8_lossy(&self.ask(requests)).into_owned()
    }

    /// What is sent until the other side closes.
    pub(crate) fn rest(mut self) -> Vec<u8> {
        let mut rest = Vec::new();
        // A connection that is reset has said all it will.
        self.0.read_to_end(&mut rest).ok();
        rest
    }

    /// The unique number of a key's state.
    pub(crate) fn cas_of(&mut self, key: &str) -> Option<u64> {
        let answer = self.text(&format!("gets {key}\r\n"));
        let line = answer.lines().next()?;
        line.split(' ').nth(4)?.parse().ok()
    }
}

/// A memcached of this test.
pub(crate) struct Real {
    child: Child,
    pub(crate) addr: SocketAddr,
}

impl Real {
    pub(crate) fn start(more: &[&str]) -> Option<Real> {
        let program = peers::find("memcached")?;
        let port = free_port().unwrap();
        let child = Command::new(program)
            .args(["-l", "127.0.0.1", "-U", "0", "-t", "1", "-u", "root", "-p"])
            .arg(port.to_string())
            // The thread that sorts items holds one now and then, which shows in the padding of numbers.
            .args(["-o", "no_lru_maintainer,no_lru_crawler"])
            .args(more)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let addr = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let real = Real { child, addr };
        eventually("memcached listens", || TcpStream::connect(addr).is_ok());
        Some(real)
    }
}

impl Drop for Real {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// A server of ours with so many threads, and where it speaks the protocol.
pub(crate) fn start(threads: &str, more: &[(&str, &str)]) -> (Local, SocketAddr) {
    let port = free_port().unwrap();
    let text = port.to_string();
    let mut settings = vec![("memcached-port", text.as_str()), ("threads", threads)];
    settings.extend(more);
    let local = Local::start(&settings);
    (local, SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
}

/// Unique numbers differ, and the sizes of items: what stands for them is the same.
fn normal(answer: &[u8]) -> String {
    let text = answer.escape_ascii().to_string();
    let mut lines = Vec::new();
    for line in text.split_inclusive("\\n") {
        let words: Vec<String> = line
            .split(' ')
            .enumerate()
            .map(|(at, word)| {
                let is_number = |text: &str| {
                    let text = text.trim_end_matches("\\r\\n");
                    !text.is_empty() && text != "0" && text.bytes().all(|b| b.is_ascii_digit())
                };
                let end = if word.ends_with("\\r\\n") {
                    "\\r\\n"
                } else {
                    ""
                };
                match word {
                    _ if line.starts_with("VALUE ") && at == 4 => format!("#{end}"),
                    _ if word.strip_prefix('c').is_some_and(is_number) && at > 0 => {
                        format!("c#{end}")
                    }
                    _ if word.starts_with("cas=") => format!("cas=#{end}"),
                    _ if word.starts_with("size=") => format!("size=#{end}"),
                    _ => word.to_owned(),
                }
            })
            .collect();
        lines.push(words.join(" "));
    }
    lines.concat()
}

/// Requests by the fact that they show. Each case begins with no items.
const FACTS: &[(&str, &[&str])] = &[
    (
        "fact 117: commands, keys, unknown words",
        &[
            "nosuch HTTP/1.1 x\r\nset HTTP/ 0 0 1\r\na\r\nget HTTP/\r\n",
            "cache_memlimit\r\ncache_memlimit x\r\ncache_memlimit 7\r\ncache_memlimit 1000000001\r\ncache_memlimit 100\r\ncache_memlimit 100 noreply\r\ncache_memlimit 100 a b\r\ncache_memlimit -1\r\n",
            "stats cachedump\r\nstats cachedump 1\r\nstats cachedump x 1\r\nstats cachedump 1 x\r\nstats cachedump 64 1\r\nstats cachedump 63 1\r\nstats cachedump 63 1 a\r\nstats cachedump 64 x\r\n",
            "GET k\r\nSet k 0 0 1\r\nnosuch\r\n\r\n\na\r\nm\r\nmx k\r\nxx\r\n get k\r\nget\tk\r\n",
            "get\r\nget  \r\nget k \r\ngets\r\ngat\r\ngat 0\r\ngat x k\r\n",
            "get {250}\r\nget {251}\r\nset {251} 0 0 1\r\ndelete {251}\r\n",
            "get a {251} b\r\n",
            "incr {251} 1\r\ntouch {251} 1\r\nmg {251} v\r\nmd {251}\r\nma {251}\r\nms {251} 1\r\n",
            "set {250} 0 0 1\r\na\r\nget {250}\r\n",
        ],
    ),
    (
        "fact 118: the data block",
        &[
            "set k 0 0 1\r\nab\r\nget k\r\n",
            "set k 0 0 1\r\nabc\r\nget k\r\n",
            "set k 0 0 5\r\na\r\nb\n\r\nget k\r\n",
            "set k 0 0 0\r\n\r\nget k\r\n",
            "set k 0 0 -1\r\nset k 0 0\r\nset k x 0 1\r\nset k 0 x 1\r\nset k 0 0 x\r\nset k 0 0 1 a b\r\n",
            "set k 0 0 1\r\na\r\nset k 0 0 {big}\r\n{BIG}\r\nget k\r\n",
            "set k 0 0 1\r\na\r\nadd k 0 0 {big}\r\n{BIG}\r\nget k\r\nset k 0 0 {big} noreply\r\n{BIG}\r\nget k\r\n",
            "ms k 1\r\na\r\nms k {big} k O1\r\n{BIG}\r\nmg k\r\nset k 0 0 1048577\r\n{BIG}\r\n",
        ],
    ),
    (
        "fact 119: times",
        &[
            "set a 0 0 1\r\na\r\nset b 0 -1 1\r\nb\r\nset c 0 2592001 1\r\nc\r\nset d 0 4102444800 1\r\nd\r\nget a b c d\r\n",
            "set a 0 0 1\r\na\r\nset a 0 -1 1\r\nb\r\nget a\r\nset a 0 0 1\r\na\r\ntouch a -1\r\nget a\r\n",
        ],
    ),
    (
        "fact 120: flags",
        &[
            "set a 4294967295 0 1\r\na\r\nget a\r\nset a 4294967296 0 1\r\na\r\nget a\r\nset a -1 0 1\r\na\r\n",
            "set a 5 0 1\r\na\r\nappend a 7 0 1\r\nb\r\nprepend a 8 0 1\r\nc\r\nget a\r\nmg a f v s t\r\n",
            "append n 0 0 1\r\na\r\nprepend n 0 0 1\r\na\r\nreplace n 0 0 1\r\na\r\nadd n 3 0 1\r\na\r\nadd n 0 0 1\r\nb\r\nget n\r\n",
            "set n 7 0 1\r\n1\r\nincr n 5\r\nget n\r\n",
        ],
    ),
    (
        "fact 122: numbers",
        &[
            "set n 0 0 2\r\n10\r\ndecr n 1\r\nget n\r\nincr n 5\r\nget n\r\ndecr n 100\r\nget n\r\nincr n 18446744073709551615\r\nget n\r\n",
            "set n 0 0 20\r\n18446744073709551615\r\nincr n 1\r\nget n\r\nincr n 2\r\nget n\r\n",
            "incr n x\r\nincr n\r\nincr n -1\r\nincr n 18446744073709551616\r\nincr none 1\r\ndecr none 1\r\nincr n 1 2 3\r\n",
            "set n 0 0 1\r\na\r\nincr n 1\r\nset n 0 0 0\r\n\r\nincr n 1\r\nset n 0 0 2\r\n-5\r\nincr n 1\r\nset n 0 0 4\r\n 5 x\r\nincr n 1\r\nget n\r\n",
        ],
    ),
    (
        "fact 123: noreply",
        &[
            "set a 0 0 1 noreply\r\na\r\nadd a 0 0 1 noreply\r\nb\r\nget a\r\nincr a 1 noreply\r\ndelete a noreply\r\nget a\r\ntouch a 0 noreply\r\n",
            "set a 0 x 1 noreply\r\nset a 0 0 1 noreply\r\nabc\r\nget a\r\nset a 0 0 1 noreplx\r\nb\r\nget a\r\ncas a 0 0 1 1 noreply\r\nc\r\n",
            "incr a x noreply\r\nverbosity 1 noreply\r\nflush_all noreply\r\nget a\r\n",
        ],
    ),
    (
        "fact 124: several keys",
        &[
            "set a 1 0 1\r\na\r\nset b 2 0 2\r\nbb\r\nget a n b a\r\ngets none\r\nget none b\r\nget  a   b \r\n",
            "get k1 k2 k3 k4 k5 k6 k7 k8 k9 k10 k11 k12 k13 k14 k15 k16 k17 k18 k19 k20 k21 k22 k23 k24 k25 k26 k27\r\n",
        ],
    ),
    (
        "fact 125: flush_all",
        &[
            "set a 0 0 1\r\na\r\nflush_all\r\nget a\r\nset a 0 0 1\r\na\r\nget a\r\nflush_all 0\r\nget a\r\n",
            "flush_all x\r\nflush_all -1\r\nflush_all 0 noreply\r\nflush_all 0 0\r\nflush_all 1 2 3\r\n",
            "set a 0 0 1\r\na\r\nflush_all 1000\r\nget a\r\nflush_all\r\nget a\r\n",
        ],
    ),
    (
        "fact 126: delete, touch, gat",
        &[
            "set k 0 0 1\r\na\r\ndelete k 0\r\ndelete k\r\ndelete k 5\r\ndelete k 0 noreply\r\ndelete k 0 0\r\ndelete\r\ndelete a b c d\r\n",
            "touch k\r\ntouch k x\r\ntouch k 0\r\ntouch k 0 x\r\nset k 0 100 1\r\na\r\ntouch k 0\r\nmg k t\r\n",
            "set k 5 0 1\r\na\r\ngat 0 k n k\r\ngats 100 k\r\ngat -1 k\r\nget k\r\n",
        ],
    ),
    (
        "fact 127: the server",
        &[
            "version\r\nversion x\r\nverbosity\r\nverbosity 1\r\nverbosity x\r\nverbosity 1 2 3\r\nstats reset\r\nstats nosuch\r\nshutdown\r\nstats sizes\r\n",
            "stats detail\r\nstats detail x\r\nstats detail on x\r\nstats reset\r\nset pre:a 0 0 1\r\n1\r\nset plain 0 0 1\r\na\r\nget pre:a pre:b plain\r\ngat 0 pre:a\r\ngats 0 pre:b\r\nincr pre:a 1\r\ntouch pre:a 0\r\nmg pre:a\r\nappend pre:a:b 0 0 1\r\na\r\nstats detail dump\r\ndelete pre:a\r\ndelete pre:a noreply\r\nset pre:a 0 0 {big}\r\n{BIG}\r\nstats detail dump\r\nstats detail off x\r\nget pre:a\r\nstats detail dump\r\nstats reset\r\nstats detail dump x\r\nstats detail dump\r\n",
        ],
    ),
    (
        "fact 128: meta commands",
        &[
            "mg\r\nmg k\r\nmg k k O1\r\nmg k s v t f\r\nms k\r\nms k 2 T0 F5 k O1 c\r\nhi\r\nmg k s v t f c k O7\r\nmg k\r\nms k x\r\nms k -1\r\nms k S2\r\n",
            "ms k 2 h\r\nhi\r\nmg k h l\r\nmg k h\r\nmg k u h\r\nme k\r\nme none\r\nme\r\nmd k k O3\r\nmd k\r\nmd\r\n",
            "ms n 2 ME\r\n10\r\nms n 2 ME\r\n11\r\nms n 2 MR\r\n12\r\nms x 2 MR\r\n12\r\nms n 1 MA\r\n5\r\nms n 1 MP\r\n0\r\nmg n v\r\nms x 1 MA\r\na\r\nms x 1 MP\r\na\r\nms n 2 MS\r\n55\r\n",
            "ma n\r\nma n N0 J13 v t c k O1\r\nma n v\r\nma n D10 v\r\nma n MD D5 v t\r\nma n MI\r\nma n M+ v\r\nma n M- v\r\nma n MD D100 v\r\nget n\r\nma n C1 v\r\n",
            "ma n Mx\r\nma n Mincr\r\nma n Dx\r\nma n Jx\r\nma n v v\r\nma n !\r\nset s 0 0 1\r\na\r\nma s\r\nma s q\r\nma w N0 J18446744073709551615\r\nma w v\r\nma\r\n",
            "mg k O{31}\r\nmg k O{32}\r\nmg k v v\r\nmg k !\r\nmg k a\r\nmg k Tx\r\nmg k Nx\r\nmg k Rx\r\nmg k b a b c d e f g h i j k l m n o p q r s t\r\nmg  k   v  \r\n",
        ],
    ),
    (
        "fact 129: quiet mode",
        &[
            "mg k q v\r\nms k 2 q\r\nhi\r\nmg k q v\r\nms k 2 q ME\r\nhi\r\nms k 2 q k O5 ME\r\nhi\r\nms x 2 MR q\r\nhi\r\nms x 2 C1 q\r\nhi\r\nmd k q\r\nmg k q\r\n",
            "ma n q\r\nma n q N0\r\nma n q\r\nma n v\r\nms k 2 q Tx\r\nhi\r\nmg k q Tx\r\nms k 1 q\r\nabc\r\nmn\r\nmn x\r\n",
        ],
    ),
    (
        "fact 130: one renews",
        &[
            "mg k N0 v t\r\nmg k N0 v t\r\nmg k v\r\nms k 2\r\nhi\r\nmg k v\r\nms k 2 T1000\r\nhi\r\nmg k v R2000\r\nmg k v R2000\r\nmg k v R10\r\nms k 2 T1000\r\nhi\r\nmg k v R10\r\n",
            "ms k 2\r\nhi\r\nmd k I\r\nmg k v\r\nmg k v\r\nmg k v q k O1\r\nms k 2\r\nho\r\nmg k v\r\nmd k I q\r\nmg k\r\nmd none I\r\nmd k C1\r\nmd k C1 I q\r\nmd k x\r\nmd k q q\r\n",
            "mg v N-1 v\r\nmg v\r\nms k 2 C1\r\nhi\r\nms k 2 I\r\nhi\r\nms k 2 ME C1\r\nhi\r\nms k 2 MA C1\r\nhi\r\nms k 2 MR C1\r\nhi\r\nms k 2 C1\r\nhi\r\n",
            "ms k 2 T100\r\nhi\r\nmg k c\r\nmd k I T30\r\nmg k t v\r\nms k 1 I T90 C1\r\nf\r\nmg k t v\r\nms k 1 I T-1 C1\r\ng\r\nmg k t v\r\n",
            "ms k 2\r\nhi\r\nmg k c\r\nms k 1 I T90 C1\r\nf\r\nmg k t v\r\nmg k v\r\nms k 1 I C1\r\nf\r\nmg k v\r\n",
            "ms k 2\r\nhi\r\nmg k v T-1\r\nmg k v\r\nms k 2 T-1\r\nhi\r\nmg k\r\n",
        ],
    ),
    (
        "fact 131: lengths and base64",
        &[
            "ms k 2\r\nabc\r\nms k 2 c\r\nhiXX\r\nms k 2 MX\r\nhi\r\nms k 2 MSS\r\nhi\r\nms k 2 M\r\nhi\r\nms k 2 Fx\r\nhi\r\nms k 2 Cx\r\nhi\r\nms k 2 !\r\nhi\r\nms k 2 c c\r\nhi\r\nms k 3 O{40}\r\nhii\r\n",
            "mg k b v\r\nmg Zm9 b k\r\nms !!! 2 b\r\nhi\r\nms Zm9v 2 b k c O9\r\nhi\r\nmg Zm9v b k v O1\r\nget foo\r\nmg Zm9w b k O1\r\nma bnVt b N0 J5 k v\r\nmd bnVt b k\r\n",
        ],
    ),
];

/// The text of a case: `{251}` is a key of so many letters, `{big}` a length above the limit and `{BIG}` so many bytes.
fn expand(case: &str) -> String {
    let big = 1_100_000;
    let mut text = case.replace("{big}", &big.to_string());
    let bytes = if text.contains("1048577") {
        1_048_577
    } else {
        big
    };
    text = text.replacen(
        "{BIG}\r\n",
        &format!("{}\r\n", "x".repeat(big)),
        text.matches("{BIG}").count().saturating_sub(1),
    );
    text = text.replace("{BIG}", &"x".repeat(bytes));
    for len in [31, 32, 40, 250, 251] {
        text = text.replace(&format!("{{{len}}}"), &"k".repeat(len));
    }
    text
}

#[test]
fn every_fact_as_memcached_answers() {
    let Some(real) = Real::start(&[]) else {
        return peers::skip("every_fact_as_memcached_answers", "memcached");
    };
    for threads in ["1", "2"] {
        let (_local, addr) = start(threads, &[]);
        for (fact, cases) in FACTS {
            for case in *cases {
                let text = expand(case);
                let answer = |addr| {
                    let mut client = Memcached::connect(addr);
                    client.ask("flush_all\r\n");
                    normal(&client.ask(&text))
                };
                // memcached's clock has whole seconds: what was stored within one may outlive flush_all.
                let mut answers = (answer(addr), answer(real.addr));
                for _ in 0..5 {
                    if answers.0 == answers.1 {
                        break;
                    }
                    std::thread::sleep(Duration::from_millis(1_100));
                    answers = (answer(addr), answer(real.addr));
                }
                assert_eq!(answers.0, answers.1, "{fact}, {threads} threads: {case:?}");
            }
        }
    }
}

#[test]
fn requests_of_http_end_the_connection() {
    let (_local, addr) = start("1", &[]);
    let real = Real::start(&[]);
    for request in ["GET / HTTP/1.0", "PUT /a/b HTTP/1.1", "DELETE HTTP/1.1"] {
        let answer = |addr| {
            let mut client = Memcached::connect(addr);
            client.send(format!("{request}\r\nHost: a\r\n\r\nversion\r\n").as_bytes());
            client.rest()
        };
        assert_eq!(answer(addr), b"", "{request}");
        if let Some(real) = &real {
            assert_eq!(answer(real.addr), b"", "{request}");
        }
    }
}

#[test]
fn bytes_may_arrive_in_any_pieces() {
    let (_local, addr) = start("2", &[]);
    let (_, cases) = FACTS[FACTS.len() - 2];
    let all: String = cases.iter().map(|case| expand(case)).collect();
    let ask = |piece: usize| {
        let mut client = Memcached::connect(addr);
        client.ask("flush_all\r\n");
        for part in all.as_bytes().chunks(piece) {
            client.send(part);
        }
        normal(&client.ask(""))
    };
    let whole = ask(usize::MAX);
    assert_eq!(ask(1), whole);
    assert_eq!(ask(17), whole);
}

/// fact 132: authentication is a `set` that is none.
#[test]
fn fact_132_credentials_as_memcached_takes_them() {
    let folder = tollgate_testkit::process::temp_dir().unwrap();
    let file = folder.join("users");
    std::fs::write(&file, "default:secret\n").unwrap();
    let steps: &[&str] = &[
        "get k\r\n",
        "set x 0 0 4\r\nuser\r\n",
        "set x 0 0 13\r\ndefault wrong\r\n",
        "version\r\n",
        "set x 0 0 14\r\ndefault secret\r\n",
        "set x 0 0 1\r\na\r\n",
        "touch x 0\r\n",
    ];
    let ask = |addr| {
        let mut client = Memcached::connect(addr);
        let mut answers = Vec::new();
        for step in steps {
            client.send(step.as_bytes());
            answers.push(client.read_until(b"\r\n").escape_ascii().to_string());
        }
        answers
    };
    let (_local, addr) = start("2", &[("requirepass", "secret")]);
    let ours = ask(addr);
    assert_eq!(ours[5], "STORED\\r\\n", "{ours:?}");
    let real = Real::start(&["-Y", file.to_str().unwrap()]);
    match &real {
        Some(real) => assert_eq!(ours, ask(real.addr)),
        None => peers::skip("fact_132_credentials_as_memcached_takes_them", "memcached"),
    }
    drop(real);
    std::fs::remove_dir_all(folder).unwrap();
}

/// Numbers from a seed.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self
            .0
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % bound
    }

    fn of<'a>(&mut self, words: &[&'a str]) -> &'a str {
        words[self.below(words.len())]
    }
}

/// A command by chance; `{cas}` stands for the number that the key had when it was last asked for.
fn command(dice: &mut Dice) -> (String, String) {
    let key = dice.of(&["a", "b", "c", "d"]).to_owned();
    // Numbers never become shorter: whether memcached pads them then depends on its other threads.
    let value = dice.of(&["", "1", "10", "99", "x", "some text"]);
    let (len, other) = (value.len(), dice.of(&["a", "b", "c", "d"]));
    let number = dice.of(&["0", "1", "9", "100"]);
    let flags = dice.of(&["0", "0", "7", "4294967295"]);
    let quiet = dice.of(&["", "", "", " noreply"]);
    let meta = dice.of(&["", " k", " q", " O1 k", " F3", " I", " k q O2"]);
    let text = match dice.below(22) {
        0 | 1 => format!("set {key} {flags} 0 {len}{quiet}\r\n{value}\r\n"),
        2 => format!("add {key} {flags} 0 {len}{quiet}\r\n{value}\r\n"),
        3 => format!("replace {key} {flags} 0 {len}\r\n{value}\r\n"),
        4 => format!("append {key} {flags} 0 {len}\r\n{value}\r\n"),
        5 => format!("prepend {key} {flags} 0 {len}\r\n{value}\r\n"),
        6 => format!("cas {key} {flags} 0 {len} {{cas}}\r\n{value}\r\n"),
        7 => format!("incr {key} {number}{quiet}\r\n"),
        8 => format!("decr {key} 0\r\n"),
        9 => format!("delete {key}{quiet}\r\n"),
        10 => format!("touch {key} 0\r\n"),
        11 => format!("get {key} {other}\r\n"),
        12 | 13 => format!("gets {key}\r\n"),
        14 => format!("gat 0 {key} {other}\r\n"),
        15 => format!(
            "mg {key} v f s t c{}\r\n",
            dice.of(&["", " k", " q", " u", " R30"])
        ),
        16 => format!("mg {key} N0 v\r\n"),
        17 => format!(
            "ms {key} {len}{meta}{}\r\n{value}\r\n",
            dice.of(&["", " ME", " MR", " MA", " MP", " C{cas}"])
        ),
        18 => format!(
            "md {key}{}\r\n",
            dice.of(&["", " k", " I", " C{cas}", " I C{cas}"])
        ),
        19 => format!(
            "ma {key}{}{}\r\n",
            dice.of(&["", " v", " v t", " q"]),
            dice.of(&["", " MD D0", " D7", " N0 J5", " C{cas}"])
        ),
        20 => format!("set {key} {flags} 0 {len}\r\n{value}!\r\n"),
        _ => dice
            .of(&["verbosity 1\r\n", "nosuch\r\n", "flush_all\r\n", "mg\r\n"])
            .to_owned(),
    };
    (key, text)
}

#[test]
fn any_commands_are_answered_as_by_memcached() {
    let Some(real) = Real::start(&[]) else {
        return peers::skip("any_commands_are_answered_as_by_memcached", "memcached");
    };
    let (_local, addr) = start("2", &[]);
    for seed in 0..8 {
        let mut dice = Dice(seed);
        let mut sides = [Memcached::connect(addr), Memcached::connect(real.addr)];
        let mut numbers = [const { std::collections::BTreeMap::<String, u64>::new() }; 2];
        let mut log = Vec::new();
        for side in &mut sides {
            side.ask("flush_all\r\n");
        }
        for _ in 0..400 {
            let (key, text) = command(&mut dice);
            let remember = text.starts_with("gets");
            let mut answers = Vec::new();
            for (side, numbers) in sides.iter_mut().zip(&mut numbers) {
                if remember && let Some(number) = side.cas_of(&key) {
                    numbers.insert(key.clone(), number);
                }
                let number = numbers.get(&key).copied().unwrap_or(u64::MAX);
                let answer = side.ask(text.replace("{cas}", &number.to_string()));
                answers.push(normal(&answer));
            }
            log.push(text);
            assert_eq!(answers[0], answers[1], "seed {seed}: {log:#?}");
        }
    }
}
