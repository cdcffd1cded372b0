// What a browser keeps for the page: for the tab, or for all of them. One that refuses to, or that has no room for more, leaves it to
// the page itself, for as long as that is open.

class Kept {
  /** `name` is that of the browser's own storage: already to ask for it may be refused. */
  constructor(name) {
    this.name = name;
    this.own = new Map();
  }

  get(place) {
    try {
      return this.own.get(place) ?? window[this.name].getItem(place);
    } catch {
      return null;
    }
  }

  set(place, text) {
    this.remove(place);
    try {
      window[this.name].setItem(place, text);
    } catch {
      this.own.set(place, text);
    }
  }

  remove(place) {
    this.own.delete(place);
    try {
      window[this.name].removeItem(place);
    } catch {
      // Then nothing stands there.
    }
  }
}

export const inTab = new Kept("sessionStorage");
export const inBrowser = new Kept("localStorage");
