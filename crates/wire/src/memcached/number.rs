//! Numbers as memcached reads them, with C's `strtoul` and its like: blanks and a sign in front and anything behind a blank are
//! passed over, and numbers of 32 bits are cut from those of 64.

/// The magnitude at the front of `text` and whether a minus stands before it.
fn read(text: &[u8]) -> Option<(u64, bool)> {
    let text = text.trim_ascii_start();
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    let len = digits.iter().take_while(|b| b.is_ascii_digit()).count();
    let ends = digits
        .get(len)
        .is_none_or(|b| b.is_ascii_whitespace() || *b == 0x0b);
    if len == 0 || !ends {
        return None;
    }
    let magnitude = digits[..len].iter().try_fold(0u64, |sum, digit| {
        sum.checked_mul(10)?.checked_add(u64::from(digit - b'0'))
    })?;
    Some((magnitude, negative))
}

/// A number of 64 bits without a sign.
pub fn parse_u64(text: &[u8]) -> Option<u64> {
    let (magnitude, negative) = read(text)?;
    match negative {
        // The number that C makes of it is told from a large one by looking for the minus.
        true if magnitude.wrapping_neg() >> 63 == 1 => None,
        true => Some(magnitude.wrapping_neg()),
        false => Some(magnitude),
    }
}

/// A number of 32 bits without a sign.
pub(crate) fn parse_u32(text: &[u8]) -> Option<u32> {
    parse_u64(text).map(|number| number as u32)
}

/// A number of 32 bits.
pub(crate) fn parse_i32(text: &[u8]) -> Option<i32> {
    let (magnitude, negative) = read(text)?;
    let number = match negative {
        true => 0i64.checked_sub_unsigned(magnitude)?,
        false => i64::try_from(magnitude).ok()?,
    };
    Some(number as i32)
}
