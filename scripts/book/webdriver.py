"""A headless Chromium with the network off, driven over WebDriver with the standard library alone.

Needs Debian's packages `chromium` and `chromium-driver`, or CHROMIUM and CHROMEDRIVER naming the two programs.
"""

import base64
import json
import os
import shutil
import subprocess
import tempfile
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

FLAGS = [
    "--headless=new", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--disable-dev-shm-usage", "--hide-scrollbars",
    "--host-resolver-rules=MAP * ~NOTFOUND",
]  # fmt: skip
TAB, DELETE, HOME, RIGHT = "\ue004", "\ue017", "\ue011", "\ue014"  # keys


def _program(variable: str, *names: str) -> str:
    program = os.environ.get(variable) or next((path for name in names if (path := shutil.which(name))), None)
    if program is None:
        raise SystemExit(
            f"the browser test needs {names[0]}. On Debian or Ubuntu: apt-get install chromium chromium-driver."
            f" Elsewhere set {variable} to the program."
        )
    return program


class Browser:
    """One window; what pages ask for and the errors they write are kept until `requests` and `errors` read them."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        binary = _program("CHROMIUM", "chromium", "chromium-browser", "google-chrome")
        self._driver = subprocess.Popen(
            [_program("CHROMEDRIVER", "chromedriver"), "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        lines = iter(self._driver.stdout.readline, "")
        ready = next((line for line in lines if "started successfully on port" in line), None)
        if ready is None:
            raise SystemExit("chromedriver did not start; run it by hand to see why.")
        self._root = f"http://127.0.0.1:{ready.split('port')[1].strip(' .' + chr(10))}"
        options = {"binary": binary, "args": [*FLAGS, f"--user-data-dir={self._folder.name}"]}
        logs = {"performance": "ALL", "browser": "SEVERE"}
        wanted = {"browserName": "chrome", "goog:chromeOptions": options, "goog:loggingPrefs": logs}
        session = self._post("/session", {"capabilities": {"alwaysMatch": wanted}})
        self._root += f"/session/{session['sessionId']}"
        self.devtools("Network.enable")
        self.devtools("Network.emulateNetworkConditions", offline=True, latency=0, downloadThroughput=0, uploadThroughput=0)

    def __enter__(self) -> "Browser":
        return self

    def __exit__(self, *_: object) -> None:
        try:
            urllib.request.urlopen(urllib.request.Request(self._root, method="DELETE"), timeout=30).close()
        finally:
            self._driver.terminate()
            self._driver.wait(timeout=30)
            self._driver.stdout.close()
            self._folder.cleanup()

    def _post(self, path: str, body: dict[str, Any]) -> Any:
        request = urllib.request.Request(
            self._root + path, json.dumps(body).encode(), {"Content-Type": "application/json"}, method="POST"
        )
        try:
            with urllib.request.urlopen(request, timeout=120) as reply:
                return json.loads(reply.read())["value"]
        except urllib.error.HTTPError as error:
            raise RuntimeError(json.loads(error.read())["value"]["message"].splitlines()[0]) from error

    def devtools(self, command: str, **parameters: Any) -> Any:
        """One command of the DevTools protocol."""
        return self._post("/goog/cdp/execute", {"cmd": command, "params": parameters})

    def shape(self, width: int, height: int, dark: bool) -> None:
        """Size of the page and the reader's wish for light or dark."""
        self.devtools("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.devtools("Emulation.setEmulatedMedia", features=[scheme])

    def open(self, page: Path) -> None:
        """Load a page of the disk and wait for it."""
        self._post("/url", {"url": page.resolve().as_uri()})

    def run(self, script: str) -> Any:
        """What a function body returns, promises awaited."""
        body = f"const done = arguments[0]; (async () => {{ {script} }})().then(done, e => done('' + e));"
        return self._post("/execute/async", {"script": body, "args": []})

    def press(self, key: str) -> None:
        """One key, down and up."""
        steps = [{"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]
        self._post("/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": steps}]})

    def requests(self) -> list[str]:
        """Addresses asked for since the last call."""
        messages = [json.loads(entry["message"])["message"] for entry in self._post("/se/log", {"type": "performance"})]
        return [m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent"]

    def errors(self) -> list[str]:
        """Errors on the console since the last call, each once: exceptions, rejections, failed requests, console.error."""
        return list(dict.fromkeys(entry["message"] for entry in self._post("/se/log", {"type": "browser"})))

    def picture(self, path: Path) -> None:
        """Screenshot of the window."""
        made = self.devtools("Page.captureScreenshot", format="png")
        path.write_bytes(base64.b64decode(made["data"]))
