const rgb = c => c.match(/[\d.]+/g).map(Number);
const light = c => { const [r, g, b] = rgb(c).map(v => v / 255)
  .map(v => v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
  return 0.2126 * r + 0.7152 * g + 0.0722 * b };
const behind = e => { for (; e; e = e.parentElement) {
  const c = getComputedStyle(e).backgroundColor;
  if (rgb(c)[3] !== 0) return c } return 'rgb(255,255,255)' };
let worst = {ratio: 99};
for (const e of document.querySelectorAll('h1,h2,h3,p,li,a,th,td,dt,dd,figcaption,summary,caption,label,input,code,.badge')) {
  if (e.tagName !== 'INPUT' && (!e.innerText || !e.innerText.trim())) continue;
  const [a, b] = [light(getComputedStyle(e).color), light(behind(e))];
  const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
  if (ratio < worst.ratio) worst = {ratio, text: e.innerText.slice(0, 40)};
}
return worst;
