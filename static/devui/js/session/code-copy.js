// Copy button of code blocks: one button, which is moved behind the hovered or focused block.

import { copy } from "../core/clipboard.js";

const button = document.getElementById("code-copy");

function showAt(block) {
  if (button.previousElementSibling !== block) {
    button.hidden = false;
    block.after(button); // Tab leads from the block to the button
  }
  button.style.insetBlockStart = `${block.offsetTop}px`;
  button.style.left = `${block.offsetLeft + block.offsetWidth - button.offsetWidth}px`;
}

for (const type of ["pointerover", "focusin"]) {
  document.getElementById("session").addEventListener(type, ({ target }) => {
    const block = target.closest("pre");
    if (block) showAt(block);
  });
}

button.addEventListener("click", () => {
  copy(button, button.previousElementSibling.textContent.replace(/\n$/, "")); // a shell would run the last line
});
