//! What a run does just now, for Prometheus to fetch while it goes on.
//!
//! The console hands over what it shows; a thread of its own answers. The generator knows nothing of it.

use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tollgate_wire::http1::{Event, Reader};

use crate::load::live::Glance;
use crate::record::Second;
use crate::report::in_label;

/// Longest that a peer may take for a request or an answer; the next one waits meanwhile.
const PATIENCE: Duration = Duration::from_secs(1);
/// Most bytes of a request.
const REQUEST_MAX: usize = 8 << 10;

/// What is told.
#[derive(Clone, Debug, Default)]
struct Figures {
    phase: String,
    /// Of the loads before this one.
    before: Glance,
    now: Glance,
    last: Option<Second>,
    rows: u64,
}

/// Answers on a port of this machine until it is dropped.
pub(crate) struct Exporter {
    figures: Arc<Mutex<Figures>>,
    address: SocketAddr,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Exporter {
    /// Listens at `address`; port 0 takes a free one.
    ///
    /// # Errors
    /// If the port is taken or may not be used.
    pub(crate) fn start(address: SocketAddr) -> io::Result<Exporter> {
        let listener = TcpListener::bind(address)?;
        let address = listener.local_addr()?;
        let figures = Arc::new(Mutex::new(Figures::default()));
        let stop = Arc::new(AtomicBool::new(false));
        let (shown, stopped) = (figures.clone(), stop.clone());
        let thread = std::thread::Builder::new()
            .name("exporter".into())
            .spawn(move || {
                for peer in listener.incoming().flatten() {
                    if stopped.load(Ordering::Relaxed) {
                        return;
                    }
                    let now = shown.lock().unwrap_or_else(PoisonError::into_inner).clone();
                    // Who goes away before the answer asks again with the next scrape.
                    drop(answer(peer, &now));
                }
            })?;
        Ok(Exporter {
            figures,
            address,
            stop,
            thread: Some(thread),
        })
    }

    /// Where it listens.
    #[must_use]
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Names what is measured now.
    pub(crate) fn phase(&self, text: &str) {
        self.change(|figures| text.clone_into(&mut figures.phase));
    }

    /// From now on figures are of another load.
    pub(crate) fn begin_load(&self) {
        self.change(|figures| {
            let (before, now) = (figures.before, std::mem::take(&mut figures.now));
            figures.before = Glance {
                planned: before.planned + now.planned,
                answered: before.answered + now.answered,
                failed: before.failed + now.failed,
                in_flight: 0,
            };
        });
    }

    /// The counts of the load, and its last second.
    pub(crate) fn tick(&self, now: Glance, last: Option<&Second>) {
        self.change(|figures| {
            figures.now = now;
            // The last second of the load before stays until this one has passed one: a scrape falls anywhere.
            if last.is_some() && figures.last.as_ref() != last {
                figures.last = last.cloned();
            }
        });
    }

    /// A row is measured.
    pub(crate) fn row(&self) {
        self.change(|figures| figures.rows += 1);
    }

    fn change(&self, change: impl FnOnce(&mut Figures)) {
        change(&mut self.figures.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // Wakes the thread, which looks at the flag then.
        let woken = TcpStream::connect_timeout(&self.address, PATIENCE);
        if let Some(thread) = self.thread.take().filter(|_| woken.is_ok()) {
            drop(thread.join());
        }
    }
}

fn answer(mut peer: TcpStream, figures: &Figures) -> io::Result<()> {
    peer.set_read_timeout(Some(PATIENCE))?;
    peer.set_write_timeout(Some(PATIENCE))?;
    let begun = Instant::now();
    let (mut reader, mut input, mut chunk) = (Reader::new(0), Vec::new(), [0; 1024]);
    let (status, body) = loop {
        let (_, event) = reader.next(&input);
        match event {
            Event::Head(head) if head.path != "/metrics" => {
                break ("404 Not Found", "the figures are at /metrics\n".to_owned());
            }
            Event::Head(head) if head.method == "GET" => break ("200 OK", figures.text()),
            Event::Head(_) => break ("405 Method Not Allowed", String::new()),
            Event::Malformed(_) => break ("400 Bad Request", String::new()),
            Event::More | Event::Body(_) => {}
        }
        match peer.read(&mut chunk)? {
            0 => return Ok(()),
            _ if input.len() > REQUEST_MAX || begun.elapsed() > PATIENCE => return Ok(()),
            read => input.extend_from_slice(&chunk[..read]),
        }
    };
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-type: text/plain; version=0.0.4; charset=utf-8\r\ncontent-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    peer.write_all(head.as_bytes())?;
    peer.write_all(body.as_bytes())
}

impl Figures {
    /// In Prometheus' text format.
    fn text(&self) -> String {
        let mut out = String::new();
        let counts = [
            (
                "planned",
                "Requests that came due.",
                self.before.planned + self.now.planned,
            ),
            (
                "answered",
                "Answers received.",
                self.before.answered + self.now.answered,
            ),
            (
                "failed",
                "Requests that failed, of every kind.",
                self.before.failed + self.now.failed,
            ),
        ];
        for (name, help, value) in counts {
            let name = format!("tollgate_bench_requests_{name}_total");
            metric(
                &mut out,
                &name,
                "counter",
                help,
                &[(String::new(), value as f64)],
            );
        }
        metric(
            &mut out,
            "tollgate_bench_rows_total",
            "counter",
            "Rows measured.",
            &one(self.rows as f64),
        );
        metric(
            &mut out,
            "tollgate_bench_in_flight",
            "gauge",
            "Requests waiting or on the wire.",
            &one(self.now.in_flight as f64),
        );
        let phase = in_label(&self.phase);
        metric(
            &mut out,
            "tollgate_bench_phase",
            "gauge",
            "What is measured now; always 1.",
            &[(format!("{{phase=\"{phase}\"}}"), 1.0)],
        );
        if let Some(last) = &self.last {
            of_last_second(&mut out, last);
        }
        out
    }
}

/// One value without labels.
fn one(value: f64) -> Vec<(String, f64)> {
    vec![(String::new(), value)]
}

/// Rate and delays of the last second.
fn of_last_second(out: &mut String, last: &Second) {
    if let Some(rate) = last.goodput_rps() {
        let help = "Right answers in time per second, in the last second.";
        metric(out, "tollgate_bench_goodput", "gauge", help, &one(rate));
    }
    let seconds = |of: &[(&str, Option<f64>)]| -> Vec<(String, f64)> {
        of.iter()
            .filter_map(|(label, us)| Some(((*label).to_owned(), (*us)? / 1e6)))
            .collect()
    };
    metric(
        out,
        "tollgate_bench_response_seconds",
        "gauge",
        "Response time from the intended send, in the last second.",
        &seconds(&[
            ("{quantile=\"0.5\"}", last.p50_us),
            ("{quantile=\"0.99\"}", last.p99_us),
            ("{quantile=\"1\"}", last.max_us),
        ]),
    );
    metric(
        out,
        "tollgate_bench_generator_lag_seconds",
        "gauge",
        "How much later than due the generator took requests up, in the last second.",
        &seconds(&[
            ("{of=\"mean\"}", last.generator_lag_mean_us),
            ("{of=\"max\"}", last.generator_lag_max_us),
        ]),
    );
}

fn metric(out: &mut String, name: &str, kind: &str, help: &str, values: &[(String, f64)]) {
    if values.is_empty() {
        return;
    }
    out.push_str(&format!("# HELP {name} {help}\n# TYPE {name} {kind}\n"));
    for (labels, value) in values {
        out.push_str(&format!("{name}{labels} {value}\n"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is answered to `request`.
    fn asked(exporter: &Exporter, request: &str) -> String {
        let mut peer = TcpStream::connect(exporter.address()).unwrap();
        peer.write_all(request.as_bytes()).unwrap();
        let mut text = String::new();
        peer.read_to_string(&mut text).unwrap();
        text
    }

    #[test]
    fn counts_go_on_over_loads_and_delays_are_of_the_last_second() {
        let exporter = Exporter::start(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let glance = |answered| Glance {
            planned: answered + 1,
            answered,
            failed: 1,
            in_flight: 3,
        };
        exporter.begin_load();
        exporter.tick(glance(10), None);
        exporter.begin_load();
        exporter.phase("100 keys \"hot\" · 5000/s");
        let last = Second {
            length_s: 2.0,
            good: 30,
            p50_us: Some(250.0),
            p99_us: Some(1_500.0),
            generator_lag_mean_us: Some(50.0),
            ..Second::default()
        };
        exporter.tick(glance(5), Some(&last));
        exporter.row();
        let text = asked(&exporter, "GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n");
        assert!(text.starts_with("HTTP/1.1 200 OK\r\n"), "{text}");
        for line in [
            "tollgate_bench_requests_planned_total 17",
            "tollgate_bench_requests_answered_total 15",
            "tollgate_bench_requests_failed_total 2",
            "tollgate_bench_rows_total 1",
            "tollgate_bench_in_flight 3",
            "tollgate_bench_goodput 15",
            "tollgate_bench_response_seconds{quantile=\"0.99\"} 0.0015",
            "tollgate_bench_generator_lag_seconds{of=\"mean\"} 0.00005",
            "tollgate_bench_phase{phase=\"100 keys \\\"hot\\\" · 5000/s\"} 1",
        ] {
            assert!(text.lines().any(|found| found == line), "{line} in\n{text}");
        }
        assert!(
            !text.contains("of=\"max\""),
            "what is not known is not told: {text}"
        );
        exporter.begin_load();
        exporter.tick(Glance::default(), None);
        let text = asked(&exporter, "GET /metrics HTTP/1.0\r\n\r\n");
        assert!(
            text.contains("answered_total 15\n") && text.contains("quantile"),
            "{text}"
        );
    }

    #[test]
    fn what_is_no_scrape_is_refused() {
        let exporter = Exporter::start(SocketAddr::from(([127, 0, 0, 1], 0))).unwrap();
        let status = |request: &str| {
            let text = asked(&exporter, request);
            text.split(' ').nth(1).map(str::to_owned)
        };
        let get = |path: &str| status(&format!("GET {path} HTTP/1.1\r\nhost: x\r\n\r\n"));
        assert_eq!(get("/").as_deref(), Some("404"));
        assert_eq!(get("/metrics?x=1").as_deref(), Some("200"));
        let post = "POST /metrics HTTP/1.1\r\nhost: x\r\ncontent-length: 0\r\n\r\n";
        assert_eq!(status(post).as_deref(), Some("405"));
        assert_eq!(status("nonsense\r\n\r\n").as_deref(), Some("400"));
    }
}
