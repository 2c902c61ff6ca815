//! Replies between the driver and the socket.

use super::slot::{Pool, UringSlot};
use crate::conn_io::{TAKEN_OVER, write};
use crate::driver::Driver;
use socket2::Socket;
use std::io;

/// Replies of this size are sent by themselves, from the driver's buffer: copying them to send them along with others
/// would cost more than the system call.
pub(super) const SEND_AT_ONCE: usize = 32 * 1024;

/// Where replies of one connection go.
pub(super) struct Output<'a> {
    pub(super) socket: &'a Socket,
    /// What is being sent, from `sent` on.
    pub(super) sending: &'a mut Vec<u8>,
    pub(super) sent: &'a mut usize,
    pub(super) waiting: &'a mut Vec<u8>,
}

impl Output<'_> {
    /// Takes over the driver's replies: large ones to the socket, if nothing is before them, the rest to be sent along
    /// with those of other connections.
    pub(super) fn take<D: Driver>(self, driver: &mut D, pool: &mut Pool) -> io::Result<()> {
        let mut bytes = driver.unsent();
        if bytes.is_empty() {
            return Ok(());
        }
        let mut result = Ok(());
        if bytes.len() >= SEND_AT_ONCE && self.waiting.is_empty() && self.sending.is_empty() {
            match write(self.socket, bytes) {
                Ok(written) if bytes.len() - written >= TAKEN_OVER => {
                    *self.sending = driver.take_unsent();
                    *self.sent = written;
                    return Ok(());
                }
                Ok(written) => bytes = &bytes[written..],
                Err(error) => result = Err(error),
            }
        }
        if !bytes.is_empty() {
            if self.waiting.capacity() == 0 {
                *self.waiting = pool.get();
            }
            self.waiting.extend_from_slice(bytes);
        }
        driver.sent();
        result
    }
}

/// Counts the unsent output, and tells the driver how much is held for the connection, if anything is or was.
pub(super) fn report<D: Driver>(slot: &mut UringSlot<D::Conn>, driver: &mut D, held: &mut usize) {
    let (input, output) = (slot.input.len(), slot.unsent());
    let Some(conn) = &mut slot.conn else {
        return;
    };
    *held = *held - slot.counted + output;
    slot.counted = output;
    slot.reported = input + output > 0;
    driver.buffered(conn, input, output);
}
