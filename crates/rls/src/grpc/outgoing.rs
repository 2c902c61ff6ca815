//! What a connection of a runtime writes.

use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::AsyncWrite;

use super::KEPT_ROOM;

/// The peer went.
pub(super) struct Closed;

/// How far the bytes of a session have got.
#[derive(Default)]
pub(super) struct Outgoing {
    /// How many of them what wraps the socket has taken.
    pub(super) written: usize,
    /// It took bytes of which some may not have left it: those of TLS wait there for room in the socket.
    is_unflushed: bool,
}

impl Outgoing {
    /// Writes `out` and takes out of it what is written; ready once all of it has left.
    pub(super) fn poll<IO: AsyncWrite + Unpin>(
        &mut self,
        io: &mut IO,
        out: &mut Vec<u8>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Closed>> {
        while self.written < out.len() {
            let bytes = &out[self.written..];
            match ready!(Pin::new(&mut *io).poll_write(cx, bytes)) {
                Ok(count) if count > 0 => self.written += count,
                _ => return Poll::Ready(Err(Closed)),
            }
        }
        if self.written > 0 {
            self.written = 0;
            out.clear();
            out.shrink_to(KEPT_ROOM);
            self.is_unflushed = true;
        }
        if self.is_unflushed {
            ready!(Pin::new(io).poll_flush(cx)).map_err(|_| Closed)?;
            self.is_unflushed = false;
        }
        Poll::Ready(Ok(()))
    }
}

#[cfg(test)]
mod tests {
    use std::task::Waker;

    use tokio::io::{AsyncReadExt, BufWriter, duplex};

    use super::*;

    #[tokio::test]
    async fn what_wraps_a_full_socket_is_flushed_when_there_is_room_again() {
        const ROOM: usize = 16;
        let (near, mut far) = duplex(ROOM);
        let mut io = BufWriter::new(near);
        let (mut outgoing, mut out) = (Outgoing::default(), vec![7; 100]);
        let all = out.len();
        let mut came = 0;
        loop {
            let mut cx = Context::from_waker(Waker::noop());
            match outgoing.poll(&mut io, &mut out, &mut cx) {
                Poll::Ready(sent) => {
                    assert!(sent.is_ok());
                    break;
                }
                Poll::Pending => {
                    let mut piece = [0; ROOM];
                    came += far.read(&mut piece).await.expect("a piece");
                }
            }
        }
        // The last piece still lies in the socket.
        assert!(all - came <= ROOM, "{came} of {all} came");
    }
}
