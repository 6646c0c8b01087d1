# SPDX-License-Identifier: Apache-2.0
"""tessera.Translator against what is recorded, and what it promises."""

import asyncio
import gc
import json
import math
import os
import re
import shutil
import subprocess
import threading
import time

import numpy as np
import pytest

import tessera
from conftest import DATA, MODEL, run_python


def texts_of(translations):
    return [str(translation) for translation in translations]


def test_one_text(translator, english, greedy):
    found = translator.translate(english[0], beam=1, scores=True)
    assert isinstance(found, tessera.Translation)
    assert found.text == greedy[0] and str(found) == greedy[0]
    assert len(found.hypotheses) == 1 and -2 < found.score < 0
    assert found.n_parts == 1 and not found.is_source_cut and found.seconds > 0
    assert translator.detokenize(found.hypotheses[0].ids) == found.text
    plain = translator.translate(english[0], beam=1)
    assert math.isnan(plain.score) and plain == found


@pytest.mark.parametrize("n", [5, 260])  # through the queue, and together
def test_lists(translator, english, beams, n):
    assert texts_of(translator.translate(english[:n], beam=4)) == beams[:n]
    assert translator.translate([]) == []


def test_several_devices(english, beams):
    with tessera.Translator(MODEL, ["cpu", "cpu", "reference"], split=True) as split:
        assert split.devices == ["cpu:0", "cpu:0", "reference:0"] and split.device == "cpu:0"
        assert texts_of(split.translate(english[:6], beam=4)) == beams[:6]
        assert -9 < split.score(english[0], beams[0]).sum < 0
    with tessera.Translator(MODEL, ["cpu", "cpu"]) as replicas:
        assert texts_of(replicas.translate(english[:12], beam=4)) == beams[:12]
    with pytest.raises(ValueError, match="split over 2 devices or more, not over 1"):
        tessera.Translator(MODEL, "cpu", split=True)
    with pytest.raises(ValueError, match="no device"):
        tessera.Translator(MODEL, [])


def test_iterator(translator, english, greedy):
    """Ordered, and never more texts than the window in work."""
    n_taken = 0

    def source():
        nonlocal n_taken
        for text in english[:200]:
            n_taken += 1
            yield text

    for i, found in enumerate(translator.translate_iter(source(), window=16, beam=1)):
        assert found.text == greedy[i]
        assert n_taken <= i + 1 + 16
    assert i == 199
    with pytest.raises(ValueError, match="window"):
        translator.translate_iter([], window=0)


def test_iterator_left(translator, english):
    """Who leaves the loop leaves nothing behind."""
    for found in translator.translate_iter(english, window=64):
        break
    gc.collect()
    assert translator.translate(english[1]).text


def test_iterator_source_fails(translator, english):
    def source():
        yield english[0]
        raise RuntimeError("no more")

    with pytest.raises(RuntimeError, match="no more"):
        list(translator.translate_iter(source()))


def test_progress(translator, english, greedy, capsys):
    pytest.importorskip("tqdm")
    assert texts_of(translator.translate_iter(english[:3], progress=True, beam=1)) == greedy[:3]
    assert "3/3" in capsys.readouterr().err


def test_hypotheses(translator, english):
    found = translator.translate(english[4], beam=4, hypotheses=3)
    assert len({h.text for h in found.hypotheses}) == 3
    assert [h.score for h in found.hypotheses] == sorted((h.score for h in found.hypotheses), reverse=True)
    # More hypotheses than the folder's beam widen it.
    assert len(translator.translate(english[4], hypotheses=6).hypotheses) == 6


def test_alternatives(translator):
    found = translator.translate("The children are in the garden.", alternatives=4)
    assert len({h.ids[0] for h in found.hypotheses}) == 4


def test_prefix(translator):
    found = translator.translate("The children are in the garden.", prefix="Des")
    assert found.text.startswith("Des ")


def test_sampling(translator, english):
    def draw(seed, texts=english[:8]):
        return texts_of(translator.translate(texts, sample=True, seed=seed, hypotheses=2))

    first = draw(7)
    assert draw(7) == first and draw(8) != first
    pairs = translator.translate(english[:8], sample=True, seed=7, hypotheses=2)
    assert any(p.hypotheses[0].text != p.hypotheses[1].text for p in pairs)
    # The same draws, however the texts are searched.
    together = translator.translate(english[:260], sample=True, seed=7)
    assert texts_of(translator.translate_iter(english[:260], sample=True, seed=7)) == texts_of(together)


def test_lengths(translator, english):
    cut = translator.translate(english[4], max_length=4, beam=1)
    assert cut.hypotheses[0].is_cut and len(cut.hypotheses[0].ids) == 3
    long = translator.translate(english[0], min_length=12, beam=1)
    assert len(long.hypotheses[0].ids) >= 11


def test_long_input(translator):
    text = "The dog sleeps. " * 400
    assert translator.translate(text, max_length=8).is_source_cut
    assert translator.translate(text, long_input="split", max_length=8).n_parts > 1
    with pytest.raises(tessera.InvalidArgumentError, match="tokens"):
        translator.translate(text, long_input="error")
    with pytest.raises(tessera.InvalidArgumentError, match="text 1: "):
        translator.translate(["Hello.", text] + ["Hello."] * 300, long_input="error")


def test_blank_and_strange_texts(translator):
    blank = translator.translate(" ")
    assert blank.text == "" and blank.n_parts == 0
    assert translator.translate("\ud800 Hello\0!").text
    with pytest.raises(TypeError, match="a text must be a str, not int"):
        translator.translate([1])


def test_alignment(translator):
    text = "Élodie eats an apple."
    found = translator.translate(text, alignment=True, attention=True)
    best = found.hypotheses[0]
    assert "".join(best.text[b:e] for b, e in best.spans).replace(" ", "") == best.text.replace(" ", "")
    assert "".join(text[b:e] for b, e in found.source_spans).replace(" ", "") == text.replace(" ", "")
    assert len(best.aligned) == len(best.ids) and max(best.aligned) < len(found.source_ids)
    assert best.attention.shape == (len(best.ids), len(found.source_ids))
    np.testing.assert_allclose(best.attention.sum(axis=1), 1, atol=1e-5)


def test_options(translator, english, greedy):
    options = tessera.Options(beam=1)
    assert translator.translate(english[0], options).text == greedy[0]
    assert len(translator.translate(english[0], options, beam=2, hypotheses=2).hypotheses) == 2
    with pytest.raises(TypeError, match="there is no option 'beems'; there are alignment"):
        translator.translate("Hello.", beems=4)
    with pytest.raises(tessera.InvalidArgumentError, match="beam"):
        translator.translate("Hello.", beam=-1)
    with pytest.raises(tessera.InvalidArgumentError, match="beam=1099511627776: "):
        translator.translate("Hello.", beam=1 << 40)
    with pytest.raises(TypeError, match="max_length='long': "):
        translator.translate("Hello.", max_length="long")
    with pytest.raises(tessera.InvalidArgumentError, match="long_input"):
        translator.translate("Hello.", long_input="shorten")


def test_stream(translator, english, greedy):
    pieces = list(translator.stream(english[3], beam=1))
    assert len(pieces) > 2 and "".join(pieces) == greedy[3]
    for piece in translator.stream(english[3]):
        break
    with pytest.raises(tessera.InvalidArgumentError):
        list(translator.stream("The dog sleeps. " * 400, long_input="error"))


def test_async(translator, english, greedy):
    """A thousand at once share batches."""

    async def all_of_them():
        return await asyncio.gather(*[translator.translate_async(text, beam=1) for text in english])

    assert texts_of(asyncio.run(all_of_them())) == greedy


def test_async_cancel(translator, english, greedy):
    async def give_up():
        task = asyncio.ensure_future(translator.translate_async(english[0] * 20, beam=8))
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return await translator.translate_async(english[0], beam=1)

    assert asyncio.run(give_up()).text == greedy[0]


def test_busy_queue(english, greedy):
    """A queue that is full is waited for."""
    with tessera.Translator(MODEL, "cpu", queue_size=4, batch=4) as small:
        assert texts_of(small.translate_iter(english[:60], beam=1)) == greedy[:60]

        async def all_of_them():
            return await asyncio.gather(*[small.translate_async(text, beam=1) for text in english[:60]])

        assert texts_of(asyncio.run(all_of_them())) == greedy[:60]


def test_fifty_threads(translator, english, greedy):
    wrong = []

    def work(k):
        mine = english[k:500:50]
        found = translator.translate(mine, beam=1) if k % 2 else [translator.translate(text, beam=1) for text in mine]
        if texts_of(found) != greedy[k:500:50]:
            wrong.append(k)

    threads = [threading.Thread(target=work, args=(k,)) for k in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_python_goes_on(translator, english):
    """While the library computes, other threads of Python run."""
    n = 0
    is_over = threading.Event()

    def count():
        nonlocal n
        while not is_over.is_set():
            n += 1
            time.sleep(0)

    thread = threading.Thread(target=count)
    thread.start()
    before = n
    translator.translate(english[:260], beam=1)
    during = n - before
    is_over.set()
    thread.join()
    assert during > 100


def test_timeout(translator, english):
    with pytest.raises(tessera.DeadlineError) as caught:
        translator.translate(english[0] * 30, timeout=1e-9)
    assert isinstance(caught.value, TimeoutError)


def test_score(translator, english, greedy):
    found = translator.translate(english[0], beam=4)
    scored = translator.score(english[0], found.text)
    assert scored.score == pytest.approx(found.score, abs=1e-4)
    assert scored.sum == pytest.approx(sum(scored.log_probabilities), abs=1e-4)
    assert scored.ids == tuple(translator.tokenize(found.text, target=True))
    several = translator.score(english[:260], greedy[:260], length_penalty=0)
    assert len(several) == 260 and all(pair.score == pytest.approx(pair.sum) for pair in several)
    assert several[0].sum == pytest.approx(translator.score(english[0], greedy[0]).sum, abs=1e-4)
    with pytest.raises(tessera.InvalidArgumentError):
        translator.score(["a"], ["b", "c"])


def test_attention(translator, english, greedy):
    found = translator.attention(english[0])
    layers, heads, n_target, n_source = found.cross.shape
    assert n_target == len(found.target_tokens) == len(found.next_tokens) and n_source == len(found.source_tokens)
    assert found.encoder.shape == (layers, heads, n_source, n_source)
    assert found.decoder.shape == (layers, heads, n_target, n_target)
    for weights in (found.cross, found.encoder, found.decoder):
        np.testing.assert_allclose(weights.sum(axis=-1), 1, atol=1e-5)
    assert np.triu(found.decoder[0, 0], 1).max() == 0
    assert found.target_tokens[1:] == found.next_tokens[:-1]
    # The layer that the translation itself reports.
    best = translator.translate(english[0], attention=True).hypotheses[0]
    np.testing.assert_allclose(found.cross[-1].mean(axis=0), best.attention, atol=1e-4)
    given = translator.attention(english[0], "Bonjour.")
    assert given.target == "Bonjour." and given.next_tokens[-1] == "</s>"
    with pytest.raises(tessera.InvalidArgumentError, match="empty"):
        translator.attention(" ")


@pytest.mark.parametrize("target", [None, "Est-ce <vrai> ?"])
def test_attention_page(translator, tmp_path, target):
    """The page that `tessera attention` writes."""
    text = "Is 1 < 2? 'Yes'."
    command = [os.environ["TESSERA"], "attention", MODEL, "--device", "cpu", "--out", tmp_path / "page.html", text]
    subprocess.run(command + (["--target", target] if target else []), check=True, capture_output=True)
    found = translator.attention(text, target)
    data = re.compile("(?<=id='data'>).*?(?=</script>)", re.DOTALL)
    pages = [found.to_html(), (tmp_path / "page.html").read_text(encoding="utf-8")]
    assert data.sub("", pages[0]) == data.sub("", pages[1])
    numbers = [json.loads(data.search(page).group()) for page in pages]
    assert numbers[0] == numbers[1] and len(numbers[0]["kinds"]) == 3
    assert "<" not in data.search(pages[0]).group()
    assert found._repr_html_().startswith('<iframe srcdoc="&lt;!doctype html&gt;')


def test_tokens(translator):
    ids = translator.tokenize("Hello!")
    tokens = translator.tokens(ids, source=True)
    assert tokens[-1] == "</s>" and "".join(tokens[:-1]).replace("\u2581", " ").strip() == "Hello!"
    assert translator.detokenize(ids, source=True) == "Hello!"
    assert translator.detokenize([]) == ""
    with pytest.raises(tessera.InvalidArgumentError):
        translator.detokenize([1 << 20])


def test_precision(english):
    with tessera.Translator(MODEL, "cpu", "int8") as small:
        assert small.translate(english[0]).text
    with pytest.raises(tessera.InvalidArgumentError, match="precision='f8': there are f32, f16, bf16, int8"):
        tessera.Translator(MODEL, "cpu", "f8")


@pytest.fixture(scope="module")
def several_languages(tmp_path_factory):
    """A model of many languages whose vocabulary is cut to its size."""
    folder = tmp_path_factory.mktemp("m2m")
    goldens = DATA / "goldens"
    pieces = goldens / "tokenizers" / "m2m_100" / "sentencepiece.bpe.model"
    for path in [*(goldens / "models" / "m2m_100").iterdir(), pieces]:
        shutil.copy(path, folder)
    words = json.loads((goldens / "tokenizers" / "m2m_100" / "vocab.json").read_text(encoding="utf-8"))
    first = {word: i for word, i in words.items() if i < 43}
    (folder / "vocab.json").write_text(json.dumps(first), encoding="utf-8")
    return folder


def test_languages(several_languages):
    with tessera.Translator(several_languages, "cpu", target_language="fr") as several:
        assert {"fr", "zu"} <= set(several.languages)
        french = several.translate("a", max_length=8, beam=1).hypotheses[0]
        assert several.tokens(french.ids)[0] == "__fr__" and "__fr__" not in french.text
        zulu = several.translate("a", max_length=8, beam=1, target_language="zu").hypotheses[0]
        assert several.tokens(zulu.ids)[0] == "__zu__"
        assert several.tokens(several.score("a", "b").ids)[0] == "__fr__"
        with pytest.raises(tessera.InvalidArgumentError, match="xx"):
            several.translate("a", target_language="xx")
    with pytest.raises(tessera.InvalidArgumentError, match="xx"):
        tessera.Translator(several_languages, "cpu", source_language="xx")


def test_no_languages(translator):
    assert translator.languages == []
    with pytest.raises(tessera.InvalidArgumentError):
        translator.translate("Hello.", target_language="fra_Latn")


def test_errors_of_opening(tmp_path):
    with pytest.raises(tessera.FileError, match="config.json") as caught:
        tessera.Translator(tmp_path)
    assert isinstance(caught.value, OSError) and caught.value.status == 9
    with pytest.raises(tessera.FileError, match="there is no such folder; expected a model's folder"):
        tessera.Translator("Helsinki-NLP/opus-mt-en-de")
    with pytest.raises(tessera.NoDeviceError, match="cpu:0"):
        tessera.Translator(MODEL, "cpux")
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(tessera.FormatError, match="config.json"):
        tessera.Translator(tmp_path)


def test_closed(english):
    opened = tessera.Translator(MODEL, "cpu")
    later = opened.translate_iter(english)
    opened.close()
    opened.close()
    assert "closed" in repr(opened)
    every = (lambda: opened.translate("a"), lambda: opened.tokenize("a"), lambda: next(later), lambda: opened.device)
    for work in every:
        with pytest.raises(ValueError, match="closed"):
            work()


@pytest.mark.parametrize("n", [200, 1000])
def test_closed_by_another_thread(english, n):
    """What is under way is given up, and nothing hangs. On a busy machine it may have ended before the close."""
    outcome = []

    def work():
        try:
            outcome.append(opened.translate(english[:n], beam=16, min_length=200, max_length=256))
        except (tessera.CancelledError, ValueError) as error:
            outcome.append(error)

    for _ in range(20):
        opened = tessera.Translator(MODEL, "cpu")
        thread = threading.Thread(target=work)
        thread.start()
        while not opened._n_calls and not outcome and thread.is_alive():
            time.sleep(0.001)
        opened.close()
        thread.join(60)
        assert not thread.is_alive()
        if isinstance(outcome.pop(), Exception):
            return
    pytest.fail("all calls ended before the close")


def test_dropped(english):
    """One that nobody holds any more is freed, with texts on their way."""
    opened = tessera.Translator(MODEL, "cpu")
    stream = opened.stream(english[0] * 10, beam=8)
    next(stream)
    del opened, stream
    gc.collect()


DROPPED = """
import gc, queue, sys, threading, time, tessera
model, text = sys.argv[1:]
SimpleQueue, is_dropped, is_collected = queue.SimpleQueue, threading.Event(), threading.Event()
class Collecting:
    def __init__(self):
        self.queue = SimpleQueue()
    def get(self, **options):
        return self.queue.get(**options)
    def put(self, piece):
        self.queue.put(piece)
        if piece is not None:
            is_dropped.wait()
            gc.collect()
            is_collected.set()
def drop():
    translator = tessera.Translator(model, "cpu")
    held = [translator, translator.stream(text), translator.translate_iter([text] * 9)]
    next(held[2])
    next(held[1])
    held.append(held)  # so that the collector alone finds them
queue.SimpleQueue = Collecting
gc.disable()
drop()
is_dropped.set()
is_collected.wait()
while tessera._native._process.closers:
    gc.collect()
    time.sleep(0.01)
print("closed")
"""


def test_dropped_in_a_function_of_its_own(english):
    """What nobody holds any more is collected in whatever thread makes objects: here the library's, between pieces."""
    found = run_python(DROPPED, str(MODEL), english[0], timeout=60)
    assert (found.returncode, found.stdout, found.stderr) == (0, "closed\n", "")
