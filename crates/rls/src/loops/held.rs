//! Answers that wait for the append-only file of the store in this process, as the replies of its clients do.

use std::sync::Arc;

use tollgate_net::{ConnRef, Flow, Mailboxes};

use crate::service::Service;

/// What a connection is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Signal {
    /// A call of it was woken.
    Woken,
    /// The append-only file has got as far as the connection waits for.
    Kept,
}

/// What a connection holds back.
#[derive(Debug)]
pub(super) struct Held {
    answers: Vec<u8>,
    /// Where the file must be before they leave.
    until: u64,
    /// What is to become of the connection then.
    flow: Flow,
}

/// Keeps back the answers in `output` if they may not be told yet, or if others before them may not; how the connection
/// goes on.
#[cold]
pub(super) fn hold(
    held: &mut Option<Box<Held>>,
    output: &mut Vec<u8>,
    flow: Flow,
    service: &Service,
    waits: impl FnOnce(u64) -> bool,
) -> Flow {
    // What is written for a connection that is dropped is sent to nobody.
    if flow == Flow::Drop {
        return flow;
    }
    let until = match output.is_empty() {
        true => None,
        false => service.kept_at(),
    };
    if held.is_none() {
        let Some(until) = until.filter(|until| waits(*until)) else {
            return flow;
        };
        *held = Some(Box::new(Held {
            answers: Vec::new(),
            until,
            flow,
        }));
    }
    if let Some(held) = held {
        held.answers.append(output);
        held.until = held.until.max(until.unwrap_or(0));
        if !is_last(held.flow) {
            held.flow = flow;
        }
    }
    Flow::Hold
}

/// The file has got on: what was held back is put into `output` if it has got far enough; how the connection goes on.
#[cold]
pub(super) fn release(
    held: &mut Option<Box<Held>>,
    output: &mut Vec<u8>,
    is_aside: bool,
    waits: impl FnOnce(u64) -> bool,
) -> Flow {
    if held.as_ref().is_some_and(|held| waits(held.until)) {
        return Flow::Hold;
    }
    let flow = held.take().map(|mut held| {
        output.append(&mut held.answers);
        held.flow
    });
    match flow {
        Some(flow) if is_last(flow) => flow,
        _ if is_aside => Flow::Leave,
        _ => Flow::Continue,
    }
}

/// Whether nothing follows what was said.
fn is_last(flow: Flow) -> bool {
    matches!(flow, Flow::Farewell | Flow::Close)
}

/// What wakes a connection that waits for the file.
pub(super) fn waker(
    mailboxes: &Arc<Mailboxes<Signal>>,
    at: ConnRef,
) -> impl FnOnce() + Send + use<> {
    let mailboxes = mailboxes.clone();
    move || mailboxes.answer(at, Signal::Kept)
}
