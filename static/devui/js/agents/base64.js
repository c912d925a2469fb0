// Base64 of binary content in messages of live connections.

/** Return bytes as base64. For short content: the bytes become arguments of one call. */
export function encodeBase64(bytes) {
  return btoa(String.fromCharCode(...bytes));
}

/** Return the bytes of base64, also of its variant for addresses, which ADK sends. */
export function decodeBase64(base64) {
  const binary = atob(base64.replaceAll("-", "+").replaceAll("_", "/"));
  return Uint8Array.from(binary, (sign) => sign.charCodeAt(0));
}
