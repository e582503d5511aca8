#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fishplate_wire::fuzz::request(data));
