// The reading position in a conversation, restored when lines wrap differently, as when a phone is turned or a window resized.

/** The distances below the upper edge at which to look for the current element, in pixels: a gap between paragraphs belongs to their
 *  container. */
const BENEATH = [8, 24, 48, 96];

export class Anchor {
  constructor(scroller) {
    this.scroller = scroller;
  }

  /** Records the element at the top, and how much of it is above the edge. */
  note() {
    const { left, top } = this.scroller.getBoundingClientRect();
    const { clientWidth, clientHeight } = this.scroller;
    this.forget();
    for (const beneath of BENEATH) {
      const node = document.elementFromPoint(left + clientWidth / 2, top + beneath);
      if (!node || node === this.scroller || !this.scroller.contains(node)) continue;
      const box = node.getBoundingClientRect();
      if (this.read && box.height >= this.read.height) continue;
      this.read = { node, height: box.height, part: (top - box.top) / Math.max(1, box.height) };
      if (box.height < clientHeight) return;
    }
  }

  /** Forgets the element at the top, which is not being read. */
  forget() {
    this.read = undefined;
  }

  /** Restores the recorded position if the width has changed since, and returns whether it has. */
  restoreIfResized() {
    const { clientWidth } = this.scroller;
    if (clientWidth === this.width) return false;
    this.width = clientWidth;
    if (this.read?.node.isConnected) {
      const { top, height } = this.read.node.getBoundingClientRect();
      this.scroller.scrollTop += top + this.read.part * height - this.scroller.getBoundingClientRect().top;
    }
    return true;
  }
}
