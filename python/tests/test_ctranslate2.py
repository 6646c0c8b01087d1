# SPDX-License-Identifier: Apache-2.0
"""tessera.ctranslate2 against what CTranslate2's own runtime gave."""

import inspect
import itertools
import json
import threading

import numpy as np
import pytest

import tessera
from conftest import DATA, MODEL, lines_of, run_python
from tessera import ctranslate2

FOLDERS = sorted(path.parent for path in (DATA / "ctranslate2").glob("tiny-*/golden.json"))
FOLDERS = [folder for folder in FOLDERS if folder.name != "tiny-multiquery-int8"]  # is refused
POSTNORM = DATA / "ctranslate2" / "tiny-postnorm-float32"


def golden_of(folder):
    return json.loads((folder / "golden.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def opened():
    with ctranslate2.Translator(POSTNORM) as translator:
        yield translator


@pytest.fixture(scope="module")
def golden():
    return golden_of(POSTNORM)


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.name)
def test_recorded(folder):
    golden = golden_of(folder)
    for kind, results in golden["results"].items():
        # What was computed in whole numbers is near; floats are equal but for the last digits.
        tolerance = 1e-4 if kind == "float32" else 0.05
        with ctranslate2.Translator(folder, compute_type="default" if kind == "int8" else kind) as translator:
            for what, expected in results.items():
                if what == "score":
                    found = translator.score_batch(golden["score_source"], golden["score_target"])
                    assert [pair.tokens for pair in found] == [pair["tokens"] for pair in expected]
                    for pair, wanted in zip(found, expected):
                        np.testing.assert_allclose(pair.log_probs, wanted["log_probs"], rtol=0, atol=tolerance)
                elif what != "encoder_output":
                    found = translator.translate_batch(
                        golden["source"], golden.get("target_prefix"), return_scores=True, **golden["options"][what]
                    )
                    for result, wanted in zip(found, expected):
                        assert result.hypotheses == [h["tokens"] for h in wanted], what
                        np.testing.assert_allclose(result.scores, [h["score"] for h in wanted], rtol=0, atol=tolerance)


def test_signature():
    """The arguments and their defaults are CTranslate2's."""
    found = {
        name: parameter.default
        for name, parameter in inspect.signature(ctranslate2.Translator.translate_batch).parameters.items()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    }
    assert found == {
        "max_batch_size": 0,
        "batch_type": "examples",
        "asynchronous": False,
        "beam_size": 2,
        "patience": 1,
        "num_hypotheses": 1,
        "length_penalty": 1,
        "coverage_penalty": 0,
        "repetition_penalty": 1,
        "no_repeat_ngram_size": 0,
        "disable_unk": False,
        "suppress_sequences": None,
        "end_token": None,
        "return_end_token": False,
        "max_input_length": 1024,
        "max_decoding_length": 256,
        "min_decoding_length": 1,
        "use_vmap": False,
        "return_scores": False,
        "return_attention": False,
        "return_alternatives": False,
        "min_alternative_expansion_prob": 0,
        "sampling_topk": 1,
        "sampling_topp": 1,
        "sampling_temperature": 1,
        "replace_unknowns": False,
        "callback": None,
    }


def test_results(opened, golden):
    plain = opened.translate_batch(golden["source"], max_decoding_length=20)
    assert all(result.scores == [] and result.attention == [] for result in plain)
    assert len(plain[0]) == 1 and plain[0][0] == {"tokens": plain[0].hypotheses[0]}
    # No argument changes the tokens that does not mean to.
    for changes in (
        {"max_batch_size": 2},
        {"max_batch_size": 64, "batch_type": "tokens"},
        {"return_scores": True},
        {"return_attention": True},
        {"max_input_length": 0},
    ):
        found = opened.translate_batch(golden["source"], max_decoding_length=20, **changes)
        assert [result.hypotheses for result in found] == [result.hypotheses for result in plain], changes
    assert opened.translate_batch([]) == []


def test_attention(opened, golden):
    result = opened.translate_batch(golden["source"][:1], return_attention=True, max_decoding_length=20)[0]
    weights = np.array(result.attention[0])
    assert weights.shape == (len(result.hypotheses[0]), len(golden["source"][0]))
    np.testing.assert_allclose(weights.sum(axis=1), 1, atol=1e-5)


def test_end_token(opened, golden):
    source = golden["source"]
    plain = [result.hypotheses[0] for result in opened.translate_batch(source, max_decoding_length=20)]
    ended = [
        result.hypotheses[0]
        for result in opened.translate_batch(source, max_decoding_length=20, return_end_token=True)
    ]
    assert any(tokens[-1:] == ["</s>"] for tokens in ended)
    assert [[token for token in tokens if token != "</s>"] for tokens in ended] == plain
    # Another token that ends: the first that comes out.
    token = plain[0][1]
    for end in (token, [token], [opened._folder.target.ids[token]]):
        found = opened.translate_batch(source[:1], beam_size=1, max_decoding_length=20, end_token=end)[0].hypotheses[0]
        assert token not in found
    with pytest.raises(tessera.InvalidArgumentError, match="no token 'nothing'"):
        opened.translate_batch(source, end_token="nothing")


def test_limits(opened, golden):
    source = golden["source"]
    assert all(len(r.hypotheses[0]) <= 3 for r in opened.translate_batch(source, max_decoding_length=3))
    # A source that is cut keeps its end token.
    long = source[4]
    cut = long[:5] + [long[-1]]
    assert long[-1] == "</s>"
    found = opened.translate_batch([long], max_input_length=6, max_decoding_length=20)[0].hypotheses
    assert found == opened.translate_batch([cut], max_decoding_length=20)[0].hypotheses


def test_suppressed(opened, golden):
    source = golden["source"]
    plain = opened.translate_batch(source, beam_size=1, max_decoding_length=20)[0].hypotheses[0]
    single = opened.translate_batch(source, beam_size=1, max_decoding_length=20, suppress_sequences=[[plain[0]]])
    assert plain[0] not in single[0].hypotheses[0]
    pair = list(plain[:2])
    found = opened.translate_batch(source, beam_size=1, max_decoding_length=20, suppress_sequences=[pair])
    tokens = found[0].hypotheses[0]
    assert tokens[0] == pair[0] and tokens[1] != pair[1]
    assert pair not in [list(pair_) for pair_ in zip(tokens, tokens[1:])]


def test_penalties(opened, golden):
    source = golden["source"]
    for changes in ({"no_repeat_ngram_size": 1}, {"repetition_penalty": 5.0}):
        found = opened.translate_batch(source, beam_size=1, max_decoding_length=12, **changes)[1].hypotheses[0]
        assert len(set(found)) == len(found)


def test_disable_unk():
    folder = DATA / "ctranslate2" / "tiny-pegasus-int8"
    with ctranslate2.Translator(folder, compute_type="float32") as translator:
        source = golden_of(folder)["source"]
        plain = translator.translate_batch(source, beam_size=1, max_decoding_length=20)
        assert any("<unk>" in result.hypotheses[0] for result in plain)
        found = translator.translate_batch(source, beam_size=1, max_decoding_length=20, disable_unk=True)
        assert not any("<unk>" in result.hypotheses[0] for result in found)


def test_alternatives(opened, golden):
    result = opened.translate_batch(
        golden["source"][:1], return_alternatives=True, num_hypotheses=5, max_decoding_length=20
    )[0]
    assert len({tokens[0] for tokens in result.hypotheses}) == 5


def test_sampling(opened, golden):
    def draw():
        found = opened.translate_batch(
            golden["source"], beam_size=1, sampling_topk=0, num_hypotheses=3, max_decoding_length=20, return_scores=True
        )
        return [result.hypotheses for result in found]

    ctranslate2.set_random_seed(3)
    first, second = draw(), draw()
    assert first != second
    ctranslate2.set_random_seed(3)
    assert draw() == first and draw() == second
    assert first[0][0] != first[0][1]


def test_callback(opened, golden):
    source = golden["source"]
    seen = []
    found = opened.translate_batch(source, beam_size=1, max_decoding_length=20, callback=lambda step: seen.append(step))
    for i, result in enumerate(found):
        tokens = [step.token for step in seen if step.batch_id == i]
        assert [token for token in tokens if token != "</s>"] == result.hypotheses[0]
        assert [step.step for step in seen if step.batch_id == i] == list(range(len(tokens)))
    stopped = opened.translate_batch(source, beam_size=1, max_decoding_length=20, callback=lambda step: step.step == 2)
    assert all(len(result.hypotheses[0]) <= 3 for result in stopped)

    def fail(_):
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        opened.translate_batch(source, beam_size=1, callback=fail)


def test_asynchronous(opened, golden):
    plain = opened.translate_batch(golden["source"], max_decoding_length=20)
    later = opened.translate_batch(golden["source"], max_decoding_length=20, asynchronous=True)
    assert [result.result().hypotheses for result in later] == [result.hypotheses for result in plain]
    assert all(result.done() for result in later)
    scores = opened.score_batch(golden["score_source"], golden["score_target"], asynchronous=True)
    wanted = golden["results"]["float32"]["score"]
    assert [pair.result().tokens for pair in scores] == [pair["tokens"] for pair in wanted]


DROPPED = """
import json, sys, threading
from tessera import ctranslate2
may_end = threading.Event()
found = ctranslate2.Translator(sys.argv[1]).translate_batch(
    [json.loads(sys.argv[2])], beam_size=1, callback=lambda _: not may_end.wait(), asynchronous=True
)
may_end.set()
print(bool(found[0].result().hypotheses))
"""


def test_dropped_with_work_to_do(golden):
    """The thread that does it is the last that holds the translator."""
    found = run_python(DROPPED, str(POSTNORM), json.dumps(golden["source"][0]), timeout=60)
    assert (found.returncode, found.stdout, found.stderr) == (0, "True\n", "")


def test_iterable(opened, golden):
    n_taken = 0

    def forever():
        nonlocal n_taken
        for tokens in itertools.cycle(golden["source"]):
            n_taken += 1
            yield tokens

    plain = opened.translate_batch(golden["source"], max_decoding_length=8)
    found = list(itertools.islice(opened.translate_iterable(forever(), max_decoding_length=8), 12))
    assert [r.hypotheses for r in found] == [plain[i % 5].hypotheses for i in range(12)]
    assert n_taken <= 2048
    with pytest.raises(tessera.UnsupportedError, match="asynchronous"):
        list(opened.translate_iterable(golden["source"], asynchronous=True))


def test_prefix_of_some(opened, golden):
    """Texts without a prefix among texts with one."""
    source = golden["source"][:3]
    plain = opened.translate_batch(source, max_decoding_length=20)
    token = plain[2].hypotheses[0][1]
    found = opened.translate_batch(source, [None, [token], []], max_decoding_length=20)
    assert found[1].hypotheses[0][0] == token
    assert [found[0].hypotheses, found[2].hypotheses] == [plain[0].hypotheses, plain[2].hypotheses]


def test_threads(opened, golden):
    plain = [r.hypotheses for r in opened.translate_batch(golden["source"], max_decoding_length=20)]
    wrong = []

    def work():
        found = opened.translate_batch(golden["source"], max_decoding_length=20)
        if [r.hypotheses for r in found] != plain:
            wrong.append(found)

    threads = [threading.Thread(target=work) for _ in range(50)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_refused(opened, golden):
    """What is not there is named."""
    source = golden["source"]
    for changes in ({"use_vmap": True}, {"min_alternative_expansion_prob": 0.1}, {"beam_size": 2, "sampling_topk": 5}):
        with pytest.raises(tessera.UnsupportedError, match=list(changes)[-1]):
            opened.translate_batch(source, **changes)
    with pytest.raises(TypeError, match="prefix_bias_beta"):
        opened.translate_batch(source, prefix_bias_beta=0.5)
    with pytest.raises(tessera.UnsupportedError, match="offset"):
        opened.score_batch(source, source, offset=1)
    with pytest.raises(tessera.InvalidArgumentError, match="batch_type"):
        opened.translate_batch(source, batch_type="words")
    with pytest.raises(tessera.InvalidArgumentError, match="callback"):
        opened.translate_batch(source, callback=lambda step: None)
    with pytest.raises(AttributeError, match="translate_file"):
        opened.translate_file("a", "b")
    for changes in ({"compute_type": "int16"}, {"device_index": 1}, {"tensor_parallel": True}, {"device": "cuda"}):
        with pytest.raises(tessera.UnsupportedError, match=list(changes)[0]):
            ctranslate2.Translator(POSTNORM, **changes)
    with pytest.raises(tessera.UnsupportedError, match="multi_query"):
        ctranslate2.Translator(DATA / "ctranslate2" / "tiny-multiquery-int8")


def test_of_another_kind(translator, english, beams):
    """A model that CTranslate2 did not write: tokens are those of its tokenizer."""
    with ctranslate2.Translator(MODEL) as other:
        source = [translator.tokens(translator.tokenize(text), source=True) for text in english[:40]]
        found = other.translate_batch(source, beam_size=1)
        ids = [[other._folder.target.ids[token] for token in result.hypotheses[0]] for result in found]
        texts = [translator.detokenize(one) for one in ids]
        assert texts == [str(t) for t in translator.translate(english[:40], beam=1)]


def test_closed(golden):
    translator = ctranslate2.Translator(POSTNORM)
    translator.close()
    translator.close()
    with pytest.raises(ValueError, match="closed"):
        translator.translate_batch(golden["source"])


def test_shortest():
    """Longer than the model would have it, and no longer than it must be."""
    source = [["\u2581He", "\u2581was", "\u2581late", ".", "</s>"]]
    with ctranslate2.Translator(DATA / "ctranslate2" / "marian-en-fr-int8", compute_type="float32") as translator:
        found = [translator.translate_batch(source, beam_size=1, min_decoding_length=n)[0] for n in (1, 7, 8)]
    assert [len(result.hypotheses[0]) for result in found] == [5, 7, 8]


@pytest.mark.parametrize("beam", [1, 4])
def test_recorded_texts(translator, english, beam):
    """The test sentences, by a model that was converted to int8 and computed in float32."""
    folder = DATA / "ctranslate2" / "marian-en-fr-int8"
    expected = lines_of(folder / "recorded" / f"int8.as-float32.beam{beam}.fr", 150)
    source = [translator.tokens(translator.tokenize(text), source=True) for text in english[:150]]
    with ctranslate2.Translator(folder, compute_type="float32") as converted:
        found = converted.translate_batch(source, beam_size=beam, return_scores=True)
    texts = ["".join(result.hypotheses[0]).replace("\u2581", " ").strip() for result in found]
    assert texts == expected
    pairs = [result.hypotheses[0] for result in found]
    with ctranslate2.Translator(folder, compute_type="float32") as converted:
        scored = converted.score_batch(source, pairs)
    means = [sum(pair.log_probs) / len(pair.log_probs) for pair in scored]
    np.testing.assert_allclose([result.scores[0] for result in found], means, atol=1e-4)
