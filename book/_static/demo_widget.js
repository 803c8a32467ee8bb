// The field on the first page in which a reader types: byte_view.js shows what demo_model.js computes.
// Without this script the picture that the page brings stays; nothing here asks for anything over a network.
document.addEventListener('DOMContentLoaded', () => {
  const MOST = 2048;  // bytes that are read; a longer text is cut, with a message
  const SLICE = 12, SILENCE = 400;  // milliseconds: of work between two pauses; before a change is read out
  const place = document.querySelector('.rltok-try');
  if (!place || typeof rltokDemo === 'undefined') return;
  const model = rltokModel.unpack(rltokDemo), rows = [], {make, counted} = rltokBytes;
  let uniforms, latest = 0, speaking;

  const field = make('textarea', {id: 'rltok-text', rows: 4, spellcheck: false, dir: 'auto'});
  const note = make('p', {className: 'rltok-note'});
  const drawn = make('input', {type: 'radio', name: 'rltok-mode', id: 'rltok-drawn', checked: true});
  const again = make('button', {type: 'button', textContent: 'Draw again'});
  const above = make('input', {type: 'radio', name: 'rltok-mode', id: 'rltok-above'});
  const slider = make('input', {type: 'range', min: 0.01, max: 0.99, step: 0.01, value: 0.5, id: 'rltok-threshold'});
  const level = make('output', {htmlFor: 'rltok-threshold'});
  const summary = make('p', {className: 'rltok-summary'});
  const view = new rltokBytes.View('The characters of the text; arrow keys go from one to the next');

  // The first `most` bytes, whole characters of them.
  function first(data, most) {
    let length = Math.min(data.length, most);
    while (length < data.length && (data[length] & 0xc0) === 0x80) length--;
    return data.subarray(0, length);
  }

  const pause = () => new Promise(done => setTimeout(done));

  // Bring the rows up to date; what stands before the first change is kept. Rows for which a reader has to wait are shown one by
  // one. False where a newer change took over.
  async function read(data, uniform, turn, show) {
    let start = performance.now(), waited = false;
    for (let from = 0; from < data.length; from += model.row_bytes) {
      const row = rows[from / model.row_bytes] ??= new rltokModel.Row(model);
      const bytes = data.subarray(from, from + model.row_bytes);
      const isKept = i => row.bytes[i] === bytes[i]
        && row.steps[i + 1].boundary === (uniform(from + i) < row.steps[i + 1].probability);
      let same = 0;
      while (same < Math.min(bytes.length, row.bytes.length) && isKept(same)) same++;
      row.cut(same);
      for (let i = same; i < bytes.length; i++) {
        row.push(bytes[i], uniform(from + i));
        if (performance.now() - start < SLICE) continue;
        await pause();
        waited = true;
        if (turn !== latest) return false;
        start = performance.now();
      }
      if (waited) show(first(data, from + model.row_bytes));
      waited = false;
    }
    return true;
  }

  // What the model says of each byte and of what stands after it.
  const factsOf = data => Array.from(data, (byte, i) => {
    const row = rows[Math.floor(i / model.row_bytes)], at = i % model.row_bytes, {boundary, probability} = row.steps[at + 1];
    return {byte, bits: row.surprises[at], boundary, probability};
  });

  function summarise(facts) {
    const count = facts.filter(({boundary}) => boundary).length, bits = facts.reduce((sum, fact) => sum + fact.bits, 0);
    const every = count ? `, one every ${(facts.length / count).toFixed(1)}` : '';
    return facts.length === 0 ? 'Nothing to read yet.'
      : `${counted(count, facts.length)}${every}; ${(bits / facts.length).toFixed(2)} bits a byte.`;
  }

  async function update() {
    const turn = ++latest, threshold = above.checked ? +slider.value : undefined;
    const given = new TextEncoder().encode(field.value.slice(0, MOST)), data = first(given, MOST);
    const show = part => view.show(part, factsOf(part), {threshold, restarts: rows.map((_, i) => i * model.row_bytes).slice(1)});
    clearTimeout(speaking);
    view.element.setAttribute('aria-busy', 'true');
    level.textContent = (+slider.value).toFixed(2);
    const isCut = data.length < given.length || field.value.length > MOST;
    const cut = `Only the first ${data.length} bytes are read here; the rest of the text is left out. `;
    const afresh = `The model reads ${model.row_bytes} bytes at a time and then starts afresh, at the dashed lines.`;
    note.textContent = (isCut ? cut : '') + (data.length > model.row_bytes ? afresh : '');
    if (!await read(data, threshold === undefined ? i => uniforms[i] : () => threshold, turn, show)) return;
    show(data);
    view.element.setAttribute('aria-busy', 'false');
    speaking = setTimeout(() => summary.textContent = summarise(factsOf(data)), SILENCE);
  }

  function redraw() {
    uniforms = Float64Array.from({length: MOST}, Math.random);
    update();
  }

  field.addEventListener('input', update);
  again.addEventListener('click', () => { drawn.checked = true; redraw(); });
  slider.addEventListener('input', () => { above.checked = true; update(); });
  for (const mode of [drawn, above]) mode.addEventListener('change', update);
  summary.setAttribute('aria-live', 'polite');
  note.setAttribute('role', 'status');
  slider.setAttribute('aria-label', 'Probability above which a boundary stands');
  field.value = place.querySelector('.rltok-tokens p').textContent;
  const label = (control, ...text) => make('label', {htmlFor: control.id}, ...text);
  place.replaceChildren(
    label(field, 'Your text'), field, note,
    make('fieldset', {}, make('legend', {textContent: 'Where a boundary stands'}),
      make('div', {}, drawn, label(drawn, 'drawn with the probabilities'), again),
      make('div', {}, above, label(above, 'where the probability is above ', level), slider)),
    summary, view.element, view.detail, rltokBytes.keys(true));
  redraw();
});
