// A whole rule module in AssemblyScript, to show what the interface asks of any language: it copies every line's
// cantidad to ventaGravada and adds them up. Build it with
//
//   asc sum.ts -O --runtime stub --use abort= -o sum.wasm
//
// The stub runtime never frees: a rule takes its memory once. Without --use abort= the module would import env.abort,
// which rules do not get.

const MAGIC: u32 = 0x31455444;
const HEADER: i32 = 32;
const MAX_LINES: i32 = 2000;

// Made once, when the instance starts.
const description: ArrayBuffer = String.UTF8.encode(
  '{"abi":1,"name":"sum","params":[{"name":"rate","unit":"ratio"}],"scalars":[],' +
  '"columns":[{"name":"cantidad","kind":"amount","required":true}],' +
  '"line_outputs":[{"name":"ventaGravada","kind":"amount"}],"summary":["total"],"taxes":[],' +
  '"faults":[{"code":"AMOUNT_OVERFLOW","message":"La suma supera lo que cabe"}]}');

let buffer: usize = 0;
let size: i32 = 0;

export function dte_describe(): i64 {
  return (i64(changetype<usize>(description)) << 32) | i64(description.byteLength);
}

export function dte_buffer(wanted: i32): i32 {
  if (wanted > size) {
    buffer = heap.alloc(wanted);
    size = wanted;
  }
  return i32(buffer);
}

// word reads or writes one of the header's eight numbers.
function word(i: i32): u32 { return load<u32>(buffer + 4 * i); }
function set(i: i32, value: i32): void { store<i32>(buffer + 4 * i, value); }

export function dte_evaluate(length: i32): i32 {
  if (length < HEADER || length > size || word(0) != MAGIC || word(1) != 1) return -1;
  // One parameter, no scalar, one column if there is a line. Every count is checked before it is multiplied.
  const lines = word(5);
  if (lines > u32(MAX_LINES) || word(2) != 1 || word(3) != 0 || word(4) != (lines > 0 ? 1 : 0)) return -1;
  const n = i32(lines);
  if (length != HEADER + 8 + 8 * n) return -1;

  let total: i64 = 0;
  for (let i = 0; i < n; i++) {
    // The answer is written over the input, always behind what is still to be read.
    const amount = load<i64>(buffer + HEADER + 8 + 8 * i);
    const sum = total + amount;
    if (((total ^ sum) & (amount ^ sum)) < 0) return overflow(i);
    total = sum;
    store<i64>(buffer + HEADER + 8 * i, amount);
  }
  store<i64>(buffer + HEADER + 8 * n, total);
  set(2, 1); // line outputs
  set(3, n);
  set(4, 1); // summary fields
  set(5, 0); // taxes
  set(6, 0); // faults
  set(7, 0);
  return HEADER + 8 * n + 8;
}

// overflow answers the one fault that this rule knows: code 0, in a line, in no column.
function overflow(line: i32): i32 {
  set(2, 1);
  set(3, 0);
  set(4, 0);
  set(5, 0);
  set(6, 1);
  set(7, 0);
  set(8, 0);
  set(9, line);
  set(10, -1);
  set(11, 0);
  return HEADER + 16;
}
