"""A headless Chromium for tests, driven by the DevTools protocol over a pipe: no other package is needed.

    with Browser() as browser:
        page = browser.open("http://127.0.0.1:8000/")
        page.click("#send")
        page.until("document.title === 'done'", "the title")

https://chromedevtools.github.io/devtools-protocol/ names the methods and their fields.
"""
import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

from cluster import Skip

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = ("--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--no-first-run", "--disable-gpu", "--hide-scrollbars",
         "--disable-dev-shm-usage", "--disable-background-networking", "--disable-component-update", "--disable-sync",
         "--no-default-browser-check", "--disable-extensions", "--force-color-profile=srgb", "--proxy-server=direct://")
KEYS = {"Enter": 13, "Escape": 27, "Tab": 9}


class Refused(Exception):
    """The browser did not do what it was asked for."""


class Browser:
    """One process with a profile of its own, gone at the end."""

    def __enter__(self):
        program = next((path for path in map(shutil.which, NAMES) if path), None)
        if program is None:
            raise Skip("no chromium is installed")
        self.profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        reads, self.out = os.pipe()
        self.source, writes = os.pipe()
        self.process = subprocess.Popen(
            ["bash", "-c", f'exec "$@" 3<&{reads} 4>&{writes}', "-", program, *FLAGS, f"--user-data-dir={self.profile.name}"],
            pass_fds=(reads, writes), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        os.close(reads)
        os.close(writes)
        self.bytes, self.n, self.answers, self.pages = b"", 0, {}, {}
        try:
            self.call("Browser.getVersion")
        except Refused as reason:
            self.__exit__(None, None, None)
            raise Skip(f"{program} does not start: {reason}") from reason
        return self

    def __exit__(self, *_):
        self.process.terminate()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.out)
        os.close(self.source)
        self.profile.cleanup()

    def take(self, seconds):
        """One message, if one comes in time: an answer is kept, an event goes to its page."""
        end = time.monotonic() + seconds
        while b"\0" not in self.bytes:
            left = end - time.monotonic()
            if left < 0 or not select.select([self.source], [], [], left)[0]:
                return
            more = os.read(self.source, 1 << 16)
            if not more:
                raise Refused("it has ended")
            self.bytes += more
        text, self.bytes = self.bytes.split(b"\0", 1)
        message = json.loads(text)
        if "id" in message:
            self.answers[message["id"]] = message
        elif message.get("sessionId") in self.pages:
            self.pages[message["sessionId"]].note(message["method"], message["params"])

    def send(self, method, session=None, **params):
        self.n += 1
        message = {"id": self.n, "method": method, "params": params, **({"sessionId": session} if session else {})}
        try:
            os.write(self.out, json.dumps(message).encode() + b"\0")
        except BrokenPipeError as reason:
            raise Refused("it has ended") from reason
        return self.n

    def call(self, method, session=None, **params):
        number, end = self.send(method, session, **params), time.monotonic() + 60
        while number not in self.answers:
            if time.monotonic() > end:
                raise Refused(f"{method}: no answer")
            self.take(1)
        answer = self.answers.pop(number)
        if "error" in answer:
            raise Refused(f"{method}: {answer['error']['message']}")
        return answer["result"]

    def open(self, url, **how):
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        page = self.pages[session] = Page(self, session, target)
        for domain in ("Page", "Runtime", "Log", "Network"):
            page.call(f"{domain}.enable")
        page.look(**how)
        page.call("Page.navigate", url=url)
        page.until("document.readyState === 'complete'", "the page has loaded")
        return page


class Page:
    """A tab. `problems`: what its console complained of; `requests`: every address that it asked for; `posts`: the bodies that it sent."""

    def __init__(self, browser, session, target):
        self.browser, self.session, self.target = browser, session, target
        self.problems, self.requests, self.posts, self.replies = [], [], [], {}

    def call(self, method, **params):
        return self.browser.call(method, self.session, **params)

    def note(self, method, params):
        if method == "Runtime.exceptionThrown":
            details = params["exceptionDetails"]
            self.problems.append(details.get("exception", {}).get("description") or details["text"])
        elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning", "assert"):
            self.problems.append(" ".join(str(a.get("value", a.get("description"))) for a in params["args"]))
        elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
            self.problems.append(f"{params['entry']['text']} {params['entry'].get('url', '')}")
        elif method == "Network.requestWillBeSent":
            self.requests.append(params["request"]["url"])
            self.posts += [params["request"]["postData"]] if "postData" in params["request"] else []
        elif method == "Fetch.requestPaused":
            self.fulfil(params)

    def look(self, width=1280, height=800, dark=False, mobile=False, still=True):
        """The size of the window, the colours, and whether things may move."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=mobile)
        self.call("Emulation.setEmulatedMedia", features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
            {"name": "prefers-reduced-motion", "value": "reduce" if still else "no-preference"}])

    def answer(self, path, status, kind, body):
        """From now on, requests for this path are answered here."""
        self.replies[path] = (status, kind, body)
        self.call("Fetch.enable", patterns=[{"urlPattern": f"*{path}"} for path in self.replies])

    def fulfil(self, paused):
        status, kind, body = next(r for path, r in self.replies.items() if paused["request"]["url"].endswith(path))
        self.browser.send("Fetch.fulfillRequest", self.session, requestId=paused["requestId"], responseCode=status,
                          responseHeaders=[{"name": "Content-Type", "value": kind}], body=base64.b64encode(body.encode()).decode())

    def eval(self, script):
        """The value of an expression, as JSON."""
        result = self.call("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise Refused(f"{script}: {result['exceptionDetails'].get('exception', {}).get('description')}")
        return result["result"].get("value")

    def until(self, script, what, seconds=60):
        end = time.monotonic() + seconds
        while True:
            late = time.monotonic() > end  # asked once more after the limit
            value = self.eval(script)
            if value:
                return value
            if late:
                raise AssertionError(f"not within {seconds} s: {what}; the page reads:\n{self.text('body')}\n{self.problems}")
            self.browser.take(0.03)

    def text(self, selector):
        return self.eval(f"document.querySelector({json.dumps(selector)})?.innerText")

    def click(self, selector):
        """With the mouse, in the middle of the element, which must be the one that is seen there."""
        at = self.eval(f"""(() => {{ const e = document.querySelector({json.dumps(selector)}), r = e.getBoundingClientRect();
            const x = r.x + r.width / 2, y = r.y + r.height / 2, hit = document.elementFromPoint(x, y);
            return e.contains(hit) || hit?.contains(e) ? [x, y] : String(hit?.outerHTML).slice(0, 200); }})()""")
        assert isinstance(at, list), f"{selector} is covered by {at}"
        for kind in ("mousePressed", "mouseReleased"):
            self.call("Input.dispatchMouseEvent", type=kind, x=at[0], y=at[1], button="left", clickCount=1)

    def type(self, text):
        """Into what has the focus."""
        self.call("Input.insertText", text=text)

    def press(self, key, shift=False):
        code = {"key": key, "code": key, "windowsVirtualKeyCode": KEYS[key], "modifiers": 8 if shift else 0}
        text = {"text": "\r"} if key == "Enter" else {}
        self.call("Input.dispatchKeyEvent", type="keyDown", **code, **text)
        self.call("Input.dispatchKeyEvent", type="keyUp", **code)

    def reload(self):
        self.call("Page.reload")
        self.until("document.readyState === 'complete'", "the page has loaded again")

    def shot(self, path):
        Path(path).write_bytes(base64.b64decode(self.call("Page.captureScreenshot", format="png")["data"]))

    def close(self):
        self.browser.call("Target.closeTarget", targetId=self.target)
