// Fuzzy match score: the typed letters in order, higher the closer they are to starts of words.

const WORD_START = 8;
const JOINED = 4;
const MAX_GAP = 12;
const MIN_PER_LETTER = 2.5;

/** Normalize letters, which input methods and file systems write differently: ｗ as w, é as one code point or two. */
const normalize = (text) => text.normalize("NFKC").toLocaleLowerCase();

/** Return the score of `text` for `typed`, 0 without a match; each word of `typed` must match. */
export function score(typed, text) {
  const letters = normalize(text);
  let sum = 1;
  for (const word of normalize(typed).split(/\s+/).filter(Boolean)) {
    const wordScore = scoreWord(word, letters);
    if (!wordScore) return 0;
    sum += wordScore;
  }
  return sum;
}

function scoreWord(word, letters) {
  let best = 0;
  for (let start = letters.indexOf(word[0]); start >= 0; start = letters.indexOf(word[0], start + 1)) {
    best = Math.max(best, scoreFrom(start, word, letters));
  }
  return best;
}

/** Return the score of a word's letters in order, the first at `start`. */
function scoreFrom(start, word, letters) {
  let sum = 0;
  let last = start - 1;
  for (const letter of word) {
    const at = letters.indexOf(letter, last + 1);
    if (at < 0 || at - last > MAX_GAP) return 0;
    if (at === 0 || /[^\p{L}\p{N}]/u.test(letters[at - 1])) sum += WORD_START;
    else sum += at === last + 1 ? JOINED : 1;
    last = at + letter.length - 1;
  }
  return sum < MIN_PER_LETTER * word.length ? 0 : sum;
}
