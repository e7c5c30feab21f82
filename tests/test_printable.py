"""Text of others on terminals, in JSON and in XML."""

import io
import json
import subprocess
import sys
from xml.etree import ElementTree
from xml.sax.saxutils import escape

from rich.console import Console

from harness import jsonfile
from harness.printable import PrintableStream, printable
from harness.progress import BarProgress, _with_codes
from harness.store.documents import json_bytes

EVERY = "".join(map(chr, range(sys.maxunicode + 1)))
HOSTILE = "\x1b]52;c;QQ==\x07\x9b31m\r\x7f\udc80"


def test_every_character_of_unicode_can_be_written_and_is_xml() -> None:
    text = printable(EVERY)
    assert text.encode().decode() == text
    assert printable(text) == text
    ElementTree.fromstring(f"<a>{escape(text)}</a>")


def test_a_json_document_remains_the_same() -> None:
    document = list(EVERY)
    assert json.loads(printable(json.dumps(document, ensure_ascii=False))) == document


def test_stored_documents_have_no_control_character() -> None:
    content = json_bytes({"argv": [HOSTILE]})
    assert content.decode() == printable(content.decode())
    assert jsonfile.parse(content) == {"argv": [HOSTILE.replace("\udc80", "?")]}


def test_lines_and_tabs_stay() -> None:
    assert printable("a\tb\nü × –") == "a\tb\nü × –"


def test_the_command_prints_no_control_character() -> None:
    command = [sys.executable, "-c", "from harness.cli import main; main()"]
    done = subprocess.run(
        [*command, "doctor", "--host", HOSTILE, "--json"], capture_output=True, check=False
    )
    assert done.returncode == 2
    for output in (done.stdout, done.stderr):
        text = output.decode()
        assert text == printable(text) and "\\u001b" in text


def test_the_live_view_has_codes_of_its_own_alone() -> None:
    stream = PrintableStream(io.BytesIO(), "utf-8", write_through=True)
    console = Console(file=_with_codes(stream), force_terminal=True, width=200)
    with BarProgress(console) as bars:
        with bars.task(f"restore {HOSTILE}", 10, "B") as task:
            task.advance(5, HOSTILE)
        bars.say(f"warning: {HOSTILE}")
    shown = stream.buffer.getvalue().decode()  # type: ignore[attr-defined]
    assert "\x1b[" in shown  # the view's own
    assert "\\u001b]52" in shown
    for mark in ("\x1b]52", "\x07", "\x9b", "\x7f"):
        assert mark not in shown
