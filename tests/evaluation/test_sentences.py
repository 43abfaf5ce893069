import random
from dataclasses import replace

import pytest

from sonorant.corpus.manifest import Utterance
from sonorant.errors import SonorantError
from sonorant.evaluation.recordings import held_out, spoken_text


def utterance(id: str, split: str = "test", language: str = "en-us") -> Utterance:
    return Utterance(id=id, audio=f"{id}.wav", text=id, speaker="s", language=language, spoken=id, split=split)


def test_only_test_sentences_in_an_order_that_the_corpus_does_not_change() -> None:
    corpus = [utterance(f"u{number}", ("train", "test", "validation")[number % 3]) for number in range(90)]
    chosen = held_out(corpus, 10)
    assert len(chosen) == 10 and {u.split for u in chosen} == {"test"}
    random.Random(0).shuffle(corpus)
    assert held_out(corpus, 10) == chosen
    assert set(chosen) <= set(held_out([*corpus, utterance("another")], 11))
    assert [u.id for u in chosen] != sorted(u.id for u in chosen)


def test_the_most_frequent_language_is_judged_all_of_it_where_there_is_less_than_asked_for() -> None:
    corpus = [utterance("a"), utterance("b", language="de-de"), utterance("c", language="de-de")]
    assert {u.id for u in held_out(corpus, 160)} == {"b", "c"}


def test_an_empty_split_and_an_unprepared_utterance_are_refused() -> None:
    with pytest.raises(SonorantError, match=r"prepare\.test"):
        held_out([utterance("a", "train")], 10)
    with pytest.raises(SonorantError, match=r"utterance 'a'.*run the stage prepare"):
        spoken_text(Utterance(id="a", audio="a.wav", text="a", speaker="s", language="en-us"))


def test_a_sentence_that_training_read_is_not_called_held_out() -> None:
    learned, unread = utterance("learned"), utterance("unread")
    take = replace(learned, id="take", split="train")
    assert held_out([learned, unread, take], 10) == [unread]
    assert held_out([learned, take], 10) == [learned], "without another there is nothing else to judge by"
    again = replace(unread, id="again")
    assert len(held_out([unread, again], 10)) == 1, "one take a sentence"


def test_speakers_take_turns_so_that_each_is_judged() -> None:
    corpus = [replace(utterance(f"u{number}"), speaker="much" if number % 10 else "little") for number in range(100)]
    assert [u.speaker for u in held_out(corpus, 20)].count("little") == 10
    assert {u.id for u in held_out(corpus, 100)} == {u.id for u in corpus}
