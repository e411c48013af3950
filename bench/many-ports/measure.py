#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Starts and stops routers with many ports by turns, and says how long that takes.

measure.py PORTS ROUNDS PROGRAM...: each PROGRAM is a build of perigee. As root; in a network and mount namespace of its own, on veth pairs, of
which the router has one end. The wall clock says how long a start takes until the log says that the router runs, and how long an end takes from
SIGTERM to the end of the process; CPU time is of the router and its helpers, until it runs and in all.
"""

import os
import pathlib
import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time

INSIDE = "MEASURE_INSIDE"


def make_links(ports):
    """e0 to eN, under the ports, and their other ends."""
    words = "".join(f"link add e{n} type veth peer name p{n}\nlink set p{n} up\n" for n in range(ports))
    subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
    subprocess.run(["ip", "-b", "-"], input=words.encode(), check=True)


def write_configuration(folder, ports):
    """Each port has addresses of both families, and a twin."""
    lines = [f'[router]\nname = "many"\nsocket = "{folder}/socket"\n[eal]\nhugepages = false\n']
    for n in range(ports):
        addresses = f'["10.{n >> 8}.{n & 255}.1/24", "2001:db8:{n:x}::1/64"]'
        lines.append(f'[port.t{n}]\ninterface = "e{n}"\naddresses = {addresses}\n')
    path = folder / "router.toml"
    path.write_text("".join(lines))
    return path


def family(process):
    """A process and its descendants: the helper and its standby."""
    found = [process]
    for tasks in pathlib.Path(f"/proc/{process}/task").glob("*/children"):
        for child in tasks.read_text().split():
            found += family(int(child))
    return found


def cpu_time(processes):
    """Seconds of CPU time that they have taken."""
    ticks = 0
    for process in processes:
        fields = pathlib.Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def left_behind():
    """Twins that are still there, and interfaces that are still up."""
    shown = subprocess.run(["ip", "-o", "link"], capture_output=True, text=True, check=True).stdout
    names = [(line.split(": ")[1].split("@")[0], line) for line in shown.splitlines()]
    return [name for name, line in names if name[0] == "t" or (name[0] == "e" and ",UP" in line)]


def used():
    """CPU time of children that have ended and were waited for, their own children's included."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def start_and_stop(program, configuration, folder):
    """One round of one program."""
    log = folder / "log"
    before = used()
    begin = time.monotonic()
    with log.open("w") as output:
        router = subprocess.Popen([program, "run", str(configuration)], stdout=output, stderr=output)
    while "running; " not in log.read_text():
        if router.poll() is not None:
            sys.exit(f"{program} ended: {log.read_text()}")
        time.sleep(0.002)
    start = time.monotonic() - begin
    until_it_runs = cpu_time(family(router.pid))
    time.sleep(2)
    begin = time.monotonic()
    router.send_signal(signal.SIGTERM)
    status = router.wait()
    end = time.monotonic() - begin
    in_all = used() - before
    if status or left_behind():
        sys.exit(f"{program} ended with {status} and left {left_behind()}: {log.read_text()[-2000:]}")
    return {"start": start, "start CPU": until_it_runs, "end": end, "CPU": in_all}


def measure(ports, rounds, programs):
    """Who goes first changes from round to round."""
    make_links(ports)
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        configuration = write_configuration(folder, ports)
        results = {program: [] for program in programs}
        for round_ in range(rounds):
            for program in programs if round_ % 2 == 0 else programs[::-1]:
                result = start_and_stop(program, configuration, folder)
                results[program].append(result)
                figures = ", ".join(f"{what} {seconds:.2f} s" for what, seconds in result.items())
                print(f"{program}: {figures}, load {os.getloadavg()[0]:.0f}", flush=True)
    for program, of_program in results.items():
        for what in of_program[0]:
            all_ = sorted(result[what] for result in of_program)
            print(f"{program}: {what} {statistics.median(all_):.2f} s ({all_[0]:.2f} to {all_[-1]:.2f})")


if os.environ.get(INSIDE):
    measure(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
else:
    if len(sys.argv) < 4:
        sys.exit(__doc__)
    os.environ[INSIDE] = "1"
    os.execvp("unshare", ["unshare", "-nm", sys.executable, *sys.argv])
