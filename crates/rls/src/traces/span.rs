//! Spans as they are made.

use std::borrow::Cow;
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

use tollgate_wire::rls::{RateLimitDescriptor, RateLimitRequest};
use tollgate_wire::trace::any_value::Value;
use tollgate_wire::trace::{
    IS_REMOTE, KNOWS_REMOTE, KeyValue, SAMPLED, STATUS_ERROR, Span, SpanKind, SpanStatus,
    TraceParent,
};

use super::queue::Queue;
use super::sampling::Sampling;
use crate::backend::Draws;
use crate::clock;

/// Most descriptors of a request that its span names, and the longest text of an attribute, in bytes.
const MAX_DESCRIPTORS: usize = 16;
const MAX_TEXT: usize = 256;
/// Longest `tracestate` that is passed on, in bytes: as much as the standard asks for.
const MAX_STATE: usize = 512;

/// What a request over HTTP is part of.
#[derive(Clone, Debug)]
pub(crate) struct Parent {
    pub(crate) at: TraceParent,
    /// `tracestate` as it came.
    pub(crate) state: Option<Box<[u8]>>,
}

/// Makes the spans of one thread.
pub(crate) struct Tracer {
    queue: Arc<Queue>,
    sampling: Sampling,
    draws: Draws,
}

impl Tracer {
    /// For a share of calls from 0 to 1.
    pub(crate) fn new(queue: Arc<Queue>, share: f64) -> Rc<Self> {
        Rc::new(Self {
            queue,
            sampling: Sampling::new(share),
            draws: Draws::new(),
        })
    }

    /// The span of a call that begins now, if it has one.
    pub(crate) fn call(
        self: &Rc<Self>,
        parent: Option<TraceParent>,
        state: Option<&[u8]>,
        name: Cow<'static, str>,
    ) -> Option<CallSpan> {
        let trace = match parent {
            Some(parent) => parent.trace,
            None => self.number(),
        };
        if !self.sampling.takes(parent.as_ref(), &trace) {
            return None;
        }
        let remote = parent.map_or(0, |_| IS_REMOTE);
        Some(CallSpan {
            span: RefCell::new(Span {
                trace_id: trace.to_vec(),
                span_id: self.number::<8>().to_vec(),
                trace_state: parent.and(state).map_or_else(String::new, state_of),
                parent_span_id: parent.map_or_else(Vec::new, |parent| parent.span.to_vec()),
                name: name.into_owned(),
                kind: SpanKind::Server as i32,
                start_time_unix_nano: now(),
                flags: u32::from(SAMPLED) | KNOWS_REMOTE | remote,
                ..Span::default()
            }),
            tracer: self.clone(),
        })
    }

    /// One that is not all zeros.
    fn number<const N: usize>(&self) -> [u8; N] {
        let mut bytes = [0; N];
        while bytes == [0; N] {
            for part in bytes.chunks_mut(8) {
                part.copy_from_slice(&self.draws.any().to_be_bytes()[..part.len()]);
            }
        }
        bytes
    }
}

/// The span of a call under way. It ends when it is dropped.
pub(crate) struct CallSpan {
    span: RefCell<Span>,
    tracer: Rc<Tracer>,
}

impl CallSpan {
    pub(crate) fn set(&self, name: &str, value: impl Into<Value>) {
        let mut span = self.span.borrow_mut();
        span.attributes.push(KeyValue::new(name, value));
    }

    /// What was asked.
    pub(crate) fn asked(&self, request: &RateLimitRequest) {
        let descriptors = request.descriptors.iter().take(MAX_DESCRIPTORS);
        let descriptors: Vec<String> = descriptors.map(text_of).collect();
        let mut span = self.span.borrow_mut();
        span.attributes.extend([
            KeyValue::new("domain", cut(&request.domain)),
            KeyValue::new("ratelimit.descriptors", descriptors),
        ]);
    }

    /// It did not go well.
    pub(crate) fn fail(&self, message: &str) {
        self.span.borrow_mut().status = Some(error(message));
    }

    /// A step of it that begins now.
    pub(crate) fn step(&self, name: &str, kind: SpanKind) -> Step<'_> {
        let of = self.span.borrow();
        Step {
            span: Some(Span {
                trace_id: of.trace_id.clone(),
                trace_state: of.trace_state.clone(),
                span_id: self.tracer.number::<8>().to_vec(),
                parent_span_id: of.span_id.clone(),
                name: name.to_owned(),
                kind: kind as i32,
                start_time_unix_nano: now(),
                flags: u32::from(SAMPLED) | KNOWS_REMOTE,
                ..Span::default()
            }),
            queue: &self.tracer.queue,
        }
    }
}

impl Drop for CallSpan {
    fn drop(&mut self) {
        let mut span = std::mem::take(self.span.get_mut());
        end(&mut span);
        self.tracer.queue.push(span);
    }
}

/// A step of a call. It ends when it is dropped.
pub(crate) struct Step<'a> {
    /// `None` once it has ended.
    span: Option<Span>,
    queue: &'a Queue,
}

impl Step<'_> {
    pub(crate) fn set(&mut self, name: &str, value: impl Into<Value>) {
        if let Some(span) = &mut self.span {
            span.attributes.push(KeyValue::new(name, value));
        }
    }

    pub(crate) fn fail(&mut self, message: &str) {
        if let Some(span) = &mut self.span {
            span.status = Some(error(message));
        }
    }
}

impl Drop for Step<'_> {
    fn drop(&mut self) {
        if let Some(mut span) = self.span.take() {
            end(&mut span);
            self.queue.push(span);
        }
    }
}

/// What other systems have noted of a trace; nothing if it is longer than has to be passed on, or no text of them.
fn state_of(state: &[u8]) -> String {
    let state = state.trim_ascii();
    let is_text = state.iter().all(|byte| matches!(byte, b' '..=b'~'));
    match std::str::from_utf8(state) {
        Ok(text) if is_text && text.len() <= MAX_STATE => text.to_owned(),
        _ => String::new(),
    }
}

fn error(message: &str) -> SpanStatus {
    SpanStatus {
        message: cut(message),
        code: STATUS_ERROR,
    }
}

/// Never before it began, whatever the clock did.
fn end(span: &mut Span) {
    span.end_time_unix_nano = now().max(span.start_time_unix_nano);
}

/// Nanoseconds since 1970.
fn now() -> u64 {
    clock::now().nanos().unsigned_abs()
}

/// `key=value,key=value`.
fn text_of(descriptor: &RateLimitDescriptor) -> String {
    let mut text = String::new();
    for entry in &descriptor.entries {
        if text.len() >= MAX_TEXT {
            break;
        }
        if !text.is_empty() {
            text.push(',');
        }
        text.push_str(&cut(&entry.key));
        text.push('=');
        text.push_str(&cut(&entry.value));
    }
    cut(&text)
}

fn cut(text: &str) -> String {
    text[..text.floor_char_boundary(MAX_TEXT)].to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use tollgate_wire::rls::rate_limit_descriptor::Entry;

    #[test]
    fn a_call_and_its_step_are_one_trace() {
        let queue = Arc::new(Queue::new(10, 10));
        let tracer = Tracer::new(queue.clone(), 1.0);
        let call = tracer
            .call(None, None, "call".into())
            .expect("all have one");
        drop(call.step("step", SpanKind::Client));
        call.fail("no");
        drop(call);
        let [step, call] = &queue.take()[..] else {
            panic!("two spans")
        };
        assert_eq!(step.trace_id, call.trace_id);
        assert_eq!(step.parent_span_id, call.span_id);
        assert_ne!(step.span_id, call.span_id);
        assert_eq!((call.trace_id.len(), call.span_id.len()), (16, 8));
        assert!(call.parent_span_id.is_empty() && call.flags == 0x101);
        assert!(call.start_time_unix_nano <= step.start_time_unix_nano);
        assert!(step.end_time_unix_nano <= call.end_time_unix_nano);
        assert_eq!(call.status, Some(error("no")));
    }

    #[test]
    fn a_caller_says_what_it_is_part_of() {
        let queue = Arc::new(Queue::new(10, 10));
        let tracer = Tracer::new(queue.clone(), 0.0);
        let mut parent = TraceParent {
            trace: [1; 16],
            span: [2; 8],
            flags: 1,
        };
        let state = b" rojo=00f067aa0ba902b7,congo=t61rcWkgMzE ";
        let called = |parent, state: &[u8]| tracer.call(Some(parent), Some(state), "call".into());
        drop(called(parent, state).expect("sampled"));
        // What cannot be passed on is left out, and the trace goes on.
        for bad in [&[b'a'; MAX_STATE + 1] as &[u8], b"a=\xff", b"a=\nb"] {
            drop(called(parent, bad).expect("sampled"));
        }
        parent.flags = 0;
        assert!(called(parent, state).is_none());
        assert!(tracer.call(None, None, "call".into()).is_none());
        let [span, others @ ..] = &queue.take()[..] else {
            panic!("one span")
        };
        assert_eq!(span.trace_state, "rojo=00f067aa0ba902b7,congo=t61rcWkgMzE");
        assert_eq!(others.len(), 3);
        assert!(others.iter().all(|span| span.trace_state.is_empty()));
        assert_eq!((&span.trace_id[..], span.flags), (&[1; 16][..], 0x301));
        assert_eq!(span.parent_span_id, [2; 8]);
    }

    #[test]
    fn texts_have_a_bound() {
        let descriptor = RateLimitDescriptor {
            entries: vec![
                Entry {
                    key: "\u{fc}".repeat(1_000),
                    value: "v".repeat(1_000),
                };
                1_000
            ],
            ..RateLimitDescriptor::default()
        };
        assert!(text_of(&descriptor).len() <= MAX_TEXT);
    }
}
