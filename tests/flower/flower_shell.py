"""A process that has imported all of Flower, Ray and torch once, and forks: importing them takes most of a run's time.

Its first child holds a Ray and runs ``flwr`` commands: a line of stdin is a command, its words a JSON list; what it
prints is followed by a line ``--``. The first answer, to no command, is the address of the Ray. It ends with stdin.
Every other child is a ``flwr-simulation``, as the SuperLink asks for it through the script that ``write_script`` wrote.
"""

import json
import os
import signal
import socket
import sys
from importlib import import_module
from pathlib import Path

SCRIPT = """#!{python} -IS
import json, os, socket, sys
with socket.socket(socket.AF_UNIX) as shell:
    shell.connect({place!r})
    shell.sendall(json.dumps([sys.argv, dict(os.environ)]).encode())
"""


def write_script(folder: Path) -> None:
    """Write a ``flwr-simulation`` that hands its arguments and its environment to the process that serves a folder."""
    path = folder / "flwr-simulation"
    path.write_text(SCRIPT.format(python=Path(sys.executable).resolve(), place=str(folder / "shell")))
    path.chmod(0o755)


def main(folder: str, cpus: int) -> None:
    simulation = import_module("flwr.simulation.app").flwr_simulation
    for name in ("flwr.cli.app", "ray", "torch"):
        import_module(name)
    with socket.socket(socket.AF_UNIX) as asked:
        asked.bind(f"{folder}/shell")
        asked.listen()
        parent = os.getpid()
        if not os.fork():
            asked.close()
            shell(folder, cpus)
            os.kill(parent, signal.SIGTERM)
            os._exit(0)
        sys.stdin.close()
        os.dup2(2, 1)  # stdout is for the answers to commands
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # nobody asks how they ended: the SuperLink is told by themselves
        while True:
            with asked.accept()[0] as caller:
                words, environment = json.loads(b"".join(iter(lambda: caller.recv(65536), b"")))
            if not os.fork():
                asked.close()
                signal.signal(signal.SIGCHLD, signal.SIG_DFL)
                os.environ.clear()
                os.environ.update(environment)
                sys.argv = words
                simulation()
                os._exit(0)


def shell(folder: str, cpus: int) -> None:
    ray, flwr = import_module("ray"), import_module("flwr.cli.app").app
    ray.init("local", num_cpus=cpus, include_dashboard=False, log_to_driver=False, _temp_dir=folder)
    answer(ray.get_runtime_context().gcs_address)
    for line in sys.stdin:
        try:
            flwr(json.loads(line), standalone_mode=False)
        except Exception as error:  # noqa: BLE001 - told to who asked
            answer(f"{type(error).__name__}: {error}")
        else:
            answer("")
    ray.shutdown()


def answer(text: str) -> None:
    sys.stdout.write(f"{text}\n--\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
