// Checks the page as a reader would see it. Returns its faults, and the number of marks in its charts.
(() => {
  const wrong = [];
  const name = (element) => element.outerHTML.slice(0, 90);
  const root = document.documentElement;
  if (root.scrollWidth > window.innerWidth) wrong.push(`the page is ${root.scrollWidth} wide in ${window.innerWidth}`);

  for (const element of document.querySelectorAll('body *')) {
    if (element.closest('.scroll') || element.closest('svg') || element.clientWidth === 0) continue;
    if (element.scrollWidth > element.clientWidth + 1) {
      wrong.push(`wider than its box (${element.scrollWidth} in ${element.clientWidth}): ${name(element)}`);
    }
  }
  for (const box of document.querySelectorAll('.scroll')) {
    if (box.getBoundingClientRect().right > window.innerWidth + 1) wrong.push(`beyond the edge: ${name(box)}`);
  }

  const luminance = (colour) => {
    const parts = colour.match(/[\d.]+/g).slice(0, 3).map((part) => part / 255)
      .map((part) => (part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4));
    return 0.2126 * parts[0] + 0.7152 * parts[1] + 0.0722 * parts[2];
  };
  const background = (element) => {
    for (let at = element; at; at = at.parentElement) {
      const colour = getComputedStyle(at).backgroundColor;
      if (colour && !colour.startsWith('rgba(0, 0, 0, 0')) return colour;
    }
    return 'rgb(255, 255, 255)';
  };
  for (const element of document.querySelectorAll('body *')) {
    const said = [...element.childNodes].some((node) => node.nodeType === 3 && node.data.trim());
    if (!said || !element.getClientRects().length || ['TITLE', 'DESC'].includes(element.tagName.toUpperCase())) continue;
    const style = getComputedStyle(element);
    const inks = luminance(element.closest('svg') ? style.fill : style.color);
    const paper = luminance(background(element));
    const contrast = (Math.max(inks, paper) + 0.05) / (Math.min(inks, paper) + 0.05);
    if (contrast < 4.5) wrong.push(`contrast ${contrast.toFixed(2)}: ${name(element)}`);
  }

  for (const link of document.querySelectorAll('a[href^="#"]')) {
    if (!document.getElementById(decodeURIComponent(link.getAttribute('href').slice(1)))) wrong.push(`leads nowhere: ${name(link)}`);
  }
  for (const one of document.querySelectorAll('[id]')) {
    if (document.querySelectorAll(`[id="${CSS.escape(one.id)}"]`).length > 1) wrong.push(`is not the only one: ${name(one)}`);
  }

  const charts = {};
  for (const chart of document.querySelectorAll('svg.chart')) {
    const box = chart.getBoundingClientRect();
    const texts = [...chart.querySelectorAll('text')].map((text) => [text, text.getBoundingClientRect()]);
    for (const [text, at] of texts) {
      if (at.left < box.left - 1 || at.right > box.right + 1 || at.top < box.top - 1 || at.bottom > box.bottom + 1) {
        wrong.push(`leaves its chart: ${name(text)}`);
      }
    }
    texts.forEach(([one, a], index) => {
      for (const [other, b] of texts.slice(index + 1)) {
        const across = Math.min(a.right, b.right) - Math.max(a.left, b.left);
        const down = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
        if (across > 0.5 && down > 3) wrong.push(`${name(one)} lies over ${name(other)}`);
      }
    });
    for (const group of chart.querySelectorAll('g')) {
      const within = group.querySelector('rect').getBoundingClientRect();
      for (const text of group.querySelectorAll('text')) {
        const at = text.getBoundingClientRect();
        if (at.width > 0 && (at.left < within.left - 0.5 || at.right > within.right + 0.5 || at.bottom > within.bottom + 2)) {
          wrong.push(`leaves its box (${at.width.toFixed()} in ${within.width.toFixed()}): ${name(text)}`);
        }
      }
    }
    const drawn = (selector) => [...chart.querySelectorAll(selector)].filter((mark) => {
      const at = mark.getBoundingClientRect();
      return at.width > 0 || at.height > 0;
    }).length;
    const labelled = chart.getAttribute('aria-labelledby').split(' ').every((id) => document.getElementById(id)?.textContent);
    if (!labelled) wrong.push(`has no title or description: ${name(chart)}`);
    charts[chart.getAttribute('aria-labelledby').replace(/-t .*/, '')] = {
      bars: drawn('rect.bar'), whiskers: drawn('line.whisker') / 3, ceilings: drawn('line.ceiling'),
      dots: drawn('circle'), lines: drawn('polyline'), texts: texts.length,
      medians: drawn('circle.median'), intervals: drawn('line.interval'), ranges: drawn('line.range'),
      means: drawn('path.mean'), published: drawn('path.published'), missing: drawn('circle.missing, rect.unmeasured'), refused: drawn('rect.refused'),
      places: drawn('rect.place'), bands: drawn('rect.band'),
    };
  }
  return { wrong, charts };
})()
