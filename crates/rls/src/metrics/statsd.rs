//! Metrics sent to a statsd server: what has been added since the last time.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::AsyncWriteExt;
use tokio::net::{TcpStream, UdpSocket};
use tokio::sync::watch;
use tokio::time::timeout;

use super::Metrics;
use crate::config::{StatsdConfig, StatsdProtocol};
use crate::log::{LogLevel, LogLine};

/// The timer of calls, as envoyproxy/ratelimit has it.
const RESPONSE_TIME: &str = "ratelimit_server.ShouldRateLimit.response_time";
/// Longest datagram, in bytes: what fits into one packet of Ethernet.
const MAX_DATAGRAM: usize = 1_432;
/// Longest wait for a connection, and for a server to take what is written.
const CONNECT_TIMEOUT: Duration = Duration::from_millis(1_500);
const WRITE_TIMEOUT: Duration = Duration::from_secs(1);

/// Sends at every interval, and once more at the end.
pub(crate) async fn send_forever(
    metrics: Arc<Metrics>,
    config: StatsdConfig,
    log: LogLine,
    mut stopped: watch::Receiver<bool>,
) {
    let mut sent = Sent::default();
    let mut reachable = true;
    let mut kept = None;
    loop {
        let last = tokio::select! {
            () = tokio::time::sleep(config.interval) => false,
            _ = stopped.wait_for(|stop| *stop) => true,
        };
        let outcome = match Way::find(kept.take(), &config).await {
            Ok(way) => {
                let mut news = sent.news(&metrics.lines(), &metrics.response_times(), &config);
                let gauges = metrics.gauges();
                news.extend(gauges.iter().map(|(name, value)| News {
                    line: line(name, *value, "g", &config),
                    counts: None,
                }));
                way.send(&news, &mut sent).await
            }
            Err(error) => Err(error),
        };
        match outcome {
            Ok(way) => {
                reachable = true;
                kept = Some(way);
            }
            // Said once, not at every interval.
            Err(error) if reachable => {
                reachable = false;
                let line = format!("statsd {}: {error}", config.addr);
                log(LogLevel::Warning, &line);
            }
            Err(_) => {}
        }
        if last {
            return;
        }
    }
}

/// How lines get to the server.
enum Way {
    Tcp(TcpStream),
    Udp(UdpSocket, SocketAddr),
}

impl Way {
    /// The way that was kept if it is still one, else a new one.
    async fn find(kept: Option<Self>, config: &StatsdConfig) -> io::Result<Self> {
        match (kept, config.protocol) {
            (Some(Self::Tcp(stream)), StatsdProtocol::Tcp) if is_open(&stream) => {
                Ok(Self::Tcp(stream))
            }
            (_, StatsdProtocol::Tcp) => {
                let stream = timeout(CONNECT_TIMEOUT, TcpStream::connect(&config.addr)).await;
                stream
                    .map_err(|_| io::Error::from(io::ErrorKind::TimedOut))?
                    .map(Self::Tcp)
            }
            // Names may move.
            (_, StatsdProtocol::Udp) => {
                let target = tokio::net::lookup_host(&config.addr).await?.next();
                let target = target.ok_or_else(|| io::Error::other("the name has no address"))?;
                let any = match target.is_ipv4() {
                    true => "0.0.0.0:0",
                    false => "[::]:0",
                };
                Ok(Self::Udp(UdpSocket::bind(any).await?, target))
            }
        }
    }

    /// Sends packet by packet, and keeps in mind what has gone: of what has not, nothing is lost.
    async fn send(mut self, news: &[News], sent: &mut Sent) -> io::Result<Self> {
        for packet in packets(news) {
            let lines = packet.iter().map(|news| &*news.line);
            let text = lines.collect::<Vec<_>>().join("\n");
            match &mut self {
                Self::Tcp(stream) => {
                    let text = text + "\n";
                    let written = timeout(WRITE_TIMEOUT, stream.write_all(text.as_bytes())).await;
                    written.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
                }
                Self::Udp(socket, target) => {
                    socket.send_to(text.as_bytes(), *target).await?;
                }
            }
            packet.iter().for_each(|news| sent.keep(news));
        }
        Ok(self)
    }
}

/// Whether the server has not closed its end. It never writes.
fn is_open(stream: &TcpStream) -> bool {
    let read = stream.try_read(&mut [0; 64]);
    read.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
}

/// What has gone to the server. As many counters as there are series are kept in mind.
#[derive(Default)]
struct Sent {
    lines: HashMap<String, u64>,
    /// Responses that took up to so many microseconds.
    times: HashMap<u64, u64>,
}

/// A line, and up to where it counts what.
struct News {
    line: String,
    /// `None`: the line says all there is.
    counts: Option<(Counted, u64)>,
}

enum Counted {
    Series(String),
    /// Responses, by the end of their span in microseconds.
    Times(u64),
}

impl Sent {
    /// The counters that have grown, and the responses since the last time.
    fn news(
        &self,
        lines: &[(String, u64)],
        times: &[(u64, u64)],
        config: &StatsdConfig,
    ) -> Vec<News> {
        let mut news = Vec::new();
        for (name, value) in lines {
            let before = self.lines.get(name).copied().unwrap_or(0);
            let grown = value.wrapping_sub(before);
            if grown > 0 {
                news.push(News {
                    line: line(name, grown, "c", config),
                    counts: Some((Counted::Series(name.clone()), *value)),
                });
            }
        }
        for &(end_us, count) in times {
            let before = self.times.get(&end_us).copied().unwrap_or(0);
            let grown = count.wrapping_sub(before);
            if grown > 0 {
                news.push(News {
                    line: time_line(end_us, grown, config),
                    counts: Some((Counted::Times(end_us), count)),
                });
            }
        }
        news
    }

    /// A line has gone.
    fn keep(&mut self, news: &News) {
        match &news.counts {
            None => {}
            Some((Counted::Series(name), value)) => match self.lines.get_mut(name) {
                Some(known) => *known = *value,
                None => {
                    self.lines.insert(name.clone(), *value);
                }
            },
            Some((Counted::Times(end_us), count)) => {
                self.times.insert(*end_us, *count);
            }
        }
    }
}

/// All responses that took about as long, which count for so many by their sample rate.
fn time_line(end_us: u64, count: u64, config: &StatsdConfig) -> String {
    let rate = match count {
        1 => String::new(),
        _ => format!("|@{}", 1.0 / count as f64),
    };
    let millis = end_us as f64 / 1e3;
    line(RESPONSE_TIME, millis, &format!("ms{rate}"), config)
}

/// `kind` is statsd's: `c` for what was added, `g` for what there is, `ms` for what took so long.
fn line(name: &str, value: impl fmt::Display, kind: &str, config: &StatsdConfig) -> String {
    // In their order, values without what has a meaning to statsd, as the peer writes them.
    let mut tags: Vec<(String, String)> = config
        .tags
        .iter()
        .filter(|(tag, value)| !tag.is_empty() && !value.is_empty())
        .map(|(tag, value)| (tag.clone(), plain(value)))
        .collect();
    tags.sort();
    if config.dog {
        let tags: Vec<String> = tags
            .iter()
            .map(|(tag, value)| format!("{tag}:{value}"))
            .collect();
        let tags = match tags.is_empty() {
            true => String::new(),
            false => format!("|#{}", tags.join(",")),
        };
        return format!("{name}:{value}|{kind}{tags}");
    }
    // Plain statsd has no tags; they become part of the name.
    let tags: String = tags
        .iter()
        .map(|(tag, value)| format!(".__{tag}={value}"))
        .collect();
    format!("{name}{tags}:{value}|{kind}")
}

fn plain(text: &str) -> String {
    text.replace(['.', ':', '|'], "_")
}

/// Lines put together as far as a datagram holds them; one that is longer goes alone.
fn packets(news: &[News]) -> Vec<&[News]> {
    let mut packets = Vec::new();
    let (mut begin, mut len) = (0, 0);
    for (at, next) in news.iter().enumerate() {
        let longer = len + 1 + next.line.len();
        if at > begin && longer > MAX_DATAGRAM {
            packets.push(&news[begin..at]);
            (begin, len) = (at, next.line.len());
        } else {
            len = if at == begin { next.line.len() } else { longer };
        }
    }
    if begin < news.len() {
        packets.push(&news[begin..]);
    }
    packets
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(dog: bool) -> StatsdConfig {
        StatsdConfig {
            addr: "localhost:8125".to_owned(),
            protocol: StatsdProtocol::Udp,
            dog,
            tags: vec![
                ("env".to_owned(), "test".to_owned()),
                ("az".to_owned(), "1".to_owned()),
            ],
            interval: Duration::from_secs(1),
        }
    }

    fn lines(news: &[News]) -> Vec<&str> {
        news.iter().map(|news| &*news.line).collect()
    }

    #[test]
    fn only_what_has_grown_is_sent() {
        let mut sent = Sent::default();
        let values = |a, b| vec![("a.b".to_owned(), a), ("c".to_owned(), b)];
        let config = config(true);
        for (values, told) in [
            (values(2, 0), vec!["a.b:2|c|#az:1,env:test"]),
            (
                values(5, 1),
                vec!["a.b:3|c|#az:1,env:test", "c:1|c|#az:1,env:test"],
            ),
            (values(5, 1), vec![]),
        ] {
            let news = sent.news(&values, &[], &config);
            assert_eq!(lines(&news), told);
            news.iter().for_each(|news| sent.keep(news));
        }
    }

    /// A server that goes away while it is written to gets the rest from the next connection.
    #[tokio::test]
    async fn what_has_not_gone_is_sent_again() {
        let config = config(true);
        let mut sent = Sent::default();
        let counters: Vec<(String, u64)> =
            (0..300).map(|at| (format!("counter.{at}"), 7)).collect();
        let news = sent.news(&counters, &[(50, 2)], &config);
        // A port that takes no datagram of this family.
        let socket = UdpSocket::bind("127.0.0.1:0").await.expect("a socket");
        let target = "[::1]:9".parse().expect("an address");
        let failed = Way::Udp(socket, target).send(&news, &mut sent).await;
        assert!(failed.is_err());
        assert_eq!(
            lines(&sent.news(&counters, &[(50, 2)], &config)),
            lines(&news)
        );
        let server = UdpSocket::bind("127.0.0.1:0").await.expect("a socket");
        let target = server.local_addr().expect("bound");
        let socket = UdpSocket::bind("127.0.0.1:0").await.expect("a socket");
        let way = Way::Udp(socket, target).send(&news, &mut sent).await;
        assert!(way.is_ok());
        assert!(sent.news(&counters, &[(50, 2)], &config).is_empty());
    }

    #[test]
    fn response_times_are_sampled_by_their_length() {
        let mut sent = Sent::default();
        let bare = StatsdConfig {
            tags: Vec::new(),
            ..config(false)
        };
        let name = RESPONSE_TIME;
        let news = sent.news(&[], &[(50, 1), (250, 4), (500, 0)], &bare);
        assert_eq!(
            lines(&news),
            [format!("{name}:0.05|ms"), format!("{name}:0.25|ms|@0.25")]
        );
        news.iter().for_each(|news| sent.keep(news));
        let news = sent.news(&[], &[(50, 1), (250, 6), (500, 0)], &config(true));
        assert_eq!(
            lines(&news),
            [format!("{name}:0.25|ms|@0.5|#az:1,env:test")]
        );
    }

    #[test]
    fn plain_statsd_has_tags_in_its_names() {
        assert_eq!(line("a", 1, "c", &config(false)), "a.__az=1.__env=test:1|c");
        let odd = StatsdConfig {
            tags: vec![
                ("z.z".to_owned(), "a:b|c".to_owned()),
                ("none".to_owned(), String::new()),
            ],
            ..config(false)
        };
        assert_eq!(line("a", 1, "c", &odd), "a.__z.z=a_b_c:1|c");
        let bare = StatsdConfig {
            tags: Vec::new(),
            ..config(true)
        };
        assert_eq!(line("a", 1, "c", &bare), "a:1|c");
        assert_eq!(line("a", 1, "g", &bare), "a:1|g");
    }

    #[test]
    fn datagrams_fit_into_packets() {
        let mut news: Vec<News> = (0..1_000)
            .map(|number| News {
                line: format!("name.{number}:1|c"),
                counts: None,
            })
            .collect();
        news[500].line = "x".repeat(2 * MAX_DATAGRAM);
        let made = packets(&news);
        let all: Vec<&str> = made.iter().flat_map(|packet| lines(packet)).collect();
        assert_eq!(all, lines(&news));
        for packet in made {
            let len = lines(packet).join("\n").len();
            assert!(len <= MAX_DATAGRAM || packet.len() == 1, "{len}");
        }
        assert!(packets(&[]).is_empty());
    }
}
