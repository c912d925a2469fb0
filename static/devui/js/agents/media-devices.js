// Refusals of cameras, microphones and screens, in words for people.

const REASONS = {
  NotAllowedError: (name) => `The ${name} was not allowed. Allow it in the browser's address bar, then press again.`,
  NotFoundError: (name) => `This computer has no ${name}.`,
  OverconstrainedError: (name) => `The chosen ${name} is gone. Choose another one.`,
  NotReadableError: (name) => `Another program uses the ${name}. Close it, then press again.`,
};

/** Return the browser's media devices. Throws an Error where browsers have none: on pages without TLS. */
export function requireDevices(name) {
  if (!navigator.mediaDevices) throw new Error(`Browsers allow a ${name} only on localhost or over HTTPS.`);
  return navigator.mediaDevices;
}

/** Return an Error that says why a device cannot be used, and what helps. */
export function explainRefusal(error, name) {
  return new Error(REASONS[error.name]?.(name) ?? `The ${name} does not work: ${error.message}`);
}
