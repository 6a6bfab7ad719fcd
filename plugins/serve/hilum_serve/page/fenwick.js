// A Fenwick tree of row heights: prefix sums, updates and searches in O(log n).

export class Fenwick {
  /** @param {ArrayLike<number>} heights One non-negative number per row. */
  constructor(heights) {
    const count = heights.length;
    this.count = count;
    this.heights = Float64Array.from(heights);
    this.tree = new Float64Array(count + 1);
    for (let index = 1; index <= count; index++) {
      this.tree[index] += this.heights[index - 1];
      const parent = index + (index & -index);
      if (parent <= count) {
        this.tree[parent] += this.tree[index];
      }
    }
    this.highestBit = 1;
    while (this.highestBit * 2 <= count) {
      this.highestBit *= 2;
    }
  }

  get total() {
    return this.offset(this.count);
  }

  /** Return the sum of the heights before a row. */
  offset(index) {
    let sum = 0;
    for (let node = index; node > 0; node -= node & -node) {
      sum += this.tree[node];
    }
    return sum;
  }

  /** Set the height of a row. */
  set(index, height) {
    const change = height - this.heights[index];
    this.heights[index] = height;
    for (let node = index + 1; node <= this.count; node += node & -node) {
      this.tree[node] += change;
    }
  }

  /** Return the row at a position in pixels; the last row for positions behind the end. */
  find(position) {
    let node = 0;
    let left = Math.max(0, position);
    for (let bit = this.highestBit; bit > 0; bit >>= 1) {
      const next = node + bit;
      if (next <= this.count && this.tree[next] <= left) {
        node = next;
        left -= this.tree[next];
      }
    }
    return Math.min(node, Math.max(0, this.count - 1));
  }
}
