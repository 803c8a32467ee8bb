// The line under a figure is for the comparison of stored outputs; a reader of the page has the figure.
document.addEventListener("DOMContentLoaded", () => {
  for (const pre of document.querySelectorAll(".cell_output .output.stream pre")) {
    if (/^figure( data)?: .*$/.test(pre.textContent.trim())) pre.closest(".output").style.display = "none";
  }
});
