// Shows the first page of PDFs where the browser has a viewer; elsewhere a frame would start a download.

export function showPdfs(root = document) {
  if (!navigator.pdfViewerEnabled) return;
  for (const space of root.querySelectorAll("[data-pdf][hidden]")) {
    const frame = document.createElement("iframe");
    frame.src = `${space.dataset.pdf}#page=1&view=FitH&toolbar=0&navpanes=0`;
    frame.title = "First page of the PDF";
    frame.loading = "lazy";
    space.append(frame);
    space.hidden = false;
  }
}
