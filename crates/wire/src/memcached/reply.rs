//! Texts of replies that more than one place needs, and numbers in them.

/// The answer to a data block that does not end where the command said.
pub const BAD_CHUNK: &str = "CLIENT_ERROR bad data chunk";
/// The answer to most lines that are no command.
pub const BAD_FORMAT: &str = "CLIENT_ERROR bad command line format";
/// The answer to a value that is longer than allowed.
pub const TOO_LARGE: &str = "SERVER_ERROR object too large for cache";

/// Room for the digits of any number.
pub type Digits = [u8; 20];

/// The decimal digits of a number.
pub fn digits(number: u64, room: &mut Digits) -> &[u8] {
    let (mut at, mut rest) = (room.len(), number);
    loop {
        at -= 1;
        room[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            return &room[at..];
        }
    }
}
