// Where in a conversation somebody reads, to go on from there when its lines break elsewhere: a phone is turned, a window made wider.

/** How far beneath the upper edge what is read is looked for, in pixels: between two paragraphs stands what holds them all. */
const BENEATH = [8, 24, 48, 96];

export class Anchor {
  constructor(scroller) {
    this.scroller = scroller;
  }

  /** Notes what is at the top, and how much of it is above the edge. */
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

  /** Forgets what was at the top: nobody reads there. */
  forget() {
    this.read = undefined;
  }

  /** Goes back to what was at the top where the width is another one since then, and says whether it is. */
  turns() {
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
