"""What the README shows must work."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

from tests.amqp.broker_thread import BrokerThread

README = Path(__file__).parent.parent / "README.md"


def test_the_client_of_the_readme_sends_and_receives(tmp_path: Path) -> None:
    [example] = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)
    assert "127.0.0.1:5672" in example
    with BrokerThread(tmp_path, demo=True) as broker:
        program = example.replace("127.0.0.1:5672", f"127.0.0.1:{broker.port}")
        done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [f"hello {number}" for number in range(10)]
