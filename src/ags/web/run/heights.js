// @ts-check
/** Heights of many rows, most of them guessed: sums and searches in few steps (a Fenwick tree). */
export class Heights {
  constructor() {
    /** @type {number[]} */
    this._rows = [];
    /** @type {number[]} */
    this._tree = [0];
  }

  get length() {
    return this._rows.length;
  }

  /** @param {number} height */
  push(height) {
    const at = this._rows.push(height);
    let sum = height;
    for (let step = 1; step < (at & -at); step <<= 1) sum += this._tree[at - step];
    this._tree[at] = sum;
  }

  /** @param {number} index */
  get(index) {
    return this._rows[index];
  }

  /**
   * @param {number} index
   * @param {number} height
   */
  set(index, height) {
    const more = height - this._rows[index];
    this._rows[index] = height;
    for (let at = index + 1; at <= this._rows.length; at += at & -at) this._tree[at] += more;
  }

  /**
   * Where a row begins; with the number of rows, where all end.
   * @param {number} index
   */
  top(index) {
    let sum = 0;
    for (let at = Math.min(index, this._rows.length); at > 0; at -= at & -at) sum += this._tree[at];
    return sum;
  }

  /**
   * The row at that many pixels from the top.
   * @param {number} pixels
   */
  at(pixels) {
    let found = 0;
    let left = pixels;
    for (let step = 1 << 30; step > 0; step >>= 1) {
      const next = found + step;
      if (next <= this._rows.length && this._tree[next] <= left) {
        found = next;
        left -= this._tree[next];
      }
    }
    return Math.min(found, Math.max(0, this._rows.length - 1));
  }
}
