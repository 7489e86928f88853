#!/usr/bin/env python3
"""The page at /, in a headless Chromium: a chat that streams, the live picture, keys, and what the page is never to do."""
import http.server
import json
import os
import re
import signal
import sys
import tempfile
import threading

from browser import Browser
from cluster import BUILD, Cluster, Skip, Tally, eventually, get_json, request

SIZE_MAX = 60000
SHOTS = BUILD / "page"  # to be looked at

MARKDOWN = """# Dogs

A **dog** is a *domesticated* animal, `Canis familiaris`; see [the article](https://example.org/dog) or https://example.org/dogs.

1. They bark
2. They run
   - fast
   - far

> Every dog has its day.

| breed | weight |
|---|---|
| Beagle | 10 kg |

```c
puts("<b>woof</b>");
```

<img src=x onerror="document.title='owned'"><script>document.title='owned'</script>
[one](javascript:document.title='owned') [two](https://example.org/"onmouseover="document.title='owned') [three](data:text/html,x)
snake_case_name and 2 * 3 * 4
"""

CONTRAST = """(() => {
    const style = getComputedStyle(document.documentElement);
    const colour = (name) => { const c = document.createElement('canvas').getContext('2d'); c.fillStyle = style.getPropertyValue('--' + name);
        c.fillRect(0, 0, 1, 1); return [...c.getImageData(0, 0, 1, 1).data].slice(0, 3); };
    const light = (c) => { const [r, g, b] = c.map((v) => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
        return 0.2126 * r + 0.7152 * g + 0.0722 * b; };
    const ratio = (a, b) => { const [x, y] = [light(colour(a)), light(colour(b))].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); };
    return [['text', 'ground'], ['text', 'card'], ['text', 'soft'], ['dim', 'ground'], ['dim', 'card'], ['dim', 'soft'], ['one', 'ground'],
        ['bad', 'ground'], ['on', 'one']].map(([a, b]) => [a, b, ratio(a, b)]).filter(([, , r]) => r < 4.5);
})()"""


def streamed(text):
    """The text as a server would stream it."""
    parts = [text[i:i + 7] for i in range(0, len(text), 7)]
    chunks = [{"choices": [{"index": 0, "delta": {"content": part}}], "usage": {"completion_tokens": i + 1}} for i, part in enumerate(parts)]
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    return "".join(f"data: {json.dumps(c)}\n\n" for c in chunks) + "data: [DONE]\n\n"


def set_field(page, name, value):
    page.eval(f"document.getElementById({json.dumps(name)}).value = {json.dumps(value)}")


def settings(page, **fields):
    page.click("#open-settings")
    page.until("document.querySelector('#settings').open", "the settings")
    for name, value in fields.items():
        set_field(page, name.replace("_", "-"), value)
    page.click("#settings .main")


def length(page, at):
    return page.eval(f"document.querySelectorAll('.assistant .text')[{at}]?.textContent.length ?? 0")


def stays_at_home(page, url):
    away = [r for r in page.requests if not r.startswith((url + "/", "data:"))]
    assert not away, away


def a_question_is_answered(cluster, page):
    page.until("document.querySelectorAll('.worker').length === 4", "four workers")
    settings(page, system="Be brief.", temperature="0.5", max_tokens="150")
    page.click("#prompt")
    page.type("What is a dog?")
    page.press("Enter", shift=True)
    assert page.eval("document.querySelector('#prompt').value.split('\\n').length") == 2, "a new line"
    page.type("Say it.")
    page.press("Enter")
    page.until("!!document.querySelector('.tools')", "the end of the answer")
    meta = page.text(".assistant .meta")
    assert re.search(r"TTFT\s[\d.]+ m?s\s+[\d.]+ tok/s\s+150 tokens\s+token limit reached", meta), meta
    sent = json.loads(page.posts[-1])
    assert sent["messages"] == [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "What is a dog?\nSay it."}]
    assert (sent["model"], sent["temperature"], sent["top_p"], sent["max_tokens"], sent["stream"]) == ("hash", 0.5, 0.9, 150, True), sent
    text = page.text(".assistant .text")
    page.reload()
    page.until("!!document.querySelector('.tools')", "the conversation after a reload")
    assert page.text(".assistant .text") == text and page.text(".user .text").startswith("What is a dog?")
    settings(page, max_tokens="60000")
    page.click("#prompt")
    page.type("More")
    page.click("#send")
    first = eventually(lambda: length(page, 1), "tokens")
    eventually(lambda: length(page, 1) > first + 60, "more of them")
    assert page.eval("document.querySelector('#send').getAttribute('aria-label')") == "Stop"
    page.until("/^TTFT .*m?s/.test(document.querySelectorAll('.assistant .meta')[1].innerText)", "TTFT")
    page.until("document.querySelector('#rate').textContent !== '0'", "the cluster's tokens per second")
    page.press("Escape")
    page.until("document.querySelectorAll('.assistant .meta')[1].innerText.includes('stopped')", "the answer stops")
    assert [m["role"] for m in json.loads(page.posts[-1])["messages"]] == ["system", "user", "assistant", "user"]
    eventually(lambda: get_json(cluster.port, "/admin/status")["routers"][0]["requests"]["running"] == 0, "its request is cancelled")
    assert page.problems == [], page.problems
    stays_at_home(page, cluster.url)


def defaults_are_shown_and_changed(cluster, browser):
    """A model without sampling defaults of its own is asked at ours, which the settings show; one that brings some is asked at its own."""
    page = browser.open(cluster.url + "/")
    page.until("document.querySelector('#served').innerText === 'hash'", "the model's name at the start")
    placeholders = "['temperature', 'top-p'].map((id) => document.getElementById(id).placeholder).join()"
    assert page.eval(placeholders) == "0.7,0.9", page.eval(placeholders)

    def sent(question):
        page.click("#prompt")
        page.type(question)
        page.press("Enter")
        page.until("!!document.querySelector('.assistant:last-child .problem') || document.querySelector('.assistant:last-child .text')?.textContent.length > 0",
                   "tokens, or a refusal")
        page.press("Escape")
        page.until("document.querySelector('#send').getAttribute('aria-label') === 'Send'", "the end")
        return {k: v for k, v in json.loads(page.posts[-1]).items() if k in ("temperature", "top_p")}
    assert sent("One") == {"temperature": 0.7, "top_p": 0.9}
    settings(page, temperature="0", top_p="0.5")
    assert sent("Two") == {"temperature": 0, "top_p": 0.5}
    settings(page, temperature="", top_p="")
    models = json.dumps({"object": "list", "data": [{"id": "own", "object": "model", "sampling": {"temperature": 0.6}}]})
    page.answer("/v1/models", 200, "application/json", models)
    page.reload()
    page.until("document.querySelector('#served').innerText === 'own'", "the other model")
    assert page.eval(placeholders) == "0.6,the model's own", page.eval(placeholders)
    assert sent("Three") == {}
    page.close()


def settings_count_at_once(cluster, browser):
    """A question that is sent in the very task that closes the settings is asked by them."""
    page = browser.open(cluster.url + "/")
    page.until("document.querySelector('#served').innerText === 'hash'", "the model's name")
    page.click("#open-settings")
    page.eval("""(() => {
        document.getElementById('max-tokens').value = '7';
        document.querySelector('#settings .main').click();
        document.getElementById('prompt').value = 'At once';
        document.getElementById('composer').requestSubmit();
    })()""")
    page.until("!!document.querySelector('.tools')", "the end of the answer")
    assert json.loads(page.posts[-1])["max_tokens"] == 7, page.posts[-1]
    page.close()


def a_worker_has_handles(cluster, browser):
    """Its process and host, a drain that is taken back, and a kill that is said before it is done."""
    page = browser.open(cluster.url + "/")
    page.until("document.querySelectorAll('.worker').length === 4", "four workers")
    card = "[aria-label=decode1]"
    old = next(w for w in cluster.workers() if w["name"] == "decode1")
    page.until(f"document.querySelector('{card} .place').innerText === 'pid {old['pid']} on {old['host']}'", "its process")
    button = lambda text: f"[...document.querySelectorAll('{card} .acts button')].find((b) => b.innerText === '{text}' && !b.hidden)"
    state = lambda: next(w["state"] for w in cluster.workers() if w["name"] == "decode1")
    page.eval(button("Drain") + ".click()")
    eventually(lambda: state() == "draining", "the drain")
    page.until(f"!!{button('Resume')}", "the way back")
    page.eval(button("Resume") + ".click()")
    eventually(lambda: state() == "ready", "work again")
    page.until(f"!!{button('Kill')}", "the button")
    assert "as a crash would" in page.eval(button("Kill") + ".title")
    page.eval(button("Kill") + ".click()")
    page.until(f"!!{button('Kill now')}", "it asks")
    assert next(w["pid"] for w in cluster.workers() if w["name"] == "decode1") == old["pid"]
    page.eval(button("Kill now") + ".click()")
    eventually(lambda: any(w["name"] == "decode1" and w["pid"] not in (0, old["pid"]) and w["state"] == "ready" for w in cluster.workers()),
               "another process")
    page.until("document.querySelector('#changes').innerText.includes('decode1 is gone')", "the loss is told")
    assert page.problems == [], page.problems
    page.close()


def a_lost_worker_is_seen(cluster, page):
    settings(page, max_tokens="400")

    def who_decodes():
        """While the answer runs, and not when it has ended in the meantime."""
        page.click("#fresh")
        page.type("Go on")
        page.press("Enter")
        eventually(lambda: length(page, 0) > 60, "tokens")
        return [w for w in cluster.workers("decode") if w["sequences"]["running"]]
    busy = eventually(who_decodes, "who decodes")[0]
    os.kill(busy["pid"], signal.SIGKILL)
    page.until(f"document.querySelector('#changes').innerText.includes('{busy['name']} is gone')", "the loss is told")
    page.until("document.querySelector('#changes').innerText.includes('went on on another worker')", "the replay is told")
    page.until(f"/{busy['name']}\\n+ready/.test(document.querySelector('#workers').innerText)", "it is back")
    page.until("!!document.querySelector('.tools')", "the end of the answer")
    assert "400 tokens" in page.text(".assistant .meta"), page.text(".assistant .meta")
    figures = dict(re.findall(r"^([A-Z][a-z/-]+s?)\n+(\S+)$", page.text("#figures"), re.M))
    assert int(figures["Replays"]) >= 1 and int(figures["Hand-offs"]) >= 3, figures
    assert page.problems == [], page.problems


def it_fits_and_can_be_read(page):
    SHOTS.mkdir(parents=True, exist_ok=True)
    grounds = set()
    for name, how in (("light", {}), ("dark", {"dark": True}), ("phone", {"width": 390, "height": 844, "mobile": True}),
                      ("narrow", {"width": 320, "height": 568, "mobile": True, "dark": True})):
        page.look(**how)
        grounds.add(page.eval("getComputedStyle(document.body).backgroundColor"))
        assert page.eval(CONTRAST) == [], (name, page.eval(CONTRAST))
        for view in ("chat", "cluster") if how.get("mobile") else ("both",):
            if view != "both":
                page.click(f"[data-show={view}]")
                assert page.eval(f"document.querySelector('#{view}').getBoundingClientRect().width === innerWidth"), (name, view)
            wide = page.eval("[...document.querySelectorAll('body *')].filter((e) => e.getBoundingClientRect().right > innerWidth + 1 && "
                             "!e.closest('.block, .wide')).map((e) => e.outerHTML.slice(0, 80))")
            assert wide == [], (name, view, wide)
            page.shot(SHOTS / f"{name}-{view}.png")
    assert len(grounds) == 2, grounds
    page.look()
    nameless = page.eval("[...document.querySelectorAll('button, input, select, textarea, [role=meter], [role=img]')].filter((e) => "
                         "!(e.getAttribute('aria-label') || e.innerText?.trim() || e.labels?.length || e.textContent.trim()))"
                         ".map((e) => e.outerHTML)")
    assert nameless == [], nameless
    page.click("#prompt")
    seen = []
    for _ in range(24):
        page.press("Tab")
        seen.append(page.eval("document.activeElement.id || document.activeElement.innerText || document.activeElement.tagName"))
    for name in ("open-settings", "fresh", "model", "prompt"):
        assert name in seen, (name, seen)


def a_long_name_of_a_model_fits(browser):
    """On a phone the head keeps its one line above the tabs."""
    with Cluster("--mixed", 1, "--served-model", "organisation/SmolLM2-135M-Instruct.Q4_1-of-a-long-name") as cluster:
        page = browser.open(cluster.url + "/", width=390, height=844, mobile=True)
        page.until("document.querySelector('#health').innerText === '1 worker'", "the worker")
        for width in (320, 390, 640):
            page.look(width=width, height=844, mobile=True)
            rows = page.eval("""[...document.querySelectorAll('header > :not(.views)')].map((e) => e.getBoundingClientRect())
                .map((r) => [r.top, r.bottom, r.right])""")
            assert max(top for top, _, _ in rows) < min(bottom for _, bottom, _ in rows), (width, rows)
            assert max(right for _, _, right in rows) <= width, (width, rows)
            assert page.eval("document.querySelector('#model').clientWidth") >= 72, width
            assert page.eval("(({scrollWidth, clientWidth}) => scrollWidth === clientWidth)(document.querySelector('#health span'))"), width
        page.close()


def thoughts_are_folded(cluster, browser):
    """What a model thinks is behind a line of its own, and no part of what is copied or said again."""
    page = browser.open("about:blank")
    chunks = [{"choices": [{"index": 0, "delta": {"reasoning": part, "reasoning_content": part}}]} for part in ("Well, ", "hm")]
    page.answer("/v1/chat/completions", 200, "text/event-stream", "".join(f"data: {json.dumps(c)}\n\n" for c in chunks) + streamed("It is Paris."))
    page.call("Page.navigate", url=cluster.url + "/")
    page.until("document.querySelectorAll('.worker').length === 4", "the page")
    page.click("#ideas button")
    page.until("!!document.querySelector('.tools')", "the answer")
    assert page.eval("document.querySelector('.thought').hidden === false && !document.querySelector('.thought').open")
    assert page.eval("document.querySelector('.thought div').textContent") == "Well, hm"
    assert page.eval("document.querySelector('.text.md').textContent").strip() == "It is Paris."
    page.click(".thought summary")
    page.until("document.querySelector('.thought').open", "the thoughts")
    assert page.problems == [], page.problems
    page.close()


def markdown_is_text(cluster, browser):
    page = browser.open("about:blank")
    page.answer("/v1/chat/completions", 200, "text/event-stream", streamed(MARKDOWN))
    page.call("Page.navigate", url=cluster.url + "/")
    page.until("document.querySelectorAll('.worker').length === 4", "the page")
    page.click("#ideas button")
    page.until("!!document.querySelector('.tools')", "the answer")
    inside = lambda selector: page.eval(f"[...document.querySelectorAll('.md {selector}')].map((e) => e.textContent)")
    assert inside("h3") == ["Dogs"] and inside("strong") == ["dog"] and inside("em") == ["domesticated"]
    assert inside("ol > li")[0] == "They bark" and inside("ol ul > li") == ["fast", "far"], inside("li")
    assert inside("blockquote") == ["Every dog has its day."] and inside("td") == ["Beagle", "10 kg"], inside("td")
    assert inside("pre code") == ['puts("<b>woof</b>");'] and inside("p code") == ["Canis familiaris"], inside("code")
    assert "snake_case_name and 2 * 3 * 4" in page.text(".md"), page.text(".md")
    links = page.eval("[...document.querySelectorAll('.md a')].map((a) => [a.protocol, a.rel, a.getAttributeNames().join()])")
    assert links and all(link == ["https:", "noopener noreferrer", "href,target,rel"] for link in links), links
    assert inside("img, .md script, .md b") == [] and "<img src=x onerror=" in page.text(".md")
    assert page.eval("document.title") == "Tandem"
    page.click(".block button")
    page.until("document.querySelector('.block button').textContent === 'Copied'", "the code was copied")
    assert page.problems == [], page.problems
    page.answer("/v1/chat/completions", 200, "text/event-stream", streamed("half an answer").split("data: [DONE]")[0])
    page.click("#prompt")
    page.type("And?")
    page.press("Enter")
    page.until("!!document.querySelector('.turn .problem')", "a stream that broke off is told")
    assert "half an answer" in page.text("#log") and "ended before the answer did" in page.text(".turn .problem")
    page.close()


def keys_are_asked_for(folder, browser):
    clients, admins = f"{folder}/clients", f"{folder}/admins"
    for path, key in ((clients, "client"), (admins, "admin")):
        with open(path, "w", encoding="ascii") as file:
            file.write(key + "\n")
        os.chmod(path, 0o600)
    with Cluster("--mixed", 1, "--api-keys", clients, "--admin-keys", admins) as cluster:
        page = browser.open(cluster.url + "/")
        page.until("!document.querySelector('#needs-key').hidden && !document.querySelector('#locked').hidden", "both keys are wanted")
        page.until("document.querySelector('#health').innerText === 'ready'", "the lamp without a key")
        page.click("#needs-key button")
        page.type("wrong")
        page.press("Enter")
        page.until("document.querySelector('#settings').open && document.querySelector('#key-row .problem').innerText.includes('does not fit')",
                   "a wrong key is told")
        page.press("Escape")
        page.eval("document.querySelector('#prompt').focus()")
        page.type("Hello")
        page.press("Enter")
        page.until("document.querySelector('.turn .problem')?.innerText.includes('does not take this API key')", "the refusal")
        page.click(".turn .problem button")
        page.until("document.activeElement.id === 'key'", "the field has the focus")
        settings_done(page, key="client", admin_key="admin")
        page.until("document.querySelector('#model').value === 'hash'", "the models")
        page.until("document.querySelectorAll('.worker').length === 1", "the picture")
        settings(page, max_tokens="5")
        page.click("#prompt")
        page.type("Hello again")
        page.press("Enter")
        page.until("!!document.querySelector('.tools')", "an answer")
        assert json.loads(page.posts[-1])["messages"] == [{"role": "user", "content": "Hello again"}], page.posts[-1]
        assert all("401" in problem for problem in page.problems), page.problems
        stays_at_home(page, cluster.url)
        page.close()


def settings_done(page, **fields):
    for name, value in fields.items():
        set_field(page, name.replace("_", "-"), value)
    page.click("#settings .main")


def it_is_one_small_file(cluster):
    status, headers, body = request(cluster.port, "GET", "/")
    assert status == 200 and headers["Content-Type"] == "text/html; charset=utf-8" and len(body) <= SIZE_MAX, (status, headers, len(body))
    policy = headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; ") and "unsafe" not in policy and "trusted-types 'none'" in policy, policy
    assert headers["X-Content-Type-Options"] == "nosniff" and headers["Cache-Control"] == "no-cache"
    status, again, rest = request(cluster.port, "GET", "/", headers={"If-None-Match": f'W/"x", {headers["ETag"]}'})
    assert (status, rest, again["ETag"]) == (304, b"", headers["ETag"]), (status, again)
    assert request(cluster.port, "GET", "/", headers={"If-None-Match": '"other"'})[0] == 200
    assert request(cluster.port, "HEAD", "/")[0] == 200 and request(cluster.port, "GET", "/x")[0] == 404
    assert request(cluster.port, "POST", "/", {})[0] == 405
    eventually(lambda: f"open {cluster.url}/ in a browser" in cluster.log_text(), "`tandem up` names it")
    return f"{len(body)} bytes"


def it_can_be_switched_off():
    with Cluster("--mixed", 1, env={"TANDEM_PAGE": "off"}) as cluster:
        assert request(cluster.port, "GET", "/")[0] == 404 and request(cluster.port, "GET", "/health")[0] == 200
        assert "in a browser" not in cluster.log_text()


def in_a_browser(tally, cluster, browser, folder):
    page = browser.open(cluster.url + "/")
    tally.run("a question is answered", a_question_is_answered, cluster, page)
    tally.run("a lost worker is seen", a_lost_worker_is_seen, cluster, page)
    tally.run("it fits and can be read", it_fits_and_can_be_read, page)
    tally.run("a long name of a model fits", a_long_name_of_a_model_fits, browser)
    tally.run("defaults are shown and changed", defaults_are_shown_and_changed, cluster, browser)
    tally.run("settings count at once", settings_count_at_once, cluster, browser)
    tally.run("a worker has handles", a_worker_has_handles, cluster, browser)
    tally.run("Markdown is text", markdown_is_text, cluster, browser)
    tally.run("thoughts are folded", thoughts_are_folded, cluster, browser)
    tally.run("keys are asked for", keys_are_asked_for, folder, browser)
    tally.run("pages of other origins ask", other_origins_ask, browser)


class Elsewhere(http.server.BaseHTTPRequestHandler):
    """A page of another origin."""

    def log_message(self, *args):
        pass

    def do_GET(self):
        self.send_response(200)
        self.send_header("Content-Type", "text/html")
        self.end_headers()
        self.wfile.write(b"<title>elsewhere</title>")


def other_origins_ask(browser):
    """A page of a listed origin sends what its library likes, and reads the request's id; one of another gets nothing."""
    elsewhere = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Elsewhere)
    threading.Thread(target=elsewhere.serve_forever, args=(0.02,), daemon=True).start()
    try:
        listed, foreign = (f"http://{host}:{elsewhere.server_port}" for host in ("127.0.0.1", "localhost"))
        with Cluster("--mixed", 1, "--cors-origins", listed) as cluster:
            def ask(page, **headers):
                fields = json.dumps({"Content-Type": "application/json", **headers})
                body = json.dumps({"prompt": "x", "max_tokens": 2})
                return page.eval(f"""fetch("{cluster.url}/v1/completions", {{method: "POST", headers: {fields}, body: {json.dumps(body)}}})
                    .then(async (r) => [r.status, r.headers.get("x-request-id"), (await r.json()).object], (e) => [0, e.message])""")
            page = browser.open(listed)
            for headers in ({}, {"x-stainless-lang": "js"}, {"OpenAI-Beta": "a", "X-Title": "b", "HTTP-Referer": "c", "x-request-id": "mine"}):
                status, name, kind = ask(page, **headers)
                assert (status, kind) == (200, "text_completion") and name and name == headers.get("x-request-id", name), (headers, status, name)
            page.close()
            page = browser.open(foreign)
            for headers in ({}, {"x-stainless-lang": "js"}):
                assert ask(page, **headers)[0] == 0, headers
            page.close()
    finally:
        elsewhere.shutdown()


def skip(reason):
    raise Skip(reason)


def main():
    tally = Tally()
    with Cluster("--prefill", 2, "--decode", 2, "--step-us", 10000) as cluster, tempfile.TemporaryDirectory() as folder:
        tally.run("it is one small file", it_is_one_small_file, cluster)
        try:
            with Browser() as browser:
                in_a_browser(tally, cluster, browser, folder)
        except Skip as reason:
            tally.run("the page in a browser", skip, reason)
    tally.run("it can be switched off", it_can_be_switched_off)
    return tally.end()


if __name__ == "__main__":
    sys.exit(main())
