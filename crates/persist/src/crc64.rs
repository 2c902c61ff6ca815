//! CRC-64 by Jones, the checksum at the end of an RDB file.

const POLYNOMIAL: u64 = 0x95AC_9329_AC4B_C9B5;

/// Eight tables: the checksum of eight bytes at once.
static TABLES: [[u64; 256]; 8] = tables();

const fn tables() -> [[u64; 256]; 8] {
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u64;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 {
                (crc >> 1) ^ POLYNOMIAL
            } else {
                crc >> 1
            };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut table = 1;
    while table < 8 {
        let mut byte = 0;
        while byte < 256 {
            let before = tables[table - 1][byte];
            tables[table][byte] = tables[0][(before & 0xFF) as usize] ^ (before >> 8);
            byte += 1;
        }
        table += 1;
    }
    tables
}

/// The checksum of what had `crc`, followed by `bytes`; starts at 0.
pub(crate) fn update(mut crc: u64, bytes: &[u8]) -> u64 {
    let mut words = bytes.chunks_exact(8);
    for word in &mut words {
        let mut eight = [0; 8];
        eight.copy_from_slice(word);
        crc ^= u64::from_le_bytes(eight);
        let parts = crc.to_le_bytes();
        crc = 0;
        for (table, part) in TABLES.iter().rev().zip(parts) {
            crc ^= table[usize::from(part)];
        }
    }
    for &byte in words.remainder() {
        crc = TABLES[0][((crc ^ u64::from(byte)) & 0xFF) as usize] ^ (crc >> 8);
    }
    crc
}

#[cfg(test)]
mod tests {
    use super::update;

    #[test]
    fn check_values_of_redis() {
        assert_eq!(update(0, b"123456789"), 0xe9c6_d914_c4b8_d9ca);
        assert_eq!(update(0, b""), 0);
    }

    #[test]
    fn pieces_give_the_checksum_of_the_whole() {
        let data: Vec<u8> = (0..100u8).collect();
        for cut in 0..data.len() {
            assert_eq!(
                update(update(0, &data[..cut]), &data[cut..]),
                update(0, &data)
            );
        }
    }
}
