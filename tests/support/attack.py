"""A session whose every text tries to be more than text in the page that shows it."""

from __future__ import annotations

from tests.support.session import PiSession

SCRIPT = (
    "</script></pre></style><script>document.title='hacked'</script><img src=x onerror=\"document.title='hacked'\">"
)
LINK = "javascript:document.title='hacked'"
TEXTS = (
    SCRIPT,
    f'"><a href="{LINK}">here</a>',
    "\u202egnp.exe\u202c\u2066\u200f",
    "\x00\x1b[31m\x07",
    "{{ 7 * 7 }}{% raw %}",
    "]]><svg onload=alert(1)><style>@import url(http://127.0.0.1:9/x)</style>",
    "<!--",
    "&lt;b&gt;&#x3c;b>",
    "W" * 60,
    "\u6c34" * 60,
)
"""What may stand in names and in results."""
LONG = "<b>" * (1 << 18) + "end"
"""A name of a tool, of nearly 1 MB."""


def attack(*, long: bool = True) -> PiSession:
    """Make a session that a run makes smaller, with such tools, projects, models and results.

    One that is `long` is too large for samples.
    """
    made = PiSession(cwd=f"/home/user/{SCRIPT}")
    made.provider, made.model = SCRIPT, SCRIPT
    made.opening()
    made.user("Go.")
    for number, text in enumerate((*TEXTS, LONG) if long else TEXTS):
        # Of different lengths, so that each is among the largest of something.
        lines = "".join(f"{line} {text[:200]}\n" for line in range(150 + number))
        made.step(text, {"command": text[:1000]}, lines)
    made.user("Go on.")
    for _ in range(60):
        made.step("bash", {"command": "ls"}, "a line of output that is recent\n" * 60)
    return made
