#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Memory of `tessera transcribe`: that of a long sound is that of a short one.

usage: test_transcribe_memory.py FEW MANY

Transcribes so many minutes of made-up sound, from a WAV file and from a stream, and compares how much memory the
program had at most. The text of the few minutes is what the text of the many begins with, but for its last window."""
import array
import os
import pathlib
import random
import subprocess
import sys
import tempfile
import wave

GROWTH = 3  # MiB; a minute of sound has 1.8 MiB in 16 bits, and its features have as many
RATE = 16000


def write_sound(path, minutes):
    """A minute of noise whose level changes with each second, again and again."""
    draw = random.Random(1)
    minute = array.array("h")
    for _ in range(60):
        level = draw.choice((0, 100, 3000, 20000))
        minute.extend(draw.randint(-level, level) for _ in range(RATE))
    with wave.open(str(path), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(RATE)
        for _ in range(minutes):
            file.writeframes(minute.tobytes())


def transcribe(folder, sound, is_stream):
    """The lines of text, and the program's largest resident memory in MiB."""
    model = pathlib.Path(os.environ["SOURCE_ROOT"]) / "tests/data/goldens/speech/models/whisper_tiny_random"
    arguments = [os.environ["TESSERA"], "transcribe", "-" if is_stream else sound, "--model", model, "--device", "cpu",
                 "--language", "en", "--temperature", "0", "--output", "srt"]
    with open(sound, "rb") as stdin, open(folder / "text", "wb") as stdout:
        child = subprocess.Popen(arguments, stdin=stdin, stdout=stdout)
        _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    if child.returncode != 0:
        sys.exit(f"{' '.join(map(str, arguments))}: exit code {child.returncode}")
    return (folder / "text").read_text().splitlines(), usage.ru_maxrss / 1024


def main():
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        for is_stream in (False, True):
            found = []
            for minutes in map(int, sys.argv[1:3]):
                write_sound(folder / "sound.wav", minutes)
                found.append(transcribe(folder, folder / "sound.wav", is_stream))
                print(f"{'stream' if is_stream else 'file'}, {minutes} minutes: {len(found[-1][0])} lines, at most "
                      f"{found[-1][1]:.1f} MiB")
            (few_lines, few), (many_lines, many) = found
            window = 30 // 2 * 4  # lines: what the last window may hold, more than one each two seconds is none
            same = max(4, len(few_lines) - window)
            if many_lines[:same] != few_lines[:same] or len(many_lines) < 2 * len(few_lines):
                sys.exit("the long sound's text does not begin as the short one's does, or is not longer")
            if many > few + GROWTH:
                sys.exit(f"memory grows with the sound: {few:.1f} MiB, then {many:.1f} MiB")


if __name__ == "__main__":
    main()
