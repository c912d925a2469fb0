// What is read stays where it is, whatever is put above it: a change is made up for, and waits for a frame without motion.

let movedAt = 0;

/** Take note that this page scrolls by itself. */
export function noteMove() {
  movedAt = performance.now();
}

/** Wait for a frame in which this page does not scroll by itself: what is put above it then moves nothing for anybody. */
export function frame() {
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

/** Make a change, and scroll so that the first of the elements on the screen stands where it stood; return its result. */
export function hold(scroller, elements, change) {
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
