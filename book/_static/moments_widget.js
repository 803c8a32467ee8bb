// A slider through training: the same text as several runs cut it at the same moment, from what their records hold.
// Without this script the last moments, which the page brings, stay.
document.addEventListener('DOMContentLoaded', () => {
  const place = document.querySelector('.rltok-moments');
  if (!place || typeof rltokMoments === 'undefined') return;
  const {texts, sizes} = rltokMoments, {make, counted} = rltokBytes;
  const WHITE = [9, 10, 11, 12, 13, 32];  // bytes

  const select = (id, names) => make('select', {id}, ...names.map((name, value) => make('option', {value, textContent: name})));
  const size = select('rltok-size', sizes.map(({name}) => name)), text = select('rltok-which', Object.keys(texts));
  const slider = make('input', {type: 'range', min: 0, id: 'rltok-moment'}), moment = make('output', {htmlFor: slider.id});
  const blocks = make('div');
  let views = [];
  moment.setAttribute('aria-live', 'polite');

  // The size's runs, each with a caption and a view.
  function begin() {
    const {runs, steps} = sizes[size.value];
    views = runs.map(run => ({run, view: new rltokBytes.View(`The characters as cut by: ${run.name}`), said: make('p')}));
    blocks.replaceChildren(...views.flatMap(({run, view, said}) =>
      [make('p', {className: 'rltok-run', textContent: run.name}), said, view.element, view.detail]));
    slider.max = slider.value = steps.length - 1;
    update();
  }

  function update() {
    const {steps, updates, bytes_per_update: bytes} = sizes[size.value], step = steps[slider.value];
    const name = Object.keys(texts)[text.value], data = new TextEncoder().encode(texts[name]);
    moment.textContent = `after update ${step} of ${updates} (${(step * bytes / 1e6).toFixed(1)} MB of text)`;
    slider.setAttribute('aria-valuetext', moment.textContent);
    for (const {run, view, said} of views) {
      const {boundaries, percent} = run.moments[name][slider.value];
      const facts = Array.from(data, (byte, i) =>
        ({byte, boundary: boundaries[i] === '1', probability: percent && +percent.slice(2 * i, 2 * i + 2) / 100}));
      const drawn = facts.filter(({boundary}) => boundary), white = facts.filter(({byte}) => WHITE.includes(byte));
      const both = `${drawn.filter(fact => white.includes(fact)).length} of them after the ${white.length} of white space`;
      said.textContent = `${counted(drawn.length, data.length)}, ${both}.`;
      view.show(data, facts);
    }
  }

  size.addEventListener('change', begin);
  for (const control of [text, slider]) control.addEventListener('input', update);
  const label = (control, ...parts) => make('label', {htmlFor: control.id}, ...parts);
  place.replaceChildren(
    make('div', {className: 'rltok-choices'}, label(size, 'Runs of'), size, label(text, 'Text'), text),
    make('div', {className: 'rltok-choices'}, label(slider, 'Moment: ', moment), slider),
    rltokBytes.keys(false), blocks);
  begin();
});
