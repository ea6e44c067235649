// Lets the search work when the built pages are opened as files. A browser does not start workers from file:// pages,
// so there the theme's search script runs in a hidden frame of the page instead. Over http nothing changes.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.waiting = [];
      const frame = document.createElement("iframe");
      frame.hidden = true;
      document.body.append(frame);
      this.scope = frame.contentWindow;
      const load = (address) =>
        new Promise((done, failed) => {
          const script = this.scope.document.createElement("script");
          script.src = address;
          script.onload = done;
          script.onerror = () => failed(new Error(`Cannot load ${address}.`));
          this.scope.document.body.append(script);
        });
      this.scope.importScripts = async (...addresses) => {
        for (const address of addresses) await load(address);
      };
      this.scope.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }));
      load(url).then(() => {
        const waiting = this.waiting;
        this.waiting = null;
        waiting.forEach((data) => this.postMessage(data));
      });
    }

    postMessage(data) {
      if (this.waiting) this.waiting.push(data);
      else this.scope.dispatchEvent(new this.scope.MessageEvent("message", { data }));
    }
  };
}
