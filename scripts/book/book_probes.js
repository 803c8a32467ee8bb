// What check_book.py asks a page of the book. Each function returns plain values.

async function formulas() {
  if (window.MathJax && MathJax.startup) await MathJax.startup.promise;
  const drawn = [...document.querySelectorAll('mjx-container')];
  const numbers = drawn.flatMap(c => [...c.querySelectorAll('mjx-assistive-mml mlabeledtr > mtd:first-child')]);
  return {
    wanted: document.querySelectorAll('.math').length,
    drawn: drawn.filter(c => c.querySelector('svg')).length,
    silent: drawn.filter(c => !c.querySelector('mjx-assistive-mml > math')).length,
    stops: drawn.filter(c => c.tabIndex >= 0).length,
    wrong: document.querySelectorAll('[data-mjx-error], mjx-assistive-mml [mathcolor="red"]').length,
    numbers: numbers.map(n => n.textContent.trim()),
  };
}

// Waits until the page has taken the theme that the reader asks for, two seconds at most.
async function follow(theme) {
  for (let i = 0; i < 40 && document.documentElement.dataset.theme !== theme; i++) await new Promise(done => setTimeout(done, 50));
}

// How far the page reaches beyond the window, what does so without a box of its own to scroll in, and formulas cut at the left.
function overflow() {
  const page = document.scrollingElement, limit = page.clientWidth + 1;
  const boxed = e => {
    for (let p = e.parentElement; p && p !== document.body; p = p.parentElement)
      if (['auto', 'scroll', 'hidden', 'clip'].includes(getComputedStyle(p).overflowX)) return true;
    return false;
  };
  const wide = [...document.querySelectorAll('article *')].filter(e => e.getBoundingClientRect().right > limit && !boxed(e));
  wide.push(...[...document.querySelectorAll('article mjx-container')].filter(e => e.getBoundingClientRect().left < -1));
  return {pixels: page.scrollWidth - page.clientWidth, what: wide.slice(0, 2).map(e => e.outerHTML.slice(0, 90))};
}

// Code and outputs, in folded cells too, that are wider than their box: those that the reader must scroll, and those that cannot be.
function cut() {
  const folded = [...document.querySelectorAll('article details:not([open])')];
  folded.forEach(e => { e.open = true; });
  const scrolls = e => {
    for (; e && e.localName !== 'article'; e = e.parentElement) {
      const kind = getComputedStyle(e).overflowX;
      if (kind !== 'visible') return kind === 'auto' || kind === 'scroll';
    }
    return false;
  };
  const wide = [...document.querySelectorAll('article pre, article .cell_output, article .cell_output *')].filter(
    e => e instanceof HTMLElement && e.clientWidth && e.scrollWidth > e.clientWidth + 1 && !e.closest('mjx-container') &&
      (e.localName === 'pre' || getComputedStyle(e).overflowX !== 'visible'));
  const innermost = wide.filter(e => !wide.some(other => other !== e && e.contains(other)));
  const start = e => e.textContent.trim().replace(/\s+/g, ' ').slice(0, 60);
  const named = list => list.map(e => `${e.scrollWidth - e.clientWidth} pixels of "${start(e)}"`);
  const found = {scrolled: named(innermost), lost: named(innermost.filter(e => !scrolls(e)))};
  folded.forEach(e => { e.open = false; });
  return found;
}

// Text whose contrast with what is behind it is under 3 (WCAG's limit for large text).
function contrast() {
  const rgb = s => s.match(/[\d.]+/g).map(Number);
  const linear = v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4;
  const luminance = c => 0.2126 * linear(c[0]) + 0.7152 * linear(c[1]) + 0.0722 * linear(c[2]);
  const ground = e => {
    for (; e; e = e.parentElement) {
      const c = rgb(getComputedStyle(e).backgroundColor);
      if (c.length < 4 || c[3] > 0.5) return c;
    }
    return [255, 255, 255];
  };
  const kinds = ['p', 'li', 'td', 'th', 'h1', 'h2', 'h3', 'code', 'a', 'span', 'summary', 'mjx-container'];
  const weak = [...document.querySelectorAll(kinds.map(k => 'article ' + k))].filter(e => {
    if (!e.textContent.trim() || !e.getClientRects().length || e.closest('svg')) return false;
    const [low, high] = [luminance(rgb(getComputedStyle(e).color)), luminance(ground(e))].sort((a, b) => a - b);
    return (high + 0.05) / (low + 0.05) < 3;
  });
  return {theme: document.documentElement.dataset.theme, weak: weak.slice(0, 2).map(e => e.outerHTML.slice(0, 90))};
}

// Numbers that a line may part from their error, and formulas from the mark behind them.
function apart() {
  const numbers = [...document.querySelectorAll('article :is(p, td, th)')].flatMap(
    e => e.textContent.match(/[\d.]+ ± \(?\d/g) || []);
  const formulas = [...document.querySelectorAll('article :is(p, td, th, li) .math')].filter(
    e => /^[.,;:!?)]/.test(e.nextSibling?.data || '') && getComputedStyle(e.parentElement).whiteSpace !== 'nowrap');
  return [...numbers, ...formulas.map(e => e.textContent.slice(0, 40) + e.nextSibling.data[0])];
}

// Coloured text, widgets and pictures that a page holds and shows.
function shown() {
  const seen = selector => [...document.querySelectorAll(selector)].filter(e => e.getClientRects().length).length;
  const images = [...document.querySelectorAll('article img')];
  return {
    coloured: seen('article span[style*="background"], article .rltok-tokens span'),
    models: document.querySelectorAll('script[type="application/vnd.jupyter.widget-view+json"]').length,
    widgets: seen('article .jupyter-widgets, article .lm-Widget'),
    apart: apart(),
    untold: images.filter(i => !i.alt.trim()).map(i => i.outerHTML.slice(0, 90)),  // those of widgets, too
    broken: images.filter(i => i.complete && i.naturalWidth === 0).map(i => i.getAttribute('src')),
  };
}

// What a page's head should hold for search engines, previews of links and tabs of browsers, and does not.
function unmarked() {
  const wanted = ['meta[name="description"]', 'meta[property="og:title"]', 'meta[property="og:image"]', 'link[rel="icon"]'];
  return wanted.filter(mark => !document.head.querySelector(mark));
}

// Where the keyboard is, and whether that can be seen.
function focused() {
  const e = document.activeElement, style = getComputedStyle(e);
  return {
    what: e.outerHTML.slice(0, 90),
    body: e === document.body,
    skip: !!e.closest('#pst-skip-link, .skip-link'),
    text: !!e.closest('main'),
    visible: (style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) > 0) || style.boxShadow !== 'none',
  };
}
