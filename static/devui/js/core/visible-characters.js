// Makes invisible characters visible in text that a script puts on the page (see sessions_app/presentation/visible_text.py).

const UNSEEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}]/gu;

/** Return text with invisible characters as escapes; line breaks and tabs stay. */
export function plain(text) {
  return text.replace(UNSEEN, (sign) => ("\n\t".includes(sign) ? sign : escapeOf(sign.codePointAt(0))));
}

function escapeOf(code) {
  const digits = code.toString(16);
  return code < 0x10000 ? `\\u${digits.padStart(4, "0")}` : `\\U${digits.padStart(8, "0")}`;
}
