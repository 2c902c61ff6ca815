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
    let mut sent: HashMap<String, u64> = HashMap::new();
    let mut timed: HashMap<u64, u64> = HashMap::new();
    let mut reachable = true;
    let mut kept = None;
    loop {
        let last = tokio::select! {
            () = tokio::time::sleep(config.interval) => false,
            _ = stopped.wait_for(|stop| *stop) => true,
        };
        // Without a way there is nothing taken that would be lost: it goes next time.
        let outcome = match Way::find(kept.take(), &config).await {
            Ok(way) => {
                let mut lines = new_lines(&metrics.lines(), &mut sent, &config);
                lines.extend(new_times(&metrics.response_times(), &mut timed, &config));
                let gauges = metrics.gauges();
                let gauge = |(name, value): &(String, u64)| line(name, *value, "g", &config);
                lines.extend(gauges.iter().map(gauge));
                way.send(&lines).await
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

    async fn send(mut self, lines: &[String]) -> io::Result<Self> {
        match &mut self {
            _ if lines.is_empty() => {}
            Self::Tcp(stream) => {
                let text = lines.join("\n") + "\n";
                let written = timeout(WRITE_TIMEOUT, stream.write_all(text.as_bytes())).await;
                written.map_err(|_| io::Error::from(io::ErrorKind::TimedOut))??;
            }
            Self::Udp(socket, target) => {
                for datagram in datagrams(lines) {
                    socket.send_to(datagram.as_bytes(), *target).await?;
                }
            }
        }
        Ok(self)
    }
}

/// Whether the server has not closed its end. It never writes.
fn is_open(stream: &TcpStream) -> bool {
    let read = stream.try_read(&mut [0; 64]);
    read.is_err_and(|error| error.kind() == io::ErrorKind::WouldBlock)
}

/// The counters that have grown. As many as there are series are kept in mind.
fn new_lines(
    lines: &[(String, u64)],
    sent: &mut HashMap<String, u64>,
    config: &StatsdConfig,
) -> Vec<String> {
    let mut new = Vec::new();
    for (name, value) in lines {
        let before = sent.get(name).copied().unwrap_or(0);
        let grown = value.wrapping_sub(before);
        if grown > 0 {
            new.push(line(name, grown, "c", config));
            sent.insert(name.clone(), *value);
        }
    }
    new
}

/// The responses since the last time: a line for all that took about as long, which counts for so many by its sample rate.
fn new_times(
    times: &[(u64, u64)],
    sent: &mut HashMap<u64, u64>,
    config: &StatsdConfig,
) -> Vec<String> {
    let mut new = Vec::new();
    for &(end_us, count) in times {
        let before = sent.insert(end_us, count).unwrap_or(0);
        let grown = count.wrapping_sub(before);
        if grown > 0 {
            let rate = match grown {
                1 => String::new(),
                _ => format!("|@{}", 1.0 / grown as f64),
            };
            let millis = end_us as f64 / 1e3;
            new.push(line(RESPONSE_TIME, millis, &format!("ms{rate}"), config));
        }
    }
    new
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
fn datagrams(lines: &[String]) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for line in lines {
        match all.last_mut() {
            Some(last) if last.len() + 1 + line.len() <= MAX_DATAGRAM => {
                last.push('\n');
                last.push_str(line);
            }
            _ => all.push(line.clone()),
        }
    }
    all
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

    #[test]
    fn only_what_has_grown_is_sent() {
        let mut sent = HashMap::new();
        let lines = |a, b| vec![("a.b".to_owned(), a), ("c".to_owned(), b)];
        let config = config(true);
        assert_eq!(
            new_lines(&lines(2, 0), &mut sent, &config),
            ["a.b:2|c|#az:1,env:test"]
        );
        assert_eq!(
            new_lines(&lines(5, 1), &mut sent, &config),
            ["a.b:3|c|#az:1,env:test", "c:1|c|#az:1,env:test"]
        );
        assert!(new_lines(&lines(5, 1), &mut sent, &config).is_empty());
    }

    #[test]
    fn response_times_are_sampled_by_their_length() {
        let mut sent = HashMap::new();
        let bare = StatsdConfig {
            tags: Vec::new(),
            ..config(false)
        };
        let name = RESPONSE_TIME;
        assert_eq!(
            new_times(&[(50, 1), (250, 4), (500, 0)], &mut sent, &bare),
            [format!("{name}:0.05|ms"), format!("{name}:0.25|ms|@0.25")]
        );
        assert_eq!(
            new_times(&[(50, 1), (250, 6), (500, 0)], &mut sent, &config(true)),
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
        let lines: Vec<String> = (0..1_000)
            .map(|number| format!("name.{number}:1|c"))
            .collect();
        let made = datagrams(&lines);
        assert!(made.iter().all(|datagram| datagram.len() <= MAX_DATAGRAM));
        assert_eq!(made.join("\n"), lines.join("\n"));
    }
}
