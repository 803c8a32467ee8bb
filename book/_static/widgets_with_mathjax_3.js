// vendor/embed.js sets formulas in labels of widgets with MathJax 2; this hands them to MathJax 3, which the book carries.
document.addEventListener('DOMContentLoaded', () => {
  if (window.MathJax) MathJax.Hub = {Queue: ([, , label]) => MathJax.startup.promise.then(() => MathJax.typesetPromise([label]))};
});
