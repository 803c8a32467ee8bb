// A text character by character with what is known of its bytes: boundaries, their probabilities, surprise. Text becomes text
// nodes, never markup. A byte inside a character belongs to the character's box, with a bar of its own.
const rltokBytes = (() => {
  const FULL_BAR = 8;  // bits: surprises from here on have the highest bar
  const GLYPHS = {' ': '\u00b7', '\t': '\u21e5', '\n': '\u21b5\n', '\r\n': '\u240d\u21b5\n'};
  const NAMES = {' ': 'space', '\t': 'tab', '\n': 'new line', '\r\n': 'carriage return, new line'};
  const hex = c => 'U+' + c.codePointAt().toString(16).toUpperCase().padStart(4, '0');
  const glyph = part => GLYPHS[part] ?? (/^[\p{Cc}\p{Cf}]$/u.test(part) ? hex(part) : part);
  let views = 0;

  const make = (kind, properties = {}, ...children) => {
    const element = Object.assign(document.createElement(kind), properties);
    element.append(...children);
    return element;
  };

  // User-perceived characters of UTF-8 with the places of their bytes.
  function characters(data) {
    const text = new TextDecoder('utf-8', {ignoreBOM: true}).decode(data), encoder = new TextEncoder();
    const parts = window.Intl?.Segmenter ? [...new Intl.Segmenter().segment(text)].map(part => part.segment) : [...text];
    let start = 0;
    return parts.map(part => ({part, start, stop: start += encoder.encode(part).length}));
  }

  function describe(part, facts) {
    const bytes = facts.map(({byte, bits, boundary, probability}) => `byte ${byte}:`
      + (bits === undefined ? '' : ` surprise ${bits.toFixed(2)} bits,`)
      + (probability === undefined ? ` ${boundary ? 'a' : 'no'} boundary after it`
        : ` boundary after it ${probability.toFixed(2)}${boundary ? ', drawn' : ''}`));
    return `${NAMES[part] ?? glyph(part)} (${[...part].map(hex).join(' ')}) \u2013 ${bytes.join('; ')}`;
  }

  // Bars as layers of a background, so that letters join and turn as their script wants.
  function paint(element, facts, threshold, mirrored) {
    const layers = [], count = facts.length;
    const layer = (colour, width, height, x, y) => layers.push({
      image: `linear-gradient(${colour}, ${colour})`, size: `${width} ${height}`, position: `${mirrored ? 100 - x : x}% ${y}`,
    });
    facts.forEach(({bits = 0, boundary, probability = 0}, j) => {
      const x = count > 1 ? 100 * j / (count - 1) : 0, width = `${100 / count}%`, high = Math.min(1, bits / FULL_BAR);
      if (boundary && j < count - 1) layer('var(--rltok-ink)', '2px', '100%', 100 * (j + 1) / count, '0');
      const colour = boundary ? 'var(--rltok-drawn)' : 'var(--rltok-chance)';
      layer(colour, width, `calc(${probability} * var(--rltok-strip))`, x, '100%');
      layer('var(--rltok-surprise)', width, `calc(${high} * var(--rltok-strip))`, x, `calc(${1 - high} * var(--rltok-strip))`);
    });
    if (threshold !== undefined) layer('var(--rltok-ink)', '100%', '1px', 0, `calc(100% - ${threshold} * var(--rltok-strip))`);
    element.style.backgroundImage = layers.map(l => l.image).join();
    element.style.backgroundSize = layers.map(l => l.size).join();
    element.style.backgroundPosition = layers.map(l => l.position).join();
  }

  // `element` is a list of characters through which arrow keys lead; `detail` says in words what the chosen one's bytes hold.
  class View {
    constructor(label) {
      this.prefix = `rltok-bytes-${views++}`;
      this.element = make('div', {className: 'rltok-bytes', tabIndex: 0, lang: 'en'});
      this.element.setAttribute('role', 'listbox');
      this.element.setAttribute('aria-label', label);
      this.detail = make('p', {className: 'rltok-detail'});
      this.shown = [];
      this.current = 0;
      const pointed = event => {
        const index = this.shown.findIndex(({element}) => element === event.target);
        if (index >= 0) this.choose(index, false);
      };
      this.element.addEventListener('pointerover', pointed);
      this.element.addEventListener('click', pointed);
      this.element.addEventListener('keydown', event => {
        const last = this.shown.length - 1;
        const goal = {ArrowRight: this.current + 1, ArrowLeft: this.current - 1, Home: 0, End: last}[event.key];
        if (goal === undefined) return;
        event.preventDefault();
        this.choose(Math.max(0, Math.min(goal, last)), true);
      });
    }

    // facts: of each byte {byte, boundary, probability, bits}, the last two where they are known; `restarts`: bytes before which
    // the model started afresh.
    show(data, facts, {threshold, restarts = []} = {}) {
      let odd = false;
      this.shown = characters(data).map(({part, start, stop}, index) => {
        const mine = facts.slice(start, stop), title = describe(part, mine);
        const mirrored = /[\p{Script=Arabic}\p{Script=Hebrew}\p{Script=Syriac}\p{Script=Thaana}]/u.test(part);
        const element = make('span', {id: `${this.prefix}-${index}`, textContent: glyph(part), title});
        element.setAttribute('role', 'option');
        element.classList.toggle('odd', odd);
        element.classList.toggle('ends', mine.at(-1).boundary);
        element.classList.toggle('mirrored', mirrored);
        element.classList.toggle('afresh', restarts.some(at => start <= at && at < stop));
        if (mine.length > 4) element.style.paddingInline = `${mine.length / 2}px`;  // room for a bar a byte
        paint(element, mine, threshold, mirrored);
        if (mine.some(({boundary}) => boundary)) odd = !odd;
        return {element, part, title};
      });
      this.element.replaceChildren(...this.shown.flatMap(({element, part}) => part === ' ' ? [element, make('wbr')] : [element]));
      this.choose(Math.max(0, Math.min(this.current, this.shown.length - 1)), false);
    }

    choose(index, byKey) {
      this.shown[this.current]?.element.removeAttribute('aria-selected');
      this.current = index;
      const {element, title = ''} = this.shown[index] ?? {};
      this.detail.textContent = title;
      if (!element) return this.element.removeAttribute('aria-activedescendant');
      element.setAttribute('aria-selected', 'true');
      this.element.setAttribute('aria-activedescendant', element.id);
      if (!byKey) return;
      element.setAttribute('aria-label', title);
      element.scrollIntoView({block: 'nearest'});
    }
  }

  // What `rltok.show.readings.summary` begins with.
  const counted = (tokens, bytes) =>
    `${tokens} ${tokens === 1 ? 'boundary' : 'boundaries'} in ${bytes} byte${bytes === 1 ? '' : 's'}`;

  // What the bars mean.
  function keys(withSurprise) {
    const key = (kind, text) => make('span', {}, make('i', {className: `rltok-key-${kind}`}), ' ' + text);
    return make('p', {className: 'rltok-keys'},
      ...withSurprise ? [key('surprise', `above each byte: surprise (full height: ${FULL_BAR} bits or more)`)] : [],
      key('chance', 'below: probability of a boundary after it'),
      key('drawn', 'the same where one stands, with an upright line'));
  }

  return {View, make, counted, keys};
})();
