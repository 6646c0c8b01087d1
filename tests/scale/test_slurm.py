#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Under a real Slurm: an array of jobs, as docs/scale.md has it, in whose translation tasks that are killed and
requeued change nothing; and a training of two ranks that srun starts.

Skipped without Slurm and munge, and without the right to start them, which root has."""
import os
import pathlib
import random
import shutil
import socket
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(os.environ["SOURCE_ROOT"])
TESSERA = os.environ["TESSERA"]
MODEL = ROOT / "tests/data/marian-en-fr"
SENTENCES = (ROOT / "tests/data/tatoeba/test.en").read_text(encoding="utf-8").splitlines()
SHARDS = 8
PATIENCE = 240  # seconds
SEED = int(os.environ.get("SLURM_SEED", time.time()))


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def until(what, condition):
    """Waits for a condition, and returns what it gives."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        result = condition()
        if result:
            return result
        time.sleep(0.1)
    raise TimeoutError(what)


class Slurm:
    """A controller and a node, and the daemon that they prove themselves by."""

    def __init__(self, folder):
        self.folder = folder
        host = socket.gethostname().split(".")[0]
        key = folder / "key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o600)
        for name in ("state", "spool"):
            (folder / name).mkdir()
        (folder / "slurm.conf").write_text(f"""
ClusterName=test
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={free_port()}
SlurmdPort={free_port()}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
SlurmUser=root
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
SlurmctldLogFile={folder}/slurmctld.log
SlurmdLogFile={folder}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
ReturnToService=2
KillWait=2
SchedulerParameters=sched_interval=5,batch_sched_delay=0,requeue_delay=1
NodeName={host} NodeAddr=127.0.0.1 CPUs=2 State=UNKNOWN
PartitionName=all Nodes={host} Default=YES State=UP MaxTime=INFINITE
""")
        self.environment = {**os.environ, "SLURM_CONF": str(folder / "slurm.conf"),
                            "PATH": os.environ["PATH"] + ":/usr/sbin:/sbin"}
        self.daemons = []
        self.start("munged", "--foreground", "--force", f"--key-file={key}", f"--socket={folder}/munge.socket",
                   f"--pid-file={folder}/munge.pid", f"--log-file={folder}/munge.log",
                   f"--seed-file={folder}/munge.seed")
        self.start("slurmctld", "-D", "-i")
        self.start("slurmd", "-D")

    def start(self, name, *words):
        with open(self.folder / f"{name}.errors", "w", encoding="utf-8") as errors:
            self.daemons.append(subprocess.Popen([name, *words], env=self.environment, stderr=errors, stdout=errors))

    def ask(self, *words, code=None):
        result = subprocess.run(words, env=self.environment, capture_output=True, text=True, check=False)
        if code is not None and result.returncode != code:
            raise RuntimeError(f"{words}: exit code {result.returncode}: {result.stderr}")
        return result.stdout.strip()

    def stop(self):
        for daemon in reversed(self.daemons):
            daemon.terminate()
        for daemon in self.daemons:
            try:
                daemon.wait(20)
            except subprocess.TimeoutExpired:
                daemon.kill()

    def tell(self):
        for path in sorted(self.folder.glob("*.log")) + sorted(self.folder.glob("*.errors")):
            print(f"---- {path.name}\n{path.read_text(errors='replace')[-3000:]}")


def has_mpi():
    return any((pathlib.Path(folder) / "libtessera-comm-mpi.so").exists()
               for folder in os.environ.get("TESSERA_BACKEND_PATH", "").split(":"))


def script_of_page():
    """What docs/scale.md calls translate.sbatch."""
    lines = (ROOT / "docs/scale.md").read_text(encoding="utf-8").splitlines()
    begin = lines.index("<!-- run: file translate.sbatch -->") + 2
    end = next(i for i in range(begin, len(lines)) if not lines[i].startswith("    "))
    return "\n".join(line[4:] for line in lines[begin:end]) + "\n"


def requeue(slurm, job, n, out, chance):
    """Requeues n tasks, each when it is at its shard: Slurm kills what runs of it. Another one takes the place of one
    that has ended before. Returns which."""
    others, tasks, wanted = chance.sample(range(SHARDS), SHARDS), [], []

    def look():
        while len(wanted) + len(tasks) < n:
            if not others:
                raise RuntimeError("all tasks ended before they could be requeued: is the corpus too small?")
            wanted.append(others.pop())
        for task in list(wanted):
            partial = out / f"shards/{task:05d}.txt.partial"
            state = slurm.ask("squeue", "-h", "-r", "-j", f"{job}_{task}", "-o", "%T")
            if partial.exists() and "RUNNING" in state:
                slurm.ask("scontrol", "requeue", f"{job}_{task}", code=0)
                tasks.append(task)
                wanted.remove(task)
            elif (out / f"shards/{task:05d}.txt").exists():
                wanted.remove(task)
        return len(tasks) == n

    until("tasks to requeue", look)
    return tasks


def begin_soon(slurm, job, tasks, pending):
    """Slurm lets what is requeued wait for two minutes. That is long here, but seconds are needed: a node tells a job
    that it has killed from the same job begun again by the second. pending: since when tasks wait."""
    for task in tasks:
        if "PENDING" not in slurm.ask("squeue", "-h", "-r", "-j", f"{job}_{task}", "-o", "%T"):
            pending.pop(task, None)
        elif time.monotonic() - pending.setdefault(task, time.monotonic()) > 2.5:
            slurm.ask("scontrol", "update", f"JobId={job}_{task}", "StartTime=now")


def check_array(slurm, folder, chance):
    """Tasks of an array that are killed and requeued."""
    corpus, out = folder / "corpus.en", folder / "out"
    corpus.write_text("".join(f"{SENTENCES[i % 1000]} {SENTENCES[i * 7 % 1000]}\n" for i in range(2400)),
                      encoding="utf-8")
    subprocess.run([TESSERA, "translate-corpus", "--model", str(MODEL), "--device", "cpu", "--out",
                    str(folder / "whole"), str(corpus)], check=True)
    (folder / "translate.sbatch").write_text(script_of_page())
    slurm.environment.update(MODEL=str(MODEL), OUT=str(out), CORPUS=str(corpus))
    job = slurm.ask("sbatch", "--parsable", f"--output={folder}/%a.task", f"{folder}/translate.sbatch", code=0)
    tasks = requeue(slurm, job, 2, out, chance)
    pending = {}

    def is_over():
        begin_soon(slurm, job, tasks, pending)
        return not slurm.ask("squeue", "-h", "-j", job, "-o", "%T")

    until("the end of all tasks", is_over)
    ran_twice = [task for task in range(SHARDS)
                 if "Restarts=1" in slurm.ask("scontrol", "show", "job", f"{job}_{task}")]
    print(f"requeued: {sorted(tasks)}; by Slurm's own account: {ran_twice}")
    assert ran_twice == sorted(tasks), "other tasks were begun again"
    result = (out / "translation.txt").read_bytes()
    assert result == (folder / "whole/translation.txt").read_bytes(), "another translation"
    assert not list(out.rglob("*.partial")), "a part of a shard is left"


def check_training(slurm, folder):
    """Two ranks that srun starts are the ranks of one training."""
    words = ["train", "--task", "reverse", "--vocab-size", "20", "--d-model", "32", "--heads", "2", "--d-ff", "64",
             "--encoder-layers", "1", "--decoder-layers", "1", "--batch-tokens", "200", "--device", "cpu"]
    alone, ranks = folder / "alone", folder / "ranks"
    subprocess.run([TESSERA, *words, "--steps", "20", "--accumulate", "2", "--out", str(alone)], check=True,
                   stdout=subprocess.DEVNULL)
    for more in (["--steps", "20"], ["--steps", "30", "--resume"]):
        told = slurm.ask("srun", "--mpi=pmix", "-n", "2", "--kill-on-bad-exit", f"{folder}/bin/tessera", *words, *more,
                         "--out", str(ranks), code=0)
        assert told.count("steps in") == 1, f"not one training: {told}"
        if "--resume" not in more:
            assert (ranks / "model.safetensors").read_bytes() == (alone / "model.safetensors").read_bytes(), \
                "two ranks under srun give another model than one with two batches"


def main():
    print(f"SLURM_SEED={SEED}")
    if os.geteuid() != 0 or not all(shutil.which(name, path=os.environ["PATH"] + ":/usr/sbin:/sbin")
                                    for name in ("munged", "slurmctld", "slurmd", "sbatch")):
        print("skipped: Slurm and munge are not installed, or the test does not run as root")
        return 77
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        folder.chmod(0o755)
        (folder / "bin").mkdir()
        (folder / "bin/tessera").symlink_to(TESSERA)
        slurm = Slurm(folder)
        try:
            until("the node", lambda: "idle" in slurm.ask("sinfo", "-h", "-o", "%T"))
            slurm.environment.update(TESSERA_DEVICE="cpu", PATH=f"{folder}/bin:{slurm.environment['PATH']}")
            if has_mpi():
                check_training(slurm, folder)
            else:
                print("this build has no transport over MPI: no training under srun")
            check_array(slurm, folder, random.Random(SEED))
        except BaseException:
            slurm.tell()
            for path in sorted(folder.glob("*.task")):
                print(f"---- {path.name}\n{path.read_text()}")
            raise
        finally:
            slurm.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
