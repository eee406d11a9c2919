// Reads the data in the page: plain, or packed with gzip if there is much of it.

async function embeddedData(node) {
  if (node.dataset.packed !== "gzip") return JSON.parse(node.textContent);
  const letters = atob(node.textContent), bytes = new Uint8Array(letters.length);
  for (let n = 0; n < letters.length; n++) bytes[n] = letters.charCodeAt(n);
  if (typeof DecompressionStream === "undefined") return JSON.parse(new TextDecoder().decode(inflated(bytes.subarray(10))));
  return new Response(new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"))).json();
}

// For browsers without DecompressionStream: undoes DEFLATE (RFC 1951).
const LENGTHS = { base: [3, 4, 5, 6, 7, 8, 9, 10, 11, 13, 15, 17, 19, 23, 27, 31, 35, 43, 51, 59, 67, 83, 99, 115, 131, 163, 195, 227, 258], extra: [0, 0, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 5, 5, 5, 5, 0] };
const DISTANCES = { base: [1, 2, 3, 4, 5, 7, 9, 13, 17, 25, 33, 49, 65, 97, 129, 193, 257, 385, 513, 769, 1025, 1537, 2049, 3073, 4097, 6145, 8193, 12289, 16385, 24577], extra: [0, 0, 0, 0, 1, 1, 2, 2, 3, 3, 4, 4, 5, 5, 6, 6, 7, 7, 8, 8, 9, 9, 10, 10, 11, 11, 12, 12, 13, 13] };
const CODE_ORDER = [16, 17, 18, 0, 8, 7, 9, 6, 10, 5, 11, 4, 12, 3, 13, 2, 14, 1, 15];

function inflated(bytes) {
  let at = 0, bit = 0, out = new Uint8Array(bytes.length * 6), size = 0;
  const bits = (count) => {
    let value = 0;
    for (let n = 0; n < count; n++) {
      value |= ((bytes[at] >> bit) & 1) << n;
      if (++bit === 8) { bit = 0; at++; }
    }
    return value;
  };
  const room = (more) => {
    if (size + more <= out.length) return;
    const larger = new Uint8Array(Math.max(out.length * 2, size + more));
    larger.set(out);
    out = larger;
  };
  // A code as the number of symbols of each length, and the symbols in order.
  const code = (lengths) => {
    const counts = new Uint16Array(16), starts = new Uint16Array(16), symbols = new Uint16Array(lengths.length);
    for (const length of lengths) counts[length]++;
    counts[0] = 0;
    for (let n = 1; n < 16; n++) starts[n] = starts[n - 1] + counts[n - 1];
    lengths.forEach((length, symbol) => { if (length) symbols[starts[length]++] = symbol; });
    return { counts, symbols };
  };
  const next = ({ counts, symbols }) => {
    let value = 0, first = 0, index = 0;
    for (let length = 1; length < 16; length++) {
      value |= bits(1);
      if (value - first < counts[length]) return symbols[index + value - first];
      index += counts[length];
      first = (first + counts[length]) << 1;
      value <<= 1;
    }
    throw new Error("The data in this page is damaged.");
  };
  const dynamic = () => {
    const [literals, distances, given] = [bits(5) + 257, bits(5) + 1, bits(4) + 4];
    const own = new Array(19).fill(0), lengths = [];
    for (let n = 0; n < given; n++) own[CODE_ORDER[n]] = bits(3);
    const coded = code(own);
    while (lengths.length < literals + distances) {
      const symbol = next(coded);
      const [value, times] = symbol < 16 ? [symbol, 1] : symbol === 16 ? [lengths.at(-1), bits(2) + 3] : symbol === 17 ? [0, bits(3) + 3] : [0, bits(7) + 11];
      for (let n = 0; n < times; n++) lengths.push(value);
    }
    return [code(lengths.slice(0, literals)), code(lengths.slice(literals))];
  };
  const fixed = () => [code(Array.from({ length: 288 }, (_, n) => (n < 144 ? 8 : n < 256 ? 9 : n < 280 ? 7 : 8))), code(new Array(30).fill(5))];
  for (let last = 0; !last;) {
    last = bits(1);
    const kind = bits(2);
    if (kind === 0) {
      if (bit) { bit = 0; at++; }
      const length = bytes[at] | (bytes[at + 1] << 8);
      room(length);
      out.set(bytes.subarray(at + 4, at + 4 + length), size);
      at += 4 + length;
      size += length;
      continue;
    }
    const [literals, distances] = kind === 1 ? fixed() : dynamic();
    for (let symbol = next(literals); symbol !== 256; symbol = next(literals)) {
      if (symbol < 256) { room(1); out[size++] = symbol; continue; }
      const length = LENGTHS.base[symbol - 257] + bits(LENGTHS.extra[symbol - 257]);
      const far = next(distances), distance = DISTANCES.base[far] + bits(DISTANCES.extra[far]);
      room(length);
      for (let n = 0; n < length; n++, size++) out[size] = out[size - distance];
    }
  }
  return out.subarray(0, size);
}
