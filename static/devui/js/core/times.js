// Shows <time data-epoch> in the viewer's time zone and language; hovering shows the exact time.

const DAY = 86_400;
const exact = new Intl.DateTimeFormat(undefined, {
  year: "numeric", month: "2-digit", day: "2-digit",
  hour: "2-digit", minute: "2-digit", second: "2-digit", fractionalSecondDigits: 3,
  hourCycle: "h23", timeZoneName: "short",
});
const clock = new Intl.DateTimeFormat(undefined, {
  hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23",
});
const thisYear = new Intl.DateTimeFormat(undefined, {
  month: "short", day: "numeric", hour: "2-digit", minute: "2-digit", hourCycle: "h23",
});
const otherYear = new Intl.DateTimeFormat(undefined, { year: "numeric", month: "short", day: "numeric" });
const ago = new Intl.RelativeTimeFormat(undefined, { numeric: "always", style: "narrow" });

function short(epoch, now) {
  const age = now - epoch;
  if (age >= -5 && age < 60) return ago.format(-Math.max(0, Math.round(age)), "second");
  if (age >= 60 && age < 3600) return ago.format(-Math.round(age / 60), "minute");
  const date = new Date(epoch * 1000);
  const today = new Date(now * 1000);
  if (date.toDateString() === today.toDateString()) return clock.format(date);
  if (date.getFullYear() === today.getFullYear() || Math.abs(age) < 180 * DAY) return thisYear.format(date);
  return otherYear.format(date);
}

function show(element, now) {
  const epoch = Number(element.dataset.epoch);
  if (!Number.isFinite(epoch)) return;
  const date = new Date(epoch * 1000);
  if (Number.isNaN(date.getTime())) return;
  element.textContent = element.dataset.style === "clock" ? clock.format(date) : short(epoch, now);
  if (!element.title) element.title = exact.format(date);
}

/** Localize every <time data-epoch> in `root`. Call it for all content that is added to the page. */
export function showTimes(root = document) {
  const now = Date.now() / 1000;
  if (root instanceof Element && root.matches("time[data-epoch]")) show(root, now);
  for (const element of root.querySelectorAll("time[data-epoch]")) show(element, now);
}
