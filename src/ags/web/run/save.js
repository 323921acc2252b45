// @ts-check
/** A file for the person to keep. By a blob: a plain link could not carry the token. */

/**
 * @param {BlobPart} content
 * @param {string} name
 */
export function save(content, name) {
  // No type that a browser would open by itself: an agent may have written it.
  const url = URL.createObjectURL(new Blob([content], { type: "application/octet-stream" }));
  const link = document.createElement("a");
  link.href = url;
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}
