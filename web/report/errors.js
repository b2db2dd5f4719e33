// Errors are kept on <body>, where tests/report-page and a curious reader find them.
addEventListener("error", (event) => {
  document.body.dataset.errors = `${document.body.dataset.errors || ""}${event.message}\n`;
});
