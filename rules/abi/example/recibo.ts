// The rule of plugins/README.md, in AssemblyScript: each line is cantidad × precioUni, and a share of what is above an amount that is
// free goes to a fund. Build it with
//
//   asc recibo.ts -O --runtime stub --use abort= -o recibo.wasm
//   dtectl rules test recibo/v1 --module recibo.wasm
//
// What the interface asks is explained in sum.ts. Amounts are integers of 1e-8.

const MAGIC: u32 = 0x31455444;
const HEADER: i32 = 32;
const MAX_LINES: i32 = 2000;
const ONE: u64 = 100_000_000;
const CENT: i64 = 1_000_000;
const MAX: u64 = 92_000_000_000 * ONE;

const description: ArrayBuffer = String.UTF8.encode(
  '{"abi":1,"name":"recibo","params":[{"name":"rate","unit":"ratio"},{"name":"free","unit":"USD"}],"scalars":[],' +
  '"columns":[{"name":"cantidad","kind":"amount","required":true},{"name":"precioUni","kind":"amount","required":true}],' +
  '"line_outputs":[{"name":"monto","kind":"amount"}],"summary":["total","fondo","totalPagar"],"taxes":[],' +
  '"faults":[{"code":"QUANTITY_NOT_POSITIVE","message":"La cantidad debe ser mayor que cero"},' +
  '{"code":"AMOUNT_OVERFLOW","message":"El monto, o la suma hasta esta línea, supera 92,000,000,000.00"}]}');

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

function word(i: i32): u32 { return load<u32>(buffer + 4 * i); }
function set(i: i32, value: i32): void { store<i32>(buffer + 4 * i, value); }

// times is a × b ÷ 1e-8, half up, of two amounts that are not negative; -1: it is beyond what an amount may be.
// 128 bits in two halves, divided bit by bit.
function times(a: u64, b: u64): i64 {
  const mask: u64 = 0xffffffff;
  const low = (a & mask) * (b & mask), left = (a >> 32) * (b & mask), right = (a & mask) * (b >> 32);
  const middle = (low >> 32) + (left & mask) + (right & mask);
  let high = (a >> 32) * (b >> 32) + (left >> 32) + (right >> 32) + (middle >> 32);
  let rest = (middle << 32) | (low & mask);
  rest += ONE / 2;
  if (rest < ONE / 2) high++;
  if (high >= ONE) return -1;
  let quotient: u64 = 0;
  for (let i = 0; i < 64; i++) { // high stays below 2 × 1e8
    high = (high << 1) | (rest >> 63);
    rest <<= 1;
    quotient <<= 1;
    if (high >= ONE) {
      high -= ONE;
      quotient |= 1;
    }
  }
  return quotient > MAX ? -1 : i64(quotient);
}

// cents rounds an amount that is not negative, half up.
function cents(a: i64): i64 { return (a + CENT / 2) / CENT * CENT; }

export function dte_evaluate(length: i32): i32 {
  if (length < HEADER || length > size || word(0) != MAGIC || word(1) != 1) return -1;
  const lines = word(5);
  if (lines > u32(MAX_LINES) || word(2) != 2 || word(3) != 0 || word(4) != (lines > 0 ? 2 : 0)) return -1;
  const n = i32(lines);
  if (length != HEADER + 16 + 16 * n) return -1;
  const rate = load<i64>(buffer + HEADER), free = load<i64>(buffer + HEADER + 8);

  // The wrong lines first, as many as there are: their answer is written over the input, always behind what is still to be read.
  let faults = 0;
  for (let i = 0; i < n; i++) {
    if (load<i64>(buffer + HEADER + 16 + 16 * i) <= 0) fault(faults++, 0, i, 0);
  }
  if (faults > 0) return refused(faults);
  let total: i64 = 0;
  for (let i = 0; i < n; i++) {
    const quantity = load<i64>(buffer + HEADER + 16 + 16 * i), price = load<i64>(buffer + HEADER + 24 + 16 * i);
    const amount = price < 0 ? -1 : times(quantity, price);
    if (amount < 0 || u64(total + amount) > MAX) {
      fault(0, 1, i, -1);
      return refused(1);
    }
    total += amount;
    store<i64>(buffer + HEADER + 8 * i, amount);
  }
  total = cents(total);
  const fund = cents(total > free ? times(total - free, rate) : 0);
  const summary = HEADER + 8 * n;
  store<i64>(buffer + summary, total);
  store<i64>(buffer + summary + 8, fund);
  store<i64>(buffer + summary + 16, total + fund);
  set(2, 1); // line outputs
  set(3, n);
  set(4, 3); // summary fields
  set(5, 0); // taxes
  set(6, 0); // faults
  set(7, 0);
  return summary + 24;
}

function fault(at: i32, code: i32, line: i32, column: i32): void {
  set(8 + 4 * at, code);
  set(9 + 4 * at, line);
  set(10 + 4 * at, column);
  set(11 + 4 * at, 0);
}

function refused(faults: i32): i32 {
  set(2, 1);
  set(3, 0);
  set(4, 0);
  set(5, 0);
  set(6, faults);
  set(7, 0);
  return HEADER + 16 * faults;
}
