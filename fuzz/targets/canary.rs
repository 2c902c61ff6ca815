//! A bug that must be found: it takes coverage feedback to get there, so a fuzzer built without counters fails this run.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let word = b"canary";
    let known = data.iter().zip(word).take_while(|(a, b)| a == b).count();
    for depth in 0..known {
        std::hint::black_box(depth);
    }
    assert!(known < word.len(), "the canary sings");
});
