// Fuzzy match score: the typed letters in order, higher the closer they are to starts of words.

const WORD = 8;
const JOINED = 4;
const LONGEST_GAP = 12;
const LEAST_A_LETTER = 2.5;

/** Normalize letters, which input methods and file systems write differently: ｗ as w, é as one code point or two. */
const plainly = (text) => text.normalize("NFKC").toLocaleLowerCase();

/** Return the score of `text` for `typed`, 0 without a match; each word of `typed` must match. */
export function fit(typed, text) {
  const letters = plainly(text);
  let sum = 1;
  for (const word of plainly(typed).split(/\s+/).filter(Boolean)) {
    const found = fitOf(word, letters);
    if (!found) return 0;
    sum += found;
  }
  return sum;
}

function fitOf(word, letters) {
  let best = 0;
  for (let start = letters.indexOf(word[0]); start >= 0; start = letters.indexOf(word[0], start + 1)) {
    best = Math.max(best, fitFrom(start, word, letters));
  }
  return best;
}

/** Return the score of a word's letters in order, the first at `start`. */
function fitFrom(start, word, letters) {
  let sum = 0;
  let last = start - 1;
  for (const letter of word) {
    const at = letters.indexOf(letter, last + 1);
    if (at < 0 || at - last > LONGEST_GAP) return 0;
    if (at === 0 || /[^\p{L}\p{N}]/u.test(letters[at - 1])) sum += WORD;
    else sum += at === last + 1 ? JOINED : 1;
    last = at + letter.length - 1;
  }
  return sum < LEAST_A_LETTER * word.length ? 0 : sum;
}
