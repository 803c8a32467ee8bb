// The forward pass of the demo model in plain JavaScript, one byte at a time, so that text that grows costs only its new bytes.
// The same computation as rltok/unet.py, layers.py, attention.py, policy.py and resample.py; equations are the paper's.
// Sums are in double precision. scripts/book/check_demo.py compares the results with Python's in a browser.
const rltokModel = (() => {
  const BOS = 256, EOS = 257;

  // What scripts/book/make_demo_weights.py wrote: {settings, dtype, tensors: [[name, shape], ...], data: base64}.
  function unpack(asset) {
    const bytes = Uint8Array.from(atob(asset.data), c => c.charCodeAt(0)), view = new DataView(bytes.buffer), weights = {};
    const wide = asset.dtype === 'float32', word = new DataView(new ArrayBuffer(4));
    let at = 0;
    for (const [name, shape] of asset.tensors) {
      const values = weights[name] = new Float32Array(shape.reduce((a, b) => a * b, 1));
      for (let i = 0; i < values.length; i++, at += wide ? 4 : 2) {
        word.setUint32(0, wide ? view.getUint32(at, true) : view.getUint16(at, true) << 16);  // bfloat16: the upper half
        values[i] = word.getFloat32(0);
      }
    }
    return {weights, ...asset.settings};
  }

  // W x, with W [out, in] row by row. Four sums at a time: one alone would wait for each addition.
  function product(w, x) {
    const width = x.length, y = new Float64Array(w.length / width);
    for (let o = 0, at = 0; o < y.length; o++, at += width) {
      let a = 0, b = 0, c = 0, d = 0;
      for (let i = 0; i < width; i += 4) {
        a += w[at + i] * x[i];
        b += w[at + i + 1] * x[i + 1];
        c += w[at + i + 2] * x[i + 2];
        d += w[at + i + 3] * x[i + 3];
      }
      y[o] = a + b + c + d;
    }
    return y;
  }

  function norm(x, weight, eps) {
    const scale = 1 / Math.sqrt(x.reduce((sum, v) => sum + v * v, 0) / x.length + eps);
    return x.map((v, i) => v * scale * (1 + weight[i]));
  }

  const gelu = x => 0.5 * x * (1 + Math.tanh(Math.sqrt(2 / Math.PI) * (x + 0.044715 * x * x * x)));
  const sigmoid = x => 1 / (1 + Math.exp(-x));

  // Turn the pairs (x_k, x_{k + D/2}) of each head by position * theta^(-2k/D).
  function rotate(x, position, {heads, theta}) {
    const width = x.length / heads, half = width / 2;
    for (let k = 0; k < half; k++) {
      const angle = position * theta ** (-k / half), cos = Math.cos(angle), sin = Math.sin(angle);
      for (let a = k; a < x.length; a += width) {
        const first = x[a], second = x[a + half];
        x[a] = first * cos - second * sin;
        x[a + half] = second * cos + first * sin;
      }
    }
    return x;
  }

  // Mix the values of entries from..to of a layer's memory for one query.
  function attend(q, memory, from, to, heads) {
    const mixed = new Float64Array(q.length), width = q.length / heads, scores = new Float64Array(to - from + 1);
    for (let h = 0; h < q.length; h += width) {
      for (let j = from; j <= to; j++) {
        let sum = 0;
        for (let k = h; k < h + width; k++) sum += q[k] * memory[j].key[k];
        scores[j - from] = sum / Math.sqrt(width);
      }
      const most = scores.reduce((a, b) => Math.max(a, b)), chances = scores.map(s => Math.exp(s - most));
      const total = chances.reduce((a, b) => a + b);
      for (let j = from; j <= to; j++)
        for (let k = h; k < h + width; k++) mixed[k] += chances[j - from] / total * memory[j].value[k];
    }
    return mixed;
  }

  const add = (x, y) => x.map((v, i) => v + y[i]);

  // One block (layers.py): entry `index` of its memory, which sees the entries from `first` on.
  function block(model, prefix, memory, x, index, first, position) {
    const w = name => model.weights[`${prefix}.${name}.weight`], normed = (name, v) => norm(v, w(name), model.eps), d = x.length;
    const qkv = product(w('qkv'), normed('pre_attention', x));
    memory[index] = {key: rotate(qkv.subarray(d, 2 * d), position, model), value: qkv.subarray(2 * d)};
    const mixed = attend(rotate(qkv.subarray(0, d), position, model), memory, first, index, model.heads);
    x = add(x, normed('post_attention', product(w('out'), mixed)));
    const both = product(w('mlp.gate_up'), normed('pre_mlp', x)), half = both.length / 2;
    const gated = both.subarray(0, half).map((gate, i) => gelu(gate) * both[half + i]);
    return add(x, normed('post_mlp', product(w('mlp.down'), gated)));
  }

  // One row: BOS and then bytes. After `push`, entry i of each list speaks of byte i, and boundaries of what stands after it.
  class Row {
    constructor(model) {
      this.model = model;
      this.memories = {};  // of each layer: keys and values of the positions or tokens it has seen
      this.steps = [];  // of each position, BOS first: what it decided
      this.bytes = [];
      this.surprises = [];  // bits
      this.advance(BOS, 0);  // a uniform of 0: on BOS there is always a boundary
    }

    blocks(level, count, x, index, window, position) {
      for (let n = 0; n < count; n++) {
        const prefix = `${level}_blocks.${n}`, memory = this.memories[prefix] ??= [];
        x = block(this.model, prefix, memory, x, index, Math.max(0, index - window + 1), position);
      }
      return x;
    }

    // Logit of a boundary at position i, eqs. (21) and (22); eq. (23) caps it in training only.
    logit(x, i) {
      const {weights, eps, scale, bias} = this.model;
      const terms = product(weights['rule.project.weight'], norm(x, weights['rule.norm.weight'], eps));
      let raw = terms[0];
      for (let lag = 1; lag < terms.length && lag <= i; lag++) if (this.steps[i - lag].boundary) raw += terms[lag];
      return raw / scale + bias;
    }

    // Everything that position i does: byte layers, the decision, a token where it falls, byte layers, eqs. (1) to (6).
    advance(id, uniform) {
      const {weights, window, layers, eps} = this.model, i = this.steps.length, d = weights['rule.norm.weight'].length;
      const embedded = Float64Array.from(weights['embedding.weight'].subarray(id * d, (id + 1) * d));
      const x = this.blocks('down', layers.down, embedded, i, window, i);
      const before = i ? this.steps[i - 1] : {tokens: 0}, probability = sigmoid(this.logit(x, i));
      const boundary = uniform < probability, tokens = before.tokens + boundary;  // eq. (19), and eq. (9)'s c(i)
      const token = boundary ? this.blocks('mid', layers.mid, x, tokens - 1, Infinity, i) : before.token;
      const decoded = this.blocks('up', layers.up, add(x, token), i, window, i);
      this.steps.push({boundary, tokens, token, probability, uniform, output: norm(decoded, weights['output_norm.weight'], eps)});
    }

    // -log2 p of the next byte.
    surprise(byte) {
      const logits = product(this.model.weights['output_head.weight'], this.steps.at(-1).output).subarray(0, EOS + 1);
      logits[BOS] = -Infinity;  // never predicted
      const most = logits.reduce((a, b) => Math.max(a, b));
      return (Math.log(logits.reduce((sum, l) => sum + Math.exp(l - most), 0)) + most - logits[byte]) / Math.LN2;
    }

    // Read one more byte; a boundary follows it where `uniform` is below its probability.
    push(byte, uniform) {
      this.surprises.push(this.surprise(byte));
      this.bytes.push(byte);
      this.advance(byte, uniform);
    }

    // Forget all but the first `length` bytes. Memories keep entries that are written anew before they are read.
    cut(length) {
      this.bytes.length = this.surprises.length = length;
      this.steps.length = length + 1;
    }
  }

  return {unpack, Row};
})();
