"""A headless Chromium, driven by selenium, that records console errors and network requests."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.support.waiting import PATIENCE, wait_until

BROWSERS = ("chromium", "chromium-browser", "google-chrome")
ARGUMENTS = (
    "--headless=new", "--disable-gpu", "--disable-dev-shm-usage", "--mute-audio", "--no-first-run",
    "--autoplay-policy=no-user-gesture-required", "--force-prefers-reduced-motion", "--disable-background-networking",
)  # fmt: skip
OWN = ("data:", "blob:", "about:")
"""Schemes without network access."""


class Browser:
    """One window of Chromium."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def open(self, address: str | Path, *, width: int = 1200, height: int = 900, dark: bool = False) -> None:
        """Load a page (a file or a URL) in a window of this size in CSS pixels, and clear the logs."""
        view = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        # a real window is at least 500 wide
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", view)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [scheme]})
        self.driver.get("about:blank")
        for log in ("browser", "performance"):
            self.driver.get_log(log)
        self.driver.get(address.resolve().as_uri() if isinstance(address, Path) else address)
        # On a busy machine `get` may return while the blank page is still there.
        loaded = "return location.href !== 'about:blank' && document.readyState === 'complete'"
        wait_until(lambda: self.run(loaded))

    def run(self, script: str, *arguments: Any) -> Any:
        """Result of JavaScript run in the page, with `arguments[0]` and so on."""
        return self.driver.execute_script(script, *arguments)

    def complaints(self) -> list[str]:
        return [entry["message"] for entry in self.driver.get_log("browser") if entry["level"] in ("SEVERE", "WARNING")]

    def requests(self) -> list[str]:
        """Addresses requested since the page was opened or the last call, without OWN."""
        events = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        sent = [event for event in events if event["method"] == "Network.requestWillBeSent"]
        asked = [event["params"]["request"]["url"] for event in sent]
        return [address for address in asked if not address.startswith(OWN)]

    def overflow(self) -> int:
        """Number of CSS pixels by which the page is wider than the window."""
        return self.run("return document.documentElement.scrollWidth - document.documentElement.clientWidth")


def start_browser() -> Browser:
    """Start Chromium; skip the test if it, its driver or selenium is not installed."""
    selenium = pytest.importorskip("selenium.webdriver", reason="selenium is not installed (extra dev)")
    program = next((found for found in map(shutil.which, BROWSERS) if found), None)
    chromedriver = shutil.which("chromedriver")
    if program is None or chromedriver is None:
        pytest.skip("chromium and chromedriver are not installed; run: sh infra/install_system_packages.sh chromium")
    options = selenium.ChromeOptions()
    options.binary_location = program
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    for argument in ARGUMENTS:
        options.add_argument(argument)
    if os.geteuid() == 0:
        options.add_argument("--no-sandbox")  # namespaces are not available to root
    driver = selenium.Chrome(options=options, service=selenium.ChromeService(chromedriver))
    driver.set_script_timeout(PATIENCE)
    return Browser(driver)
