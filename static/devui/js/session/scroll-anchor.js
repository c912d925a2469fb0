// Scroll anchoring: compensate for content inserted above, but not while the page scrolls.

let movedAt = 0;

/** Record that a script scrolls the page. */
export function recordScroll() {
  movedAt = performance.now();
}

/** Wait for a frame in which no script scrolls the page. */
export function waitForStillFrame() {
  if (document.hidden) return Promise.resolve();
  return new Promise((resolve) => {
    let since = 0;
    const look = (now) => {
      if (movedAt < since) resolve();
      else requestAnimationFrame(look);
      since = now;
    };
    requestAnimationFrame(look);
  });
}

/** Make a change and scroll so that the first visible element keeps its position. Return the change's result. */
export function keepPosition(scroller, elements, change) {
  const top = scroller.getBoundingClientRect().top;
  const anchor = elements().find((element) => element.getBoundingClientRect().bottom > top + 24);
  const before = anchor?.getBoundingClientRect().top;
  const result = change();
  if (anchor?.isConnected) {
    const moved = anchor.getBoundingClientRect().top - before;
    if (moved) scroller.scrollTop += moved;
  }
  return result;
}
