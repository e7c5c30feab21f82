// What a reader with a keyboard or a screen reader misses on this page, as a list of texts.
const missing = [];
const need = (fine, what) => { if (!fine) missing.push(what) };
const all = selector => [...document.querySelectorAll(selector)];
const name = e => e.getAttribute('aria-label') || e.textContent.trim();
need(document.documentElement.lang, 'language');
need(document.title.trim(), 'title');
need(all('main').length === 1, 'one main');
need(all('h1').length === 1, 'one h1');
need(all('nav').every(e => e.getAttribute('aria-label')), 'names of navigations');
const ids = all('[id]').map(e => e.id);
ids.forEach((id, at) => need(ids.indexOf(id) === at, 'unique id ' + id));
all('a, summary, button').forEach(e => need(name(e), 'text of ' + e.outerHTML));
all('input, select, textarea').forEach(e => need(e.labels.length && name(e.labels[0]), 'label of ' + e.outerHTML));
all('img').forEach(e => need(e.hasAttribute('alt'), 'alt of ' + e.outerHTML));
all('[role=img]').forEach(e => need(e.getAttribute('aria-label'), 'name of a picture'));
all('svg').forEach(e => need(e.closest('[role=img], [aria-hidden=true]'), 'name of an svg'));
all('[role=region]').forEach(e => need(e.getAttribute('aria-label'), 'name of a region'));
all('table').forEach(e => {
  need(e.caption && name(e.caption), 'caption of a table');
  need(e.tHead && [...e.tHead.querySelectorAll('th')].every(h => h.scope === 'col'), 'columns of ' + name(e.caption));
  need([...e.querySelectorAll('tbody tr')].every(r => r.querySelector('th[scope=row]')), 'rows of ' + name(e.caption));
  need([...e.querySelectorAll('th')].every(name), 'headers of ' + name(e.caption));
});
// What scrolls by itself can be scrolled by keys.
all('*').forEach(e => {
  const scrolls = ['auto', 'scroll'].includes(getComputedStyle(e).overflowX) && e.scrollWidth > e.clientWidth;
  need(!scrolls || e.tabIndex >= 0, 'keys of ' + e.outerHTML.slice(0, 60));
});
let before = 1;
all('h1, h2, h3').forEach(e => {
  if (!e.getClientRects().length) return;
  const level = Number(e.tagName[1]);
  need(level <= before + 1, 'level of ' + name(e));
  before = level;
});
return missing;
