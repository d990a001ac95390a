// The rule module of sum.ts in Rust, without its standard library. Build it with
//
//   rustc --target wasm32-unknown-unknown --edition 2021 --crate-type cdylib -C opt-level=2 -C panic=abort \
//     -C target-feature=-bulk-memory,-multivalue,-reference-types -o sum.wasm sum.rs
//
// (rustup target add wasm32-unknown-unknown; Debian: rustc libstd-rust-dev-wasm32 lld). A panic is a trap: it costs the instance.
#![no_std]

use core::ptr::{addr_of, addr_of_mut};

#[panic_handler]
fn panic(_: &core::panic::PanicInfo) -> ! {
    core::arch::wasm32::unreachable()
}

const MAGIC: u32 = 0x31455444;
const HEADER: usize = 32;
const MAX_LINES: usize = 2000;
const WORDS: usize = 16384; // 128 KiB: more than any message of this rule; the host never asks for less than 64 KiB

static DESCRIPTION: &str = concat!(
    r#"{"abi":1,"name":"sum","params":[{"name":"rate","unit":"ratio"}],"scalars":[],"#,
    r#""columns":[{"name":"cantidad","kind":"amount","required":true}],"#,
    r#""line_outputs":[{"name":"ventaGravada","kind":"amount"}],"summary":["total"],"taxes":[],"#,
    r#""faults":[{"code":"AMOUNT_OVERFLOW","message":"La suma supera lo que cabe"}]}"#
);

static mut BUFFER: [i64; WORDS] = [0; WORDS];

#[no_mangle]
pub extern "C" fn dte_describe() -> i64 {
    (DESCRIPTION.as_ptr() as i64) << 32 | DESCRIPTION.len() as i64
}

// dte_buffer answers 0, which is no address, when it has not as much.
#[no_mangle]
pub extern "C" fn dte_buffer(size: i32) -> i32 {
    if size as usize > 8 * WORDS {
        return 0;
    }
    #[allow(unused_unsafe)] // older compilers ask for it
    unsafe { addr_of!(BUFFER) as i32 }
}

// pair is two 32-bit integers in a word, the first one below.
fn pair(low: u32, high: u32) -> i64 {
    (u64::from(high) << 32 | u64::from(low)) as i64
}

#[no_mangle]
pub extern "C" fn dte_evaluate(length: i32) -> i32 {
    // One call at a time: nobody else holds the buffer.
    let words = unsafe { &mut *addr_of_mut!(BUFFER) };
    let length = length as u32 as usize;
    if length < HEADER || length > 8 * WORDS || words[0] != pair(MAGIC, 1) {
        return -1;
    }
    // One parameter, no scalar, one column if there is a line. Every count is checked before it is multiplied.
    let n = (words[2] as u64 >> 32) as usize;
    if n > MAX_LINES || words[1] != pair(1, 0) || words[2] as u32 != u32::from(n > 0) || length != HEADER + 8 + 8 * n {
        return -1;
    }
    let mut total: i64 = 0;
    for i in 0..n {
        // The answer is written over the input, always behind what is still to be read.
        let amount = words[5 + i];
        match total.checked_add(amount) {
            Some(sum) => total = sum,
            None => {
                words[1] = pair(1, 0); // no lines
                words[2] = 0; // no summary, no taxes
                words[3] = pair(1, 0); // one fault:
                words[4] = pair(0, i as u32); // code 0, in a line,
                words[5] = pair(u32::MAX, 0); // in no column
                return HEADER as i32 + 16;
            }
        }
        words[4 + i] = amount;
    }
    words[4 + n] = total;
    words[1] = pair(1, n as u32); // line outputs, lines
    words[2] = pair(1, 0); // summary fields, taxes
    words[3] = 0; // faults
    (HEADER + 8 * n + 8) as i32
}
