//! Payloads of RESTORE: whatever they hold, they give a value or an error, and the value can be written and read again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use tollgate_persist::rdb::{Shapes, dump_value, restore_body, restore_value};

fuzz_target!(|body: &[u8]| {
    let shapes = Shapes::default();
    let Ok(value) = restore_body(body, &shapes) else {
        return;
    };
    // The checksum would keep the fuzzer out; what is written has one.
    let payload = dump_value(value.as_ref());
    let again = restore_value(&payload, &shapes);
    assert_eq!(again.as_ref(), Ok(&value), "an own payload is whole");
});
