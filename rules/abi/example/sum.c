/* The rule module of sum.ts in C, without a library. Build it with clang and wasm-ld (Debian: clang lld):
 *
 *   clang --target=wasm32 -O2 -nostdlib -fno-builtin -mno-bulk-memory -Wl,--no-entry -Wl,-z,stack-size=65536 -o sum.wasm sum.c
 *
 * The buffer is at the end of the memory, which grows once for it. */

typedef unsigned int u32;
typedef int i32;
typedef long long i64;
typedef unsigned long long u64;

#define EXPORT(name) __attribute__((export_name(name)))
#define MAGIC 0x31455444u
#define HEADER 32
#define MAX_LINES 2000u
#define PAGE 65536u

static const char description[] =
    "{\"abi\":1,\"name\":\"sum\",\"params\":[{\"name\":\"rate\",\"unit\":\"ratio\"}],\"scalars\":[],"
    "\"columns\":[{\"name\":\"cantidad\",\"kind\":\"amount\",\"required\":true}],"
    "\"line_outputs\":[{\"name\":\"ventaGravada\",\"kind\":\"amount\"}],\"summary\":[\"total\"],\"taxes\":[],"
    "\"faults\":[{\"code\":\"AMOUNT_OVERFLOW\",\"message\":\"La suma supera lo que cabe\"}]}";

static i64 *buffer; /* 0 is no address: the host refuses it */
static u32 size;

EXPORT("dte_describe") i64 dte_describe(void) {
  return (i64)((u64)(u32)description << 32 | (sizeof description - 1));
}

EXPORT("dte_buffer") i32 dte_buffer(i32 wanted) {
  if ((u32)wanted > size) {
    u32 before = (u32)__builtin_wasm_memory_grow(0, ((u32)wanted + PAGE - 1) / PAGE);
    if (before == (u32)-1) return 0;
    buffer = (i64 *)(before * PAGE);
    size = (u32)wanted;
  }
  return (i32)buffer;
}

/* pair is two 32-bit integers in a word, the first one below. */
static i64 pair(u32 low, u32 high) { return (i64)((u64)high << 32 | low); }

EXPORT("dte_evaluate") i32 dte_evaluate(i32 length) {
  const u32 *header = (const u32 *)buffer;
  if (length < HEADER || (u32)length > size || header[0] != MAGIC || header[1] != 1) return -1;
  /* One parameter, no scalar, one column if there is a line. Every count is checked before it is multiplied. */
  u32 n = header[5];
  if (n > MAX_LINES || header[2] != 1 || header[3] != 0 || header[4] != (n > 0)) return -1;
  if ((u32)length != HEADER + 8 + 8 * n) return -1;

  i64 total = 0;
  for (u32 i = 0; i < n; i++) {
    /* The answer is written over the input, always behind what is still to be read. */
    i64 amount = buffer[5 + i], sum;
    if (__builtin_add_overflow(total, amount, &sum)) {
      buffer[1] = pair(1, 0); /* no lines */
      buffer[2] = 0;          /* no summary, no taxes */
      buffer[3] = pair(1, 0); /* one fault: */
      buffer[4] = pair(0, i); /* code 0, in a line, */
      buffer[5] = pair((u32)-1, 0); /* in no column */
      return HEADER + 16;
    }
    total = sum;
    buffer[4 + i] = amount;
  }
  buffer[4 + n] = total;
  buffer[1] = pair(1, n); /* line outputs, lines */
  buffer[2] = pair(1, 0); /* summary fields, taxes */
  buffer[3] = 0;          /* faults */
  return (i32)(HEADER + 8 * n + 8);
}
