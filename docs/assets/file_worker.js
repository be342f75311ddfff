// Search on pages that are opened from a disk: browsers start no worker there, so its script runs in a hidden frame.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(address) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      document.body.append(frame)
      this.inside = frame.contentWindow
      this.inside.postMessage = data => {
        const event = new MessageEvent("message", { data })
        this.dispatchEvent(event)
        this.onmessage?.(event)
      }
      this.inside.importScripts = (...addresses) =>
        addresses.reduce((done, each) => done.then(() => this.load(each)), Promise.resolve())
      this.ready = this.load(address)
    }
    load(address) {
      return new Promise((resolve, reject) => {
        const script = this.inside.document.createElement("script")
        script.src = new URL(address, document.baseURI).href
        script.onload = resolve
        script.onerror = reject
        this.inside.document.body.append(script)
      })
    }
    postMessage(data) {
      this.ready.then(() => this.inside.dispatchEvent(new MessageEvent("message", { data })))
    }
    terminate() {
      this.inside.frameElement.remove()
    }
  }
}
