//! Spans on their way to the thread that sends them.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use tokio::sync::Notify;
use tollgate_wire::trace::Span;

/// Spans that wait, at most as many as there is room for. It is locked for as long as a span is moved.
#[derive(Debug)]
pub(crate) struct Queue {
    spans: Mutex<Vec<Span>>,
    room: usize,
    batch: usize,
    /// As many wait as are sent at once.
    is_due: Notify,
    sent: AtomicU64,
    dropped: AtomicU64,
    failed: AtomicU64,
}

impl Queue {
    /// Room for so many, of which so many are sent at once.
    pub(crate) fn new(room: usize, batch: usize) -> Self {
        Self {
            spans: Mutex::new(Vec::with_capacity(room)),
            room,
            batch,
            is_due: Notify::new(),
            sent: AtomicU64::new(0),
            dropped: AtomicU64::new(0),
            failed: AtomicU64::new(0),
        }
    }

    pub(super) fn push(&self, span: Span) {
        let mut spans = self.spans.lock().unwrap_or_else(PoisonError::into_inner);
        if spans.len() >= self.room {
            drop(spans);
            self.dropped.fetch_add(1, Ordering::Relaxed);
            return;
        }
        spans.push(span);
        let is_due = spans.len() == self.batch;
        drop(spans);
        if is_due {
            self.is_due.notify_one();
        }
    }

    /// The oldest, up to as many as are sent at once.
    pub(super) fn take(&self) -> Vec<Span> {
        let mut spans = self.spans.lock().unwrap_or_else(PoisonError::into_inner);
        let count = spans.len().min(self.batch);
        spans.drain(..count).collect()
    }

    /// Waits until as many wait as are sent at once.
    pub(super) async fn due(&self) {
        self.is_due.notified().await;
    }

    /// Whether as many wait.
    pub(super) fn is_due(&self) -> bool {
        let spans = self.spans.lock().unwrap_or_else(PoisonError::into_inner);
        spans.len() >= self.batch
    }

    pub(super) fn count_sent(&self, spans: usize) {
        self.sent.fetch_add(spans as u64, Ordering::Relaxed);
    }

    pub(super) fn count_failed(&self, spans: usize) {
        self.failed.fetch_add(spans as u64, Ordering::Relaxed);
    }

    /// What became of spans, as names and help of counters with their values.
    pub(crate) fn numbers(&self) -> [(&'static str, &'static str, u64); 3] {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        [
            (
                "tollgate_trace_spans_sent_total",
                "Spans that the collector accepted.",
                of(&self.sent),
            ),
            (
                "tollgate_trace_spans_dropped_total",
                "Spans dropped because the queue was full.",
                of(&self.dropped),
            ),
            (
                "tollgate_trace_spans_failed_total",
                "Spans that the collector did not accept.",
                of(&self.failed),
            ),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_there_is_no_room_for_is_dropped_and_counted() {
        let queue = Queue::new(3, 2);
        assert!(!queue.is_due());
        for number in 0..5 {
            queue.push(Span {
                start_time_unix_nano: number,
                ..Span::default()
            });
        }
        assert!(queue.is_due());
        let began = |spans: Vec<Span>| -> Vec<u64> {
            spans.iter().map(|span| span.start_time_unix_nano).collect()
        };
        assert_eq!(began(queue.take()), [0, 1]);
        assert_eq!(began(queue.take()), [2]);
        assert!(queue.take().is_empty());
        queue.count_sent(2);
        queue.count_failed(1);
        assert_eq!(queue.numbers().map(|(_, _, value)| value), [2, 2, 1]);
    }
}
