const cut = [], over = []; let texts = 0;
for (const svg of document.querySelectorAll('figure.chart svg')) {
  const whole = svg.getBoundingClientRect();
  const held = [...svg.querySelectorAll('text')].filter(t => t.textContent.trim())
    .map(t => ({said: t.textContent, box: t.getBoundingClientRect()}));
  texts += held.length;
  for (const {said, box} of held)
    if (box.left < whole.left - 1 || box.right > whole.right + 1 ||
        box.top < whole.top - 1 || box.bottom > whole.bottom + 1) cut.push(said);
  held.forEach((a, i) => held.slice(i + 1).forEach(b => {
    const wide = Math.min(a.box.right, b.box.right) - Math.max(a.box.left, b.box.left);
    const high = Math.min(a.box.bottom, b.box.bottom) - Math.max(a.box.top, b.box.top);
    if (wide > 2 && high > 4) over.push([a.said, b.said]) }));
}
return {texts, cut, over};
