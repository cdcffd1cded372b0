// Browser storage for the page: for the tab, or for all tabs. If a browser refuses or has no space, the values are kept in memory as long
// as the page is open.

class SafeStorage {
  /** `name` is the name of the browser's storage: even accessing it may be refused. */
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
      // Nothing is stored then.
    }
  }
}

export const inTab = new SafeStorage("sessionStorage");
export const inBrowser = new SafeStorage("localStorage");
